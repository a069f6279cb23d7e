// SPDX-License-Identifier: Apache-2.0
//
// One check for all local disks, so that each wrong value gives the same sentence everywhere.
#include "block/disk_options.h"

#include "block/tag_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace mqblk::block {

namespace {
constexpr unsigned max_queues = 1024;
constexpr std::uint64_t max_size_bytes = std::uint64_t{1} << 62;  // so that no file offset or address arithmetic wraps
}  // namespace

Result<> check_disk_options(std::string_view what, const DiskOptions& options, std::uint64_t bytes) {
    const auto refuse = [&](std::string why) { return fail(Errc::invalid_argument, fmt::format("{}: {}", what, why)); };
    if (options.block != 512 && options.block != 4096) {
        return refuse(fmt::format("block={}: must be 512 or 4096", options.block));
    }
    if (options.queues > max_queues) {
        return refuse(
            fmt::format("queues={}: must be from 1 to {}, or 0 for one per processor", options.queues, max_queues));
    }
    if (options.depth == 0 || options.depth > TagSet::max_tags) {
        return refuse(fmt::format("depth={}: must be from 1 to {}", options.depth, TagSet::max_tags));
    }
    if (bytes == 0) return refuse("size=0: must be at least one block; give size=, such as size=1G");
    if (bytes > max_size_bytes) return refuse(fmt::format("size={}: must be at most {} bytes", bytes, max_size_bytes));
    if (bytes % options.block != 0) {
        return refuse(fmt::format("size={}: must be a multiple of block={}; the next such size is {}", bytes,
                                  options.block, (bytes / options.block + 1) * options.block));
    }
    return {};
}

QueueLimits limits_for(const DiskOptions& options) {
    QueueLimits limits;
    limits.logical_block_size = limits.physical_block_size = limits.io_min = options.block;
    return limits;
}

Driver::Shape shape_for(const DiskOptions& options, std::size_t payload_bytes) {
    Driver::Shape shape;
    shape.max_queues =
        options.queues != 0 ? options.queues : std::clamp(std::thread::hardware_concurrency(), 1u, max_queues);
    shape.depth = options.depth;
    shape.payload_bytes = payload_bytes;
    return shape;
}

}  // namespace mqblk::block
