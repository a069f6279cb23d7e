// SPDX-License-Identifier: Apache-2.0
//
// Opening: nothing is created, grown or locked before everything that can be checked was checked, and a file that was
// created for nothing is removed again.
#include "driver/file/backing_file.h"

#include "base/retry.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <fstream>

namespace mqblk::driver::file {

namespace {

constexpr std::uint32_t page_bytes = memory::Buffer::page_bytes;
constexpr std::size_t zeroes_bytes = 64 * 1024;

/// A power of two from a hint of the system's, within reason.
std::uint32_t sane_block(std::uint64_t hint, std::uint32_t low) noexcept {
    return std::clamp(static_cast<std::uint32_t>(std::bit_floor(std::min<std::uint64_t>(hint, page_bytes))), low,
                      std::max(page_bytes, low));
}

/// What sysfs says of a block device; a partition has its disk's queue. 0 where it says nothing.
std::uint64_t queue_attribute(int fd, const char* name) {
    struct stat status{};
    if (::fstat(fd, &status) != 0) return 0;
    const std::string device = fmt::format("/sys/dev/block/{}:{}/", major(status.st_rdev), minor(status.st_rdev));
    for (const char* queue : {"queue/", "../queue/"}) {
        std::ifstream file(device + queue + name);
        std::uint64_t value = 0;
        if (file >> value) return value;
    }
    return 0;
}

}  // namespace

std::unexpected<Error> BackingFile::refuse(Errc code, std::string_view why) const {
    return fail(code, fmt::format("file {}: {}", path_, why));
}

std::unexpected<Error> BackingFile::failed(std::string_view attempted) const {
    return std::unexpected(Error::from_errno(errno, fmt::format("file {}: {}", path_, attempted)));
}

Result<std::unique_ptr<BackingFile>> BackingFile::open(const Options& options) {
    if (options.path.empty()) return fail(Errc::invalid_argument, "file: no path; write file:///path/to/file");
    std::unique_ptr<BackingFile> file(new BackingFile(options.path));
    if (options.bytes) {
        const auto checked = block::check_disk_options("file " + options.path, options.disk, *options.bytes);
        if (!checked) return std::unexpected(checked.error());
    }
    if (auto opened = file->open_descriptor(options); !opened) return std::unexpected(opened.error());
    if (auto locked = file->lock(options.disk.read_only); !locked) return std::unexpected(locked.error());
    if (auto sized = file->settle_size(options); !sized) return std::unexpected(sized.error());
    auto zeroes = memory::Buffer::allocate(zeroes_bytes);
    if (!zeroes) return std::unexpected(zeroes.error());
    file->zeroes_ = std::move(*zeroes);
    file->probe_direct(options);
    file->probe_abilities(options.disk.read_only);
    if (options.created != nullptr) *options.created = file->created_;
    file->created_ = false;
    return file;
}

BackingFile::~BackingFile() {
    if (created_) ::unlink(path_.c_str());
    if (fd_ < 0) return;
    // Explicitly: a ring that had the file registered may hold it for a moment longer than we do.
    ::flock(fd_, LOCK_UN);
    ::close(fd_);
}

Result<> BackingFile::open_descriptor(const Options& options) {
    struct stat status{};
    const bool exists = ::stat(path_.c_str(), &status) == 0;
    if (!exists && errno != ENOENT) return failed("cannot be looked up");
    int flags = O_CLOEXEC | O_NONBLOCK | (options.disk.read_only ? O_RDONLY : O_RDWR);
    if (!exists) {
        if (!options.bytes) return refuse(Errc::not_found, "no such file; give size= to create it, such as size=1G");
        if (options.disk.read_only) return refuse(Errc::not_found, "no such file, and read-only cannot create it");
        flags |= O_CREAT | O_EXCL;
    } else if (S_ISDIR(status.st_mode)) {
        return refuse(Errc::invalid_argument, "is a directory; name a file in it");
    } else if (S_ISBLK(status.st_mode)) {
        block_device_ = true;
        if (!options.disk.read_only) flags |= O_EXCL;  // refused while it is mounted
    } else if (!S_ISREG(status.st_mode)) {
        return refuse(Errc::invalid_argument, "is neither a regular file nor a block device");
    }
    fd_ = retry_while(EBUSY, [&] { return ::open(path_.c_str(), flags, 0600); });
    if (fd_ < 0 && (errno == EACCES || errno == EROFS || errno == EPERM) && exists && !options.disk.read_only) {
        return failed("cannot be opened for writing; give ro=1 to serve it as it is");
    }
    if (fd_ < 0 && errno == EBUSY) return failed("is in use, mounted perhaps; unmount it first");
    if (fd_ < 0) return failed(exists ? "cannot be opened" : "cannot be created");
    created_ = !exists;
    return {};
}

Result<> BackingFile::lock(bool read_only) {
    const int kind = (read_only ? LOCK_SH : LOCK_EX) | LOCK_NB;
    if (retry_while(EWOULDBLOCK, [&] { return ::flock(fd_, kind); }) == 0) return {};
    if (errno != EWOULDBLOCK) return failed("cannot be locked");
    return refuse(Errc::already_exists, read_only ? "is open for writing elsewhere; close it there first"
                                                  : "is in use elsewhere; close it there first, or give ro=1 to both");
}

Result<> BackingFile::settle_size(const Options& options) {
    struct stat status{};
    if (::fstat(fd_, &status) != 0) return failed("cannot be looked up");
    bytes_ = static_cast<std::uint64_t>(status.st_size);
    preferred_bytes_ = sane_block(static_cast<std::uint64_t>(status.st_blksize), options.disk.block);
    if (block_device_) {
        int logical = 0;
        unsigned physical = 0;
        std::uint64_t bytes = 0;
        if (::ioctl(fd_, BLKGETSIZE64, &bytes) != 0) return failed("cannot be asked for its size");
        bytes_ = bytes;
        if (::ioctl(fd_, BLKSSZGET, &logical) == 0 && static_cast<unsigned>(logical) > options.disk.block) {
            return refuse(Errc::invalid_argument,
                          fmt::format("has blocks of {0} bytes, block={1} is smaller; give block={0}", logical,
                                      options.disk.block));
        }
        if (::ioctl(fd_, BLKPBSZGET, &physical) == 0) preferred_bytes_ = sane_block(physical, options.disk.block);
    }
    if (options.bytes && *options.bytes != bytes_) {
        if (auto grown = grow(options, bytes_); !grown) return grown;
    }
    if (bytes_ == 0) return refuse(Errc::invalid_argument, "is empty; give size=, such as size=1G");
    const std::uint64_t block = options.disk.block;
    if (bytes_ % block != 0) {
        const std::uint64_t next = (bytes_ / block + 1) * block;
        return refuse(Errc::invalid_argument,
                      fmt::format("its size of {} bytes is not a multiple of block={}; give size={} to grow it",
                                  bytes(), block, next));
    }
    const auto checked = block::check_disk_options("file " + path_, options.disk, bytes_);
    return checked;
}

Result<> BackingFile::grow(const Options& options, std::uint64_t present) {
    const std::uint64_t wanted = *options.bytes;
    if (block_device_ || wanted < present) {
        return refuse(Errc::invalid_argument,
                      fmt::format("is {} bytes long, size={} is not; leave size= out", present, wanted));
    }
    if (options.disk.read_only) {
        return refuse(Errc::invalid_argument,
                      fmt::format("is {} bytes long and cannot grow to size={} read-only; leave one of them out",
                                  present, wanted));
    }
    if (auto grown = set_length(wanted); !grown) return grown;
    promise(wanted);
    return {};
}

Result<> BackingFile::set_length(std::uint64_t bytes) {
    if (block_device_) return refuse(Errc::not_supported, "is a block device: its size is not ours to change");
    if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0)
        return failed(fmt::format("cannot {} to {} bytes", bytes > bytes_ ? "grow" : "shrink", bytes));
    return {};
}

void BackingFile::probe_direct(const Options& options) {
    io_description_ = "through the page cache";
    if (!options.direct) return;
    const int flags = ::fcntl(fd_, F_GETFL);
    if (flags < 0 || ::fcntl(fd_, F_SETFL, flags | O_DIRECT) != 0) {
        io_description_ += " (the file system has no O_DIRECT)";
        return;
    }
    std::uint32_t memory_needs = page_bytes;
    std::uint32_t length_needs = options.disk.block;
    struct statx answer{};
    if (::statx(fd_, "", AT_EMPTY_PATH, STATX_DIOALIGN, &answer) == 0 && (answer.stx_mask & STATX_DIOALIGN) != 0 &&
        answer.stx_dio_mem_align != 0) {
        memory_needs = answer.stx_dio_mem_align;
        length_needs = answer.stx_dio_offset_align;
    }
    // What the file system says is tried once: some promise O_DIRECT and refuse each read.
    const auto trial = memory::Buffer::allocate(page_bytes);
    const bool works = trial && memory_needs <= page_bytes && length_needs <= options.disk.block &&
                       std::has_single_bit(memory_needs) && std::has_single_bit(length_needs) &&
                       ::pread(fd_, trial->data(), options.disk.block, 0) == static_cast<ssize_t>(options.disk.block);
    if (!works) {
        ::fcntl(fd_, F_SETFL, flags);
        io_description_ += length_needs > options.disk.block
                               ? fmt::format(" (O_DIRECT needs block={})", length_needs)
                               : std::string(" (O_DIRECT does not work on this file system)");
        return;
    }
    direct_ = true;
    memory_alignment_ = memory_needs;
    length_alignment_ = length_needs;
    io_description_ = "O_DIRECT";
}

void BackingFile::probe_abilities(bool read_only) {
    struct statfs system{};
    blocks_submitter_ = ::fstatfs(fd_, &system) != 0 || system.f_type == FUSE_SUPER_MAGIC;
    if (read_only) {
        punches_holes = zeroes_ranges = false;
        return;
    }
    // A hole beyond the end changes nothing, and tells whether holes can be made. A device has no "beyond", but says
    // whether it can zero by itself, which is what a hole in it is, and whether it can discard.
    if (block_device_) {
        punches_holes = queue_attribute(fd_, "write_zeroes_max_bytes") != 0;
        discards = queue_attribute(fd_, "discard_max_bytes") != 0;
        return;
    }
    const auto beyond = static_cast<off_t>((bytes_ + page_bytes - 1) / page_bytes * page_bytes);
    punches_holes = ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, beyond, page_bytes) == 0;
}

void BackingFile::describe(QueueLimits& limits) const {
    limits.physical_block_size = limits.io_min = std::max(preferred_bytes_, limits.logical_block_size);
    limits.discard_granularity = limits.physical_block_size;
    limits.write_cache = true;
    limits.fua = true;
    if (block_device_) {
        unsigned short rotational = 0;
        if (::ioctl(fd_, BLKROTATIONAL, &rotational) == 0) limits.rotational = rotational != 0;
        unsigned optimal = 0;
        if (::ioctl(fd_, BLKIOOPT, &optimal) == 0 && optimal % limits.logical_block_size == 0) limits.io_opt = optimal;
        const std::uint64_t granule = queue_attribute(fd_, "discard_granularity");
        if (granule >= limits.logical_block_size && granule % limits.logical_block_size == 0 && granule <= UINT32_MAX)
            limits.discard_granularity = static_cast<std::uint32_t>(granule);
    }
}

}  // namespace mqblk::driver::file
