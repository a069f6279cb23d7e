// SPDX-License-Identifier: Apache-2.0
//
// Opens the devices that live in this process or file system: null, ram, file.
#include "block/disk_options.h"
#include "driver/file/file.h"
#include "driver/null/null.h"
#include "driver/ram/ram.h"
#include "registry/schemes.h"
#include "registry/services.h"

#include <fmt/format.h>

#include <array>
#include <limits>

namespace mqblk::registry {

namespace {

constexpr std::uint64_t max_disk_bytes = std::numeric_limits<std::int64_t>::max();
constexpr std::array<std::string_view, 2> block_sizes{"512", "4096"};

block::DiskOptions read_disk_options(OptionReader& reader) {
    block::DiskOptions disk;
    disk.block = reader.choice("block", block_sizes, 0) == 0 ? 512 : 4096;
    disk.queues = static_cast<unsigned>(reader.number("queues", 0, 1, 1024));
    disk.depth = static_cast<unsigned>(reader.number("depth", disk.depth, 1, 65536));
    disk.read_only = reader.flag("ro", false);
    return disk;
}

/// A disk's size: required where `standard` is 0, and whole blocks.
std::uint64_t read_disk_size(OptionReader& reader, const block::DiskOptions& disk, std::uint64_t standard) {
    const auto bytes = reader.size("size", standard, 512, max_disk_bytes);
    if (bytes == 0) {
        reader.reject("size", "is required, such as size=64M");
    } else if (bytes % disk.block != 0) {
        reader.reject("size", fmt::format("must be a multiple of the block of {} bytes, such as {}", disk.block,
                                          (bytes / disk.block + 1) * disk.block));
    }
    return bytes;
}

/// null and ram have no place.
Result<> refuse_place(const Uri& uri) {
    if (uri.address.empty() && (uri.path.empty() || uri.path == "/")) return {};
    return fail(Errc::invalid_argument, fmt::format("{0}: \"{1}{2}\" after {0}:// means nothing; write {0}://?size=64M",
                                                    uri.scheme, uri.address, uri.path));
}

}  // namespace

Result<std::shared_ptr<Device>> open_null(Services&, const Uri& uri, const SchemeInfo& info) {
    if (auto ok = refuse_place(uri); !ok) return std::unexpected(ok.error());
    OptionReader reader(uri, info.options);
    driver::null::Options options;
    options.disk = read_disk_options(reader);
    options.bytes = read_disk_size(reader, options.disk, 1u << 30);
    options.latency = reader.time("latency", Duration::zero(), Duration::zero(), driver::null::Options::max_latency);
    options.zero = reader.flag("zero", false);
    if (reader.flag("threaded", false)) options.completion = driver::null::CompletionMode::thread;
    if (auto ok = reader.finish(); !ok) return std::unexpected(ok.error());
    return driver::null::open(options);
}

Result<std::shared_ptr<Device>> open_ram(Services&, const Uri& uri, const SchemeInfo& info) {
    if (auto ok = refuse_place(uri); !ok) return std::unexpected(ok.error());
    OptionReader reader(uri, info.options);
    driver::ram::Options options;
    options.disk = read_disk_options(reader);
    options.bytes = read_disk_size(reader, options.disk, 0);
    options.populate = reader.flag("populate", false);
    if (auto ok = reader.finish(); !ok) return std::unexpected(ok.error());
    return driver::ram::open(options);
}

Result<std::shared_ptr<Device>> open_file(Services& services, const Uri& uri, const SchemeInfo& info) {
    if (!uri.address.empty() || uri.path.size() < 2) {
        return fail(
            Errc::invalid_argument,
            fmt::format("file: \"{}{}\" is no absolute path; write three slashes, as in file:///var/tmp/disk.img",
                        uri.address, uri.path));
    }
    OptionReader reader(uri, info.options);
    driver::file::Options options;
    options.path = uri.path;
    options.disk = read_disk_options(reader);
    if (options.disk.depth > driver::file::Options::max_depth) {
        reader.reject("depth", fmt::format("must be from 1 to {}", driver::file::Options::max_depth));
    }
    if (reader.has("size")) options.bytes = read_disk_size(reader, options.disk, 0);
    options.direct = reader.flag("direct", true);
    if (auto ok = reader.finish(); !ok) return std::unexpected(ok.error());
    bool created = false;
    options.created = &created;
    auto device = driver::file::open(options);
    if (device && created) services.note_created(options.path);
    return device;
}

}  // namespace mqblk::registry
