// SPDX-License-Identifier: Apache-2.0
#include "driver/raid/create.h"

#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace mqblk::driver::raid {

namespace {

constexpr std::uint64_t zero_step = 64u << 20;

Result<> check(const Options& options, const std::vector<Found>& found, std::uint64_t bytes) {
    const auto refuse = [&](Errc code, const std::string& why) { return mqblk::fail(code, options.name + ": " + why); };
    if (!std::has_single_bit(options.chunk) || options.chunk < Geometry::least_chunk)
        return refuse(Errc::invalid_argument,
                      fmt::format("chunk={}: must be a power of two, 4k or more", format_size(options.chunk)));
    const auto members = static_cast<unsigned>(options.members.size());
    const unsigned parity = options.level == 6 ? 2 : 0;
    if ((members - parity) * std::uint64_t{options.chunk} > Geometry::most_stripe)
        return refuse(Errc::invalid_argument,
                      fmt::format("chunk={}: {} members of data make stripes of more than 8M; use a smaller chunk",
                                  format_size(options.chunk), members - parity));
    for (unsigned i = 0; i < members; ++i) {
        const MemberOption& member = options.members[i];
        if (member.device == nullptr)
            return refuse(Errc::invalid_argument, "a new array needs all its members; name a device for each");
        const std::uint64_t has = member.device->sectors() * sector_bytes;
        if (options.member_bytes == 0 && has != bytes)
            return refuse(Errc::invalid_argument,
                          fmt::format("member {} ({}) has {} bytes, but member 0 has {}; use members of one size, or "
                                      "member_size={} to use as much of each",
                                      i, member.name, has, bytes, format_size(std::min(has, bytes))));
        if (has < bytes)
            return refuse(Errc::invalid_argument, fmt::format("member {} ({}) has {} bytes, fewer than member_size={}",
                                                              i, member.name, has, format_size(bytes)));
        if (options.force) continue;
        if (found[i].superblock)
            return refuse(Errc::already_exists,
                          fmt::format("member {} ({}) holds array {} already; open that without create=1, or give "
                                      "force=1 to overwrite it",
                                      i, member.name, to_text(found[i].superblock->uuid)));
        if (found[i].damaged)
            return refuse(Errc::already_exists,
                          fmt::format("member {} ({}) holds a damaged superblock; give force=1 to "
                                      "overwrite it",
                                      i, member.name));
    }
    return {};
}

/// All of one member, what it said of itself before included.
Task<Status> clear_member(MemberIo& io, unsigned member, const Geometry& g) {
    const QueueLimits limits = io.device(member)->limits();
    const bool quick = limits.max_write_zeroes_sectors != 0;
    auto memory = memory::Buffer::allocate(1u << 20);
    if (!memory) co_return Status::io_error;
    const std::uint64_t step = quick ? zero_step : memory->size();
    const std::uint64_t end = g.data_offset + g.stripes * g.chunk;
    for (std::uint64_t at = 0; at < end; at += step) {
        const std::uint64_t bytes = std::min(step, end - at);
        const Status status = co_await io.io(member, quick ? Op::write_zeroes : Op::write, at, memory->data(), bytes,
                                             quick ? bio_unmap : 0);
        if (status != Status::ok) co_return status;
    }
    co_return Status::ok;
}

Task<Mask> clear_all(MemberIo& io, const Geometry& g) {
    struct Join {
        unsigned left;
        Mask failed = 0;
        Promise<bool> all;
    } join{g.members(), 0, {}};
    for (unsigned member = 0; member < g.members(); ++member) {
        spawn(clear_member(io, member, g), [&join, member](Status status) {
            if (status != Status::ok) join.failed |= bit(member);
            if (--join.left == 0) join.all.set(true);
        });
    }
    co_await join.all;
    co_return join.failed;
}

Uuid make_uuid(Random& random) {
    Uuid uuid;
    for (std::size_t i = 0; i < uuid.size(); i += 8) {
        const std::uint64_t word = random.next();
        std::memcpy(uuid.data() + i, &word, 8);
    }
    uuid[6] = static_cast<std::uint8_t>((uuid[6] & 0x0f) | 0x40);  // RFC 9562: version 4, variant 10
    uuid[8] = static_cast<std::uint8_t>((uuid[8] & 0x3f) | 0x80);
    return uuid;
}

}  // namespace

Task<Result<Assembled>> create_array(const Options& options, std::unique_ptr<MemberIo> io, std::vector<Found> found) {
    const MemberOption& first = options.members.front();
    std::uint64_t bytes = options.member_bytes;
    if (bytes == 0 && first.device != nullptr) bytes = first.device->sectors() * sector_bytes;
    bytes = bytes / Geometry::block * Geometry::block;
    Options checked = options;
    if (checked.member_bytes == 0 && first.device != nullptr) bytes = first.device->sectors() * sector_bytes;
    if (auto ok = check(checked, found, bytes); !ok) co_return std::unexpected(ok.error());
    const unsigned parity = options.level == 6 ? 2 : 0;
    const auto data = static_cast<unsigned>(options.members.size()) - parity;
    const Geometry g = Geometry::plan(data, parity, options.chunk, bytes);
    if (g.stripes == 0)
        co_return mqblk::fail(Errc::no_space,
                              fmt::format("{}: members of {} are too small: {} are needed before the first chunk; use "
                                          "larger ones or a smaller chunk",
                                          options.name, format_size(bytes), format_size(g.data_offset)));
    Assembled result;
    result.io = std::move(io);
    const Mask failed = co_await clear_all(*result.io, g);
    if (failed != 0) {
        co_return mqblk::fail(Errc::io,
                              fmt::format("{}: member {} cannot be written", options.name, std::countr_zero(failed)));
    }
    result.superblock.uuid = make_uuid(result.io->home().random());
    result.superblock.level = options.level;
    result.superblock.geometry = g;
    result.superblock.journal_always = options.journal_always && options.level == 6;
    result.config = std::make_unique<Config>();
    result.config->in_sync = first_bits(g.members());
    result.config->epoch = 1;
    for (unsigned i = 0; i < g.members(); ++i) {
        result.config->devices[i] = options.members[i].device;
        result.names.push_back(options.members[i].name);
    }
    co_return result;
}

}  // namespace mqblk::driver::raid
