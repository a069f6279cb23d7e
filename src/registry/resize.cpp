// SPDX-License-Identifier: Apache-2.0
#include "registry/resize.h"

#include "block/device_core.h"
#include "block/queue.h"
#include "driver/file/file.h"
#include "driver/ram/ram.h"

#include <fmt/format.h>

#include <limits>

namespace mqblk::registry {

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
    if (uri.scheme == "file") return driver::file::resize(device, bytes);
    if (uri.scheme == "null") {
        block::update_disk(device, limits, bytes / sector_bytes, device.read_only());
        return {};
    }
    return fail(
        Errc::not_supported,
        fmt::format("a device of kind \"{}\" cannot be resized here; null, ram and file devices can", uri.scheme));
}

}  // namespace mqblk::registry
