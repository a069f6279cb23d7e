// SPDX-License-Identifier: Apache-2.0
#include "registry/resize.h"

#include "block/device_core.h"
#include "block/queue.h"
#include "driver/ram/ram.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

namespace mqblk::registry {

namespace {

Result<> set_file_length(const std::string& path, std::uint64_t bytes) {
    struct stat status{};
    if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
        return fail(Errc::not_supported, fmt::format("{} is no regular file: its size is not ours to change", path));
    }
    if (::truncate(path.c_str(), static_cast<off_t>(bytes)) == 0) return {};
    return std::unexpected(Error::from_errno(errno, fmt::format("resizing {} to {} bytes", path, bytes)));
}

}  // namespace

Result<> resize_device(Device& device, const Uri& uri, std::uint64_t bytes) {
    const auto limits = device.core().disk_limits();
    const std::uint64_t block = limits.logical_block_size;
    if (bytes == 0 || bytes % block != 0 || bytes > std::numeric_limits<std::int64_t>::max()) {
        return fail(Errc::invalid_argument,
                    fmt::format("{} bytes are no size for a device with blocks of {} bytes; use "
                                "a multiple of that, such as {}",
                                bytes, block, (bytes / block + 1) * block));
    }
    if (uri.scheme == "ram") return driver::ram::resize(device, bytes);
    if (uri.scheme == "file") {
        // The file is never shorter than the disk says, or reads would meet its end.
        const bool grow = bytes > device.sectors() * sector_bytes;
        if (grow) {
            if (auto ok = set_file_length(uri.path, bytes); !ok) return ok;
        }
        block::update_disk(device, limits, bytes / sector_bytes, device.read_only());
        return grow ? Result<>{} : set_file_length(uri.path, bytes);
    }
    if (uri.scheme == "null") {
        block::update_disk(device, limits, bytes / sector_bytes, device.read_only());
        return {};
    }
    return fail(
        Errc::not_supported,
        fmt::format("a device of kind \"{}\" cannot be resized here; null, ram and file devices can", uri.scheme));
}

}  // namespace mqblk::registry
