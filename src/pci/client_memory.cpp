// SPDX-License-Identifier: Apache-2.0
#include "pci/client_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

namespace mqblk::pci {

namespace {

using wire::vfio_user::DmaMap;

constexpr std::uint64_t client_page = 4096;
constexpr std::uint64_t largest_offset = std::numeric_limits<off_t>::max();

/// Plain shared memory: not on huge pages, which may run out at any access, nor on a file system that may not answer.
bool is_tmpfs(int fd) noexcept {
    struct statfs system{};
    return ::fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

/// -1 if it is no regular file.
std::int64_t file_bytes(int fd) noexcept {
    struct stat status{};
    if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return -1;
    return status.st_size;
}

}  // namespace

bool safe_to_map(int fd, std::uint64_t bytes) noexcept {
    if (!is_tmpfs(fd)) return false;
    const int seals = ::fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return false;
    const std::int64_t size = file_bytes(fd);  // after the seal was seen: it only grows now
    return size >= 0 && bytes <= static_cast<std::uint64_t>(size);
}

/// One range, and how it is reached where it has no pointer.
class ClientMemory::Region final : public RemoteMemory {
  public:
    Region(DmaMessenger& messenger, std::uint64_t address, std::uint64_t bytes) noexcept
        : messenger_(messenger), address_(address), bytes_(bytes) {}
    ~Region() override {
        if (mapped_ != nullptr) ::munmap(mapped_, bytes_);
    }
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    /// 0 or an errno. The mapping needs no descriptor once it is made.
    int map(const OwnedFd& file, std::uint64_t offset, int protection) noexcept {
        void* const at =
            ::mmap(nullptr, bytes_, protection, MAP_SHARED | MAP_NORESERVE, file.get(), static_cast<off_t>(offset));
        if (at == MAP_FAILED) return errno;
        ::madvise(at, bytes_, MADV_DONTDUMP);
        ::madvise(at, bytes_, MADV_DONTFORK);
        mapped_ = static_cast<std::byte*>(at);
        return 0;
    }
    void use_file(OwnedFd file, std::uint64_t offset) noexcept {
        file_ = std::move(file);
        offset_ = offset;
    }

    bool read(std::uint64_t offset, std::span<std::byte> to) noexcept override {
        if (!file_) return messenger_.dma_read(address_ + offset, to);
        while (!to.empty()) {
            const auto got = ::pread(file_.get(), to.data(), to.size(), static_cast<off_t>(offset_ + offset));
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) return false;
            to = to.subspan(static_cast<std::size_t>(got));
            offset += static_cast<std::uint64_t>(got);
        }
        return true;
    }
    bool write(std::uint64_t offset, std::span<const std::byte> from) noexcept override {
        if (!file_) return messenger_.dma_write(address_ + offset, from);
        // A write past the end would make the file longer: the client's to decide, as it was the client's to shorten.
        const std::int64_t size = file_bytes(file_.get());
        if (size < 0 || offset_ + offset + from.size() > static_cast<std::uint64_t>(size)) return false;
        while (!from.empty()) {
            const auto put = ::pwrite(file_.get(), from.data(), from.size(), static_cast<off_t>(offset_ + offset));
            if (put < 0 && errno == EINTR) continue;
            if (put <= 0) return false;
            from = from.subspan(static_cast<std::size_t>(put));
            offset += static_cast<std::uint64_t>(put);
        }
        return true;
    }

    [[nodiscard]] std::byte* mapped() const noexcept { return mapped_; }
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

  private:
    DmaMessenger& messenger_;
    const std::uint64_t address_, bytes_;
    std::byte* mapped_ = nullptr;
    OwnedFd file_;
    std::uint64_t offset_ = 0;
};

ClientMemory::ClientMemory(HostMemory& memory, DmaMessenger& messenger) noexcept
    : memory_(memory), messenger_(messenger) {}

ClientMemory::~ClientMemory() = default;

int ClientMemory::map(const DmaMap& request, OwnedFd file) {
    const bool readable = (request.flags & wire::vfio_user::dma_readable) != 0;
    const bool writable = (request.flags & wire::vfio_user::dma_writable) != 0;
    if ((request.flags & ~wire::vfio_user::dma_flags) != 0 || request.size == 0 ||
        request.size - 1 > ~request.address || (request.address | request.size) % client_page != 0) {
        return EINVAL;
    }
    if (regions_.size() >= max_regions) return ENOSPC;
    auto region = std::make_unique<Region>(messenger_, request.address, request.size);
    if (file) {
        if (request.offset % client_page != 0 || request.offset > largest_offset ||
            request.size > largest_offset - request.offset) {
            return EINVAL;
        }
        const std::int64_t size = file_bytes(file.get());
        const std::uint64_t end = request.offset + request.size;
        if (size >= 0 && end > static_cast<std::uint64_t>(size)) return EINVAL;
        if (safe_to_map(file.get(), end)) {
            if (request.size > max_mapped_bytes - mapped_bytes_) return ENOMEM;
            const int protection = (readable ? PROT_READ : 0) | (writable ? PROT_WRITE : 0);
            if (const int error = region->map(file, request.offset, protection); error != 0) return error;
        } else if (size >= 0 && is_tmpfs(file.get())) {
            region->use_file(std::move(file), request.offset);
        }
    }
    const MemoryRegion added{.address = request.address,
                             .bytes = request.size,
                             .memory = region->mapped(),
                             .remote = region->mapped() == nullptr ? region.get() : nullptr,
                             .readable = readable,
                             .writable = writable};
    if (!memory_.add(added)) return EEXIST;
    if (region->mapped() != nullptr) mapped_bytes_ += request.size;
    regions_.emplace(request.address, std::move(region));
    return 0;
}

int ClientMemory::unmap(std::uint64_t address, std::uint64_t bytes) {
    if (bytes == 0 || bytes - 1 > ~address) return EINVAL;
    const std::uint64_t last = address + (bytes - 1);
    const auto first = regions_.lower_bound(address);
    const auto end = regions_.upper_bound(last);
    // A part of a range cannot go: neither of the last one nor of one that began before.
    if (first != end && std::prev(end)->second->bytes() - 1 > last - std::prev(end)->first) return EINVAL;
    if (first != regions_.begin()) {
        const auto before = std::prev(first);
        if (address - before->first < before->second->bytes()) return EINVAL;
    }
    for (auto each = first; each != end; ++each) {
        static_cast<void>(memory_.remove(each->first, each->second->bytes()));
        if (each->second->mapped() != nullptr) mapped_bytes_ -= each->second->bytes();
        retired_.push_back(std::move(each->second));
    }
    regions_.erase(first, end);
    return 0;
}

void ClientMemory::unmap_all() {
    memory_.clear();
    for (auto& [address, region] : regions_) retired_.push_back(std::move(region));
    regions_.clear();
    mapped_bytes_ = 0;
}

bool ClientMemory::drained() {
    if (!memory_.drained()) return false;
    retired_.clear();
    return true;
}

std::size_t ClientMemory::mapped_regions() const noexcept {
    std::size_t count = 0;
    for (const auto& [address, region] : regions_) count += region->mapped() != nullptr ? 1 : 0;
    return count;
}

}  // namespace mqblk::pci
