// SPDX-License-Identifier: Apache-2.0
//
// Whom to believe. The superblock with most events says who is in the array; whoever it calls failed, or who has fewer
// events than it and the one before, is stale and rebuilt, never read; whoever holds nothing, or another array, is
// refused unless it is named as a replacement.
#include "driver/raid/assemble.h"

#include "base/log.h"
#include "driver/raid/create.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace mqblk::driver::raid {

Task<Result<Found>> find_superblock(MemberIo& io, unsigned place, std::string name) {
    auto memory = memory::Buffer::allocate(Geometry::block);
    if (!memory) co_return std::unexpected(memory.error());
    Found found;
    for (const std::uint64_t at : Geometry::superblock_offset) {
        const Status status = co_await io.io(place, Op::read, at, memory->data(), Geometry::block, 0);
        if (status != Status::ok)
            co_return fail(Errc::io, fmt::format("{} cannot be read: {}; write member=missing in its place to start "
                                                 "without it",
                                                 name, to_string(status)));
        const ConstBlock block(memory->data(), Geometry::block);
        const auto superblock = decode_superblock(block);
        if (superblock && (!found.superblock || superblock->events > found.superblock->events))
            found.superblock = superblock;
        found.damaged |= !superblock && looks_like_superblock(block);
    }
    co_return found;
}

namespace {

/// One start of an array.
class Start {
  public:
    Start(const Options& options, Reactor& home)
        : options_(options), io_(std::make_unique<MemberIo>(home)), home_(home), found_(options.members.size()) {}

    Task<Result<Assembled>> run() {
        if (auto ok = open_members(); !ok) co_return std::unexpected(ok.error());
        for (unsigned i = 0; i < options_.members.size(); ++i) {
            if (options_.members[i].device == nullptr) continue;
            auto found = co_await find_superblock(*io_, i, name(i));
            if (!found) co_return std::unexpected(found.error().in(options_.name));
            found_[i] = *found;
        }
        if (options_.create) {
            auto created = co_await create_array(options_, std::move(io_), found_);
            co_return created;
        }
        auto ok = find_newest();
        if (ok) ok = place_members();
        if (ok) ok = settle();
        if (!ok) co_return std::unexpected(ok.error());
        ok = co_await repair();
        if (!ok) co_return std::unexpected(ok.error());
        co_return std::move(result_);
    }

  private:
    [[nodiscard]] std::string name(unsigned i) const {
        return fmt::format("member {} ({})", i, options_.members[i].name);
    }
    template <class... Args>
    [[nodiscard]] std::unexpected<Error> refuse(Errc code, fmt::format_string<Args...> format, Args&&... args) const {
        return mqblk::fail(code, options_.name + ": " + fmt::format(format, std::forward<Args>(args)...));
    }

    Result<> open_members() {
        for (unsigned i = 0; i < options_.members.size(); ++i) {
            const auto& member = options_.members[i];
            if (member.device == nullptr) continue;
            if (member.device->read_only())
                return refuse(Errc::permission_denied, "{} is write-protected; open it without ro", name(i));
            if (member.device->sectors() * sector_bytes < Geometry::journal_offset)
                return refuse(Errc::no_space, "{} has {} bytes, too few to hold anything; use a larger one", name(i),
                              member.device->sectors() * sector_bytes);
            if (auto opened = io_->open(i, member.device); !opened)
                return std::unexpected(opened.error().in(options_.name));
        }
        return {};
    }

    /// The superblock that holds, and that all are of its array.
    Result<> find_newest() {
        const Superblock* newest = nullptr;
        unsigned from = 0;
        for (unsigned i = 0; i < found_.size(); ++i) {
            const auto& superblock = found_[i].superblock;
            if (!superblock || options_.members[i].replace) continue;
            if (newest != nullptr && newest->uuid != superblock->uuid)
                return refuse(Errc::invalid_argument,
                              "{} belongs to array {}, but {} to array {}; name the members of one array, or give the "
                              "number of a new member with replace=",
                              name(i), to_text(superblock->uuid), name(from), to_text(newest->uuid));
            if (newest == nullptr || superblock->events > newest->events) {
                newest = &*superblock;
                from = i;
            }
        }
        if (newest == nullptr)
            return refuse(Errc::not_found, "no member holds an array; make one with create=1 or `mqblk raid create`");
        newest_ = *newest;
        const unsigned members = newest_.geometry.members();
        if (newest_.level != options_.level)
            return refuse(Errc::invalid_argument, "the members hold a RAID-{0}; open it as raid{0}://", newest_.level);
        if (members != found_.size())
            return refuse(
                Errc::invalid_argument,
                "{} members are named, but the array has {}; name each once, and write member=missing for one "
                "that is not there",
                found_.size(), members);
        if (newest_.dead && !options_.force)
            return refuse(Errc::io,
                          "array {} is dead: it lost more members than it can do without; restore it from a "
                          "copy, or start it as it was with force=1 and check what it holds",
                          to_text(newest_.uuid));
        return {};
    }

    /// Which member each device is: by its superblock, new ones where there is room.
    Result<> place_members() {
        std::array<int, max_members> holder{};
        holder.fill(-1);
        const unsigned members = newest_.geometry.members();
        for (unsigned i = 0; i < members; ++i) {
            if (options_.members[i].device == nullptr || options_.members[i].replace) continue;
            if (!found_[i].superblock)
                return refuse(
                    Errc::invalid_argument,
                    "{} holds {}; name the right one, or give replace={} to rebuild the missing member onto it",
                    name(i), found_[i].damaged ? "a damaged superblock" : "no array", i);
            const unsigned index = found_[i].superblock->member;
            if (holder[index] >= 0)
                return refuse(Errc::invalid_argument,
                              "{} and {} are the same member of the array, number {}; name each member once",
                              name(static_cast<unsigned>(holder[index])), name(i), index);
            holder[index] = static_cast<int>(i);
            if (options_.members[i].device->sectors() * sector_bytes < newest_.geometry.member_bytes)
                return too_small(i);
        }
        for (unsigned i = 0; i < members; ++i) {
            if (options_.members[i].device == nullptr || !options_.members[i].replace) continue;
            const bool taken = found_[i].superblock || found_[i].damaged;
            if (taken && !options_.force)
                return refuse(Errc::already_exists,
                              "{} holds {} already; give force=1 to overwrite it, or name another", name(i),
                              found_[i].superblock ? "array " + to_text(found_[i].superblock->uuid) : "a damaged one");
            if (options_.members[i].device->sectors() * sector_bytes < newest_.geometry.member_bytes)
                return too_small(i);
            unsigned index = i;
            if (holder[index] >= 0) index = static_cast<unsigned>(std::ranges::find(holder, -1) - holder.begin());
            if (index >= members)
                return refuse(Errc::invalid_argument,
                              "{} is to replace a member, but all are there; write it in the "
                              "place of the one to be replaced",
                              name(i));
            holder[index] = static_cast<int>(i);
        }
        return use(holder);
    }

    std::unexpected<Error> too_small(unsigned i) const {
        return refuse(Errc::no_space,
                      "{} has {} bytes, but the array uses {} of each member; use one of that size or "
                      "larger",
                      name(i), options_.members[i].device->sectors() * sector_bytes, newest_.geometry.member_bytes);
    }

    Result<> use(const std::array<int, max_members>& holder) {
        result_.io = std::make_unique<MemberIo>(home_);
        result_.config = std::make_unique<Config>();
        Config& config = *result_.config;
        result_.names.assign(newest_.geometry.members(), "missing");
        for (unsigned index = 0; index < newest_.geometry.members(); ++index) {
            if (holder[index] < 0) continue;
            const auto i = static_cast<unsigned>(holder[index]);
            const MemberOption& member = options_.members[i];
            result_.names[index] = member.name;
            config.devices[index] = member.device;
            io_->close(i);
            if (auto opened = result_.io->open(index, member.device); !opened)
                return std::unexpected(opened.error().in(options_.name));
            // Whoever was written to last has the newest number or, where a crash came between, the one before it.
            const bool current =
                !member.replace && found_[i].superblock->events + (newest_.dead ? 8 : 1) >= newest_.events;
            const bool known = current && newest_.states[index] == MemberState::in_sync;
            (known ? config.in_sync : config.rebuilding) |= bit(index);
            if (!known && newest_.states[index] != MemberState::rebuilding && !member.replace)
                log_warning(fmt::format("{}: {} is stale: it is rebuilt", options_.name, name(i)));
        }
        return {};
    }

    Result<> settle() {
        Config& config = *result_.config;
        config.events = newest_.events;
        config.epoch = newest_.epoch;
        config.journal = newest_.journal;
        result_.superblock = newest_;
        const auto there = static_cast<unsigned>(std::popcount(config.in_sync));
        if (there < newest_.geometry.data)
            return refuse(Errc::io,
                          "{} of the array's {} members are there and up to date, and it needs {}; connect the "
                          "others, or restore it from a copy",
                          there, newest_.geometry.members(), newest_.geometry.data);
        if (newest_.level == 0 && config.rebuilding != 0)
            return refuse(Errc::io, "a member is stale or new, and RAID-0 cannot rebuild it; restore it from a copy");
        return {};
    }

    Task<Result<>> repair() {
        if (newest_.level == 0) co_return Result<>{};
        const bool whole = result_.config->in_sync == first_bits(newest_.geometry.members());
        if (newest_.journal) {
            auto next = co_await replay_journal(result_, options_.name);
            if (!next) co_return std::unexpected(next.error());
            result_.journal_next = *next;
            const Intent old = co_await read_intent(result_);
            result_.intent_sequence = old.sequence;
            co_return Result<>{};
        }
        const Intent intent = co_await read_intent(result_);
        result_.intent_sequence = intent.sequence;
        if (intent.dirty.empty()) co_return Result<>{};
        if (whole) {
            auto repaired = co_await resync(result_, intent.dirty, options_.name);
            co_return repaired;
        }
        if (!options_.force)
            co_return refuse(Errc::io,
                             "the array was being written to when it was left, and now members are missing: what "
                             "they held where it was written cannot be told; bring them back, or start it with "
                             "force=1 and check what it holds");
        log_warning(
            fmt::format("{}: started by force: {} regions may hold wrong data", options_.name, intent.dirty.size()));
        co_return Result<>{};
    }

    const Options& options_;
    std::unique_ptr<MemberIo> io_;  // by place in the list
    Reactor& home_;
    std::vector<Found> found_;
    Superblock newest_;
    Assembled result_;
};

}  // namespace

Task<Result<Assembled>> assemble(const Options& options, Reactor& home) {
    Start start(options, home);
    auto result = co_await start.run();
    co_return result;
}

}  // namespace mqblk::driver::raid
