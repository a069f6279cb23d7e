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

/// A memory file, once for all the ranges that lie in it: a monitor with an IOMMU maps its memory page by page. Mapped
/// as a whole where that is safe, else kept open.
class ClientMemory::File {
  public:
    File(const struct stat& status, int protection) noexcept
        : device_(status.st_dev),
          inode_(status.st_ino),
          bytes_(static_cast<std::uint64_t>(status.st_size)),
          protection_(protection) {}
    ~File() {
        if (memory_ != nullptr) ::munmap(memory_, bytes_);
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    /// 0 or an errno. Mapped, it needs no descriptor.
    int open(OwnedFd fd, bool mapped) noexcept {
        if (!mapped) {
            fd_ = std::move(fd);
            return 0;
        }
        void* const at = ::mmap(nullptr, bytes_, protection_, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
        if (at == MAP_FAILED) return errno;
        ::madvise(at, bytes_, MADV_DONTDUMP);
        ::madvise(at, bytes_, MADV_DONTFORK);
        memory_ = static_cast<std::byte*>(at);
        return 0;
    }
    [[nodiscard]] bool serves(const struct stat& status, int protection, bool mapped,
                              std::uint64_t end) const noexcept {
        return status.st_dev == device_ && status.st_ino == inode_ && protection == protection_ &&
               mapped == (memory_ != nullptr) && (!mapped || end <= bytes_);
    }
    [[nodiscard]] std::byte* memory() const noexcept { return memory_; }
    [[nodiscard]] std::uint64_t mapped_bytes() const noexcept { return memory_ != nullptr ? bytes_ : 0; }

    [[nodiscard]] bool read(std::uint64_t offset, std::span<std::byte> to) const noexcept {
        while (!to.empty()) {
            const auto got = ::pread(fd_.get(), to.data(), to.size(), static_cast<off_t>(offset));
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) return false;
            to = to.subspan(static_cast<std::size_t>(got));
            offset += static_cast<std::uint64_t>(got);
        }
        return true;
    }
    [[nodiscard]] bool write(std::uint64_t offset, std::span<const std::byte> from) const noexcept {
        // A write past the end would make the file longer: the client's to decide, as it was the client's to shorten.
        const std::int64_t size = file_bytes(fd_.get());
        if (size < 0 || offset + from.size() > static_cast<std::uint64_t>(size)) return false;
        while (!from.empty()) {
            const auto put = ::pwrite(fd_.get(), from.data(), from.size(), static_cast<off_t>(offset));
            if (put < 0 && errno == EINTR) continue;
            if (put <= 0) return false;
            from = from.subspan(static_cast<std::size_t>(put));
            offset += static_cast<std::uint64_t>(put);
        }
        return true;
    }

  private:
    const dev_t device_;
    const ino_t inode_;
    const std::uint64_t bytes_;
    const int protection_;
    std::byte* memory_ = nullptr;
    OwnedFd fd_;
};

/// One range, and how it is reached where it has no pointer. Without a file the client is asked.
class ClientMemory::Region final : public RemoteMemory {
  public:
    Region(DmaMessenger& messenger, std::uint64_t address, std::uint64_t bytes, std::shared_ptr<File> file,
           std::uint64_t offset) noexcept
        : messenger_(messenger), address_(address), bytes_(bytes), file_(std::move(file)), offset_(offset) {}
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    bool read(std::uint64_t offset, std::span<std::byte> to) noexcept override {
        return file_ ? file_->read(offset_ + offset, to) : messenger_.dma_read(address_ + offset, to);
    }
    bool write(std::uint64_t offset, std::span<const std::byte> from) noexcept override {
        return file_ ? file_->write(offset_ + offset, from) : messenger_.dma_write(address_ + offset, from);
    }

    [[nodiscard]] std::byte* mapped() const noexcept {
        return file_ && file_->memory() != nullptr ? file_->memory() + offset_ : nullptr;
    }
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

  private:
    DmaMessenger& messenger_;
    const std::uint64_t address_, bytes_;
    const std::shared_ptr<File> file_;
    const std::uint64_t offset_;  ///< in the file
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
    std::shared_ptr<File> whole;
    if (file) {
        if (request.offset % client_page != 0 || request.offset > largest_offset ||
            request.size > largest_offset - request.offset) {
            return EINVAL;
        }
        const int protection = (readable ? PROT_READ : 0) | (writable ? PROT_WRITE : 0);
        const int error = find_file(std::move(file), protection, request.offset + request.size, whole);
        if (error != 0) return error;
    }
    auto region = std::make_unique<Region>(messenger_, request.address, request.size, std::move(whole), request.offset);
    const MemoryRegion added{.address = request.address,
                             .bytes = request.size,
                             .memory = region->mapped(),
                             .remote = region->mapped() == nullptr ? region.get() : nullptr,
                             .readable = readable,
                             .writable = writable};
    if (!memory_.add(added)) return EEXIST;
    regions_.emplace(request.address, std::move(region));
    return 0;
}

/// What is known of that file, opened if need be; none where the client has to be asked. 0 or an errno.
int ClientMemory::find_file(OwnedFd fd, int protection, std::uint64_t end, std::shared_ptr<File>& file) {
    struct stat status{};
    if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return 0;
    if (end > static_cast<std::uint64_t>(status.st_size)) return EINVAL;
    if (!is_tmpfs(fd.get())) return 0;
    const bool mapped = safe_to_map(fd.get(), static_cast<std::uint64_t>(status.st_size));
    std::erase_if(files_, [](const auto& known) { return known.expired(); });
    std::uint64_t mapped_bytes = mapped ? static_cast<std::uint64_t>(status.st_size) : 0;
    for (const auto& known : files_) {
        auto candidate = known.lock();
        if (candidate->serves(status, protection, mapped, end)) {
            file = std::move(candidate);
            return 0;
        }
        mapped_bytes += candidate->mapped_bytes();
    }
    if (mapped_bytes > max_mapped_bytes || files_.size() >= max_files) return ENOMEM;
    auto opened = std::make_shared<File>(status, protection);
    if (const int error = opened->open(std::move(fd), mapped); error != 0) return error;
    files_.push_back(opened);
    file = std::move(opened);
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
    memory_.remove_within(address, last);
    for (auto each = first; each != end; ++each) retired_.push_back(std::move(each->second));
    regions_.erase(first, end);
    return 0;
}

void ClientMemory::unmap_all() {
    memory_.clear();
    for (auto& [address, region] : regions_) retired_.push_back(std::move(region));
    regions_.clear();
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
