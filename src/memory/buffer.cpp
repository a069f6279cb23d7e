// SPDX-License-Identifier: Apache-2.0
//
// Memory by mmap, whole pages, never reserved in advance.
#include "memory/buffer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mqblk::memory {

namespace {

/// Below this a memset is cheaper than the system call and the faults that follow it.
constexpr std::size_t worth_releasing_bytes = 4 * Buffer::page_bytes;

/// Its size is sealed: who maps it need not fear that it shrinks below what was mapped.
int shared_memory_file(std::size_t bytes) noexcept {
    const int fd = ::memfd_create("mqblk", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return -1;
    if (::ftruncate(fd, static_cast<off_t>(bytes)) == 0 &&
        ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
        return fd;
    }
    const int problem = errno;
    ::close(fd);
    errno = problem;
    return -1;
}

struct Pages {
    std::size_t offset, bytes;
};

/// The whole pages within a range.
Pages whole_pages(std::size_t offset, std::size_t bytes) noexcept {
    const std::size_t first = (offset + Buffer::page_bytes - 1) / Buffer::page_bytes * Buffer::page_bytes;
    const std::size_t last = (offset + bytes) / Buffer::page_bytes * Buffer::page_bytes;
    return first < last ? Pages{first, last - first} : Pages{offset, 0};
}

/// Back to the system; they read as zero from now on.
bool drop(std::byte* data, std::size_t bytes, bool shared) noexcept {
    return ::madvise(data, bytes, shared ? MADV_REMOVE : MADV_DONTNEED) == 0;
}

}  // namespace

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      fd_(std::exchange(other.fd_, -1)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(fd_, other.fd_);
    return *this;
}

Buffer::~Buffer() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
    if (fd_ >= 0) ::close(fd_);
}

Result<Buffer> Buffer::allocate(std::size_t bytes, Backing backing) {
    if (bytes == 0 || bytes > ~std::size_t{0} / 2) {
        return fail(Errc::invalid_argument, fmt::format("memory of {} bytes: must be 1 or more, below 2^63", bytes));
    }
    Buffer result;
    result.bytes_ = (bytes + page_bytes - 1) / page_bytes * page_bytes;
    const auto failed = [&] {
        return std::unexpected(Error::from_errno(errno, fmt::format("memory of {} bytes", bytes)));
    };
    int flags = MAP_NORESERVE;
    if (backing == Backing::shared) {
        result.fd_ = shared_memory_file(result.bytes_);
        if (result.fd_ < 0) return failed();
        flags |= MAP_SHARED;
    } else {
        flags |= MAP_PRIVATE | MAP_ANONYMOUS;
    }
    void* const mapped = ::mmap(nullptr, result.bytes_, PROT_READ | PROT_WRITE, flags, result.fd_, 0);
    if (mapped == MAP_FAILED) return failed();
    result.data_ = static_cast<std::byte*>(mapped);
    ::madvise(mapped, result.bytes_, MADV_DONTDUMP);
    return result;
}

void Buffer::zero(std::size_t offset, std::size_t bytes) noexcept {
    const Pages pages = whole_pages(offset, bytes);
    if (pages.bytes < worth_releasing_bytes || !drop(data_ + pages.offset, pages.bytes, fd_ >= 0)) {
        std::memset(data_ + offset, 0, bytes);
        return;
    }
    const std::size_t after = pages.offset + pages.bytes;
    std::memset(data_ + offset, 0, pages.offset - offset);
    std::memset(data_ + after, 0, offset + bytes - after);
}

void Buffer::release(std::size_t offset, std::size_t bytes) noexcept {
    const Pages pages = whole_pages(offset, bytes);
    if (pages.bytes != 0) drop(data_ + pages.offset, pages.bytes, fd_ >= 0);
}

Result<> Buffer::populate(std::size_t bytes) noexcept {
    const Pages pages = whole_pages(0, std::min(bytes, bytes_));
    if (pages.bytes == 0 || ::madvise(data_, pages.bytes, MADV_POPULATE_WRITE) == 0) return {};
    return std::unexpected(Error::from_errno(errno, fmt::format("take memory of {} bytes at once", bytes)));
}

void Buffer::prefer_large_pages() noexcept {
    ::madvise(data_, bytes_, MADV_HUGEPAGE);
}

}  // namespace mqblk::memory
