// SPDX-License-Identifier: Apache-2.0
//
// Rebuilding and scrubbing, stripe by stripe, while the array is in use: each stripe is worked on under its lock and
// within the gate, as a write is.
#include "base/log.h"
#include "driver/raid/keeper.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace mqblk::driver::raid {

namespace {
constexpr unsigned workers = 4;  // stripes at a time
constexpr std::size_t scrub_step = 512;
}  // namespace

Task<void> Keeper::enter() {
    while (!array_->enter(self_)) {
        Promise<bool> open;
        held_.push_back(&open);
        co_await open;
    }
}

/// The stripe's lock, then the gate.
Task<void> Keeper::hold(StripeLock& lock, std::uint64_t stripe) {
    struct Wait {
        Promise<bool> got;
        Reactor& home;
    } wait{{}, home_};
    lock.context = &wait;
    lock.granted = [](StripeLock& granted) noexcept {
        Wait* const waiting = static_cast<Wait*>(granted.context);
        waiting->home.post([waiting] { waiting->got.set(true); });
    };
    if (!array_->locks.acquire(lock, stripe)) co_await wait.got;
    co_await enter();
}

void Keeper::let_go(StripeLock& lock) {
    array_->leave(self_);
    array_->locks.release(lock);
}

void Keeper::start_rebuilding() {
    const Mask members = array_->config().rebuilding;
    if (members == 0 || stopping_ || array_->config().dead || rebuild_progress.running) return;
    rebuild_progress.running = true;
    rebuild_progress.done = rebuild_progress.failed = 0;
    rebuild_progress.all = array_->geometry().stripes;
    rebuild_cursor_ = 0;
    begin_task();
    const std::uint32_t generation = array_->config().generation;
    spawn(rebuild(members), [this, generation] {
        rebuild_progress.running = false;
        // Where it ended early because something had changed, what there is now is rebuilt.
        rebuild_again_ = array_->config().generation != generation;
        end_task();
    });
}

/// Onto `members`, all stripes. Members that come to be rebuilt meanwhile have their turn afterwards.
Task<void> Keeper::rebuild(Mask members) {
    struct Join {
        unsigned left = workers;
        bool failed = false;
        Promise<bool> all;
    } join;
    const std::uint32_t round = rebuild_round_;
    for (unsigned i = 0; i < workers; ++i) {
        spawn(rebuild_some(members, join.failed), [&join] {
            if (--join.left == 0) join.all.set(true);
        });
    }
    co_await join.all;
    if (stopping_ || join.failed || round != rebuild_round_) co_return;
    const Mask failed = co_await io_->flush(members);
    if (failed != 0) {
        array_->report_failed(failed);
        co_return;
    }
    if (round != rebuild_round_) co_return;
    rebuilt_ |= members & array_->config().rebuilding;
}

Task<void> Keeper::rebuild_some(Mask members, bool& failed) {
    const Geometry& g = array_->geometry();
    auto memory = memory::Buffer::allocate(std::size_t{g.members()} * g.chunk);
    if (!memory) {
        log_error(fmt::format("{}: no memory to rebuild with: {}", name_, memory.error().message()));
        failed = true;
        co_return;
    }
    const std::uint32_t round = rebuild_round_;
    while (!stopping_ && !failed && rebuild_cursor_ < g.stripes) {
        const std::uint64_t stripe = rebuild_cursor_++;
        StripeLock lock;
        co_await hold(lock, stripe);
        const bool done = !stopping_ && round == rebuild_round_ && (array_->config().rebuilding & members) == members &&
                          co_await rebuild_stripe(stripe, members, memory->data());
        let_go(lock);
        if (!done) {
            failed = true;
            break;
        }
        ++rebuild_progress.done;
    }
}

Task<bool> Keeper::rebuild_stripe(std::uint64_t stripe, Mask members, std::byte* memory) {
    const Geometry& g = array_->geometry();
    const Config& config = array_->config();
    const Mask wanted = g.places_of(stripe, members);
    Mask usable = config.in_sync;
    MemberMemory by_place{}, by_member{};
    for (unsigned place = 0; place < g.members(); ++place) {
        by_place[place] = memory + std::size_t{place} * g.chunk;
        by_member[g.member_of(stripe, place)] = by_place[place];
    }
    for (;;) {
        const auto recovery = Recovery::make(g.data, g.places_of(stripe, usable), wanted);
        if (!recovery) {
            ++rebuild_progress.failed;
            log_error(
                fmt::format("{}: stripe {} cannot be rebuilt: other members cannot be read there", name_, stripe));
            co_return false;
        }
        Mask sources = 0;
        for (unsigned member = 0; member < g.members(); ++member)
            if ((recovery->sources() & bit(g.place_of(stripe, member))) != 0) sources |= bit(member);
        const Mask unread = co_await io_->on_each(sources, Op::read, g.chunk_offset(stripe), by_member, g.chunk, 0);
        if (unread != 0) {
            usable &= ~unread;
            continue;
        }
        recovery->apply(by_place.data(), g.chunk);
        break;
    }
    const Mask unwritten = co_await io_->on_each(members, Op::write, g.chunk_offset(stripe), by_member, g.chunk, 0);
    if (unwritten != 0) array_->report_failed(unwritten);
    co_return unwritten == 0;
}

void Keeper::scrub() {
    if (scrub_progress.running || stopping_) return;
    scrub_progress.running = true;
    scrub_progress.done = scrub_progress.repaired = scrub_progress.failed = 0;
    scrub_progress.all = array_->geometry().stripes;
    begin_task();
    spawn(scrub_all(), [this] {
        scrub_progress.running = false;
        end_task();
    });
}

Task<void> Keeper::scrub_all() {
    const Geometry& g = array_->geometry();
    auto memory = memory::Buffer::allocate(std::size_t{g.members() + 2} * g.chunk);
    if (!memory) {
        log_error(fmt::format("{}: no memory to scrub with: {}", name_, memory.error().message()));
        co_return;
    }
    for (std::uint64_t stripe = 0; stripe < g.stripes && !stopping_; ++stripe) {
        StripeLock lock;
        co_await hold(lock, stripe);
        // What is wrong cannot be told from what is right unless all members are there.
        const bool whole = array_->config().in_sync == array_->all_members() && !array_->config().dead;
        if (whole && !stopping_) co_await scrub_stripe(stripe, memory->data());
        let_go(lock);
        if (!whole) {
            log_warning(fmt::format("{}: the scrub ends at stripe {}: members are missing", name_, stripe));
            co_return;
        }
        ++scrub_progress.done;
    }
    const Mask failed = co_await io_->flush(array_->config().written());
    if (failed != 0) array_->report_failed(failed);
}

/// Members that cannot be read count as damage: up to two of them are computed from the others and written anew.
Task<void> Keeper::scrub_stripe(std::uint64_t stripe, std::byte* memory) {
    const Geometry& g = array_->geometry();
    MemberMemory by_place{}, by_member{};
    for (unsigned place = 0; place < g.members(); ++place) {
        by_place[place] = memory + std::size_t{place} * g.chunk;
        by_member[g.member_of(stripe, place)] = by_place[place];
    }
    const Mask unread =
        co_await io_->on_each(array_->all_members(), Op::read, g.chunk_offset(stripe), by_member, g.chunk, 0);
    if (unread == 0) {
        co_await repair_stripe(stripe, memory);
        co_return;
    }
    const Mask lost = g.places_of(stripe, unread);
    const auto recovery = Recovery::make(g.data, first_bits(g.members()) & ~lost, lost);
    if (!recovery) {
        ++scrub_progress.failed;
        co_return;
    }
    recovery->apply(by_place.data(), g.chunk);
    // One chunk more than it takes was read: if that does not fit, another one is wrong, and which cannot be told.
    std::byte* const p = memory + std::size_t{g.members()} * g.chunk;
    std::byte* const q = p + g.chunk;
    array_->parity().generate(by_place.data(), p, q, g.chunk);
    if (std::memcmp(p, by_place[g.data], g.chunk) != 0 || std::memcmp(q, by_place[g.data + 1], g.chunk) != 0) {
        ++scrub_progress.failed;
        log_error(
            fmt::format("{}: stripe {} is damaged, and cannot be repaired as a member cannot be read there; scrub "
                        "it again once that is replaced",
                        name_, stripe));
        co_return;
    }
    scrub_progress.repaired += static_cast<unsigned>(std::popcount(lost)) * (g.chunk / scrub_step);
    const Mask failed = co_await io_->on_each(unread, Op::write, g.chunk_offset(stripe), by_member, g.chunk, 0);
    if (failed != 0) array_->report_failed(failed);
}

/// All chunks are in memory. Finds blocks in which one of them does not fit the others, and puts it right.
Task<void> Keeper::repair_stripe(std::uint64_t stripe, std::byte* memory) {
    const Geometry& g = array_->geometry();
    std::array<std::byte*, max_members> chunks{};
    for (unsigned place = 0; place < g.members(); ++place) chunks[place] = memory + std::size_t{place} * g.chunk;
    std::byte* const p = memory + std::size_t{g.members()} * g.chunk;
    std::byte* const q = p + g.chunk;
    array_->parity().generate(chunks.data(), p, q, g.chunk);
    if (std::memcmp(p, chunks[g.data], g.chunk) == 0 && std::memcmp(q, chunks[g.data + 1], g.chunk) == 0) co_return;
    for (std::uint32_t i = 0; i < g.chunk; ++i) {
        p[i] ^= chunks[g.data][i];
        q[i] ^= chunks[g.data + 1][i];
    }
    Mask repaired = 0;
    bool beyond = false;
    for (std::uint32_t at = 0; at < g.chunk; at += scrub_step) {
        const Diagnosis found = diagnose(g.data, p + at, q + at, scrub_step);
        if (found.kind == Diagnosis::Kind::sound) continue;
        if (found.kind == Diagnosis::Kind::beyond_repair) {
            beyond = true;
            continue;
        }
        const auto recovery = Recovery::make(g.data, first_bits(g.members()), bit(found.wrong));
        std::array<std::byte*, max_members> here{};
        for (unsigned place = 0; place < g.members(); ++place) here[place] = chunks[place] + at;
        recovery->apply(here.data(), scrub_step);
        repaired |= bit(found.wrong);
        ++scrub_progress.repaired;
    }
    if (beyond) {
        ++scrub_progress.failed;
        log_error(fmt::format("{}: stripe {} is damaged in more than one member; it stays as it is", name_, stripe));
    }
    for (unsigned place = 0; place < g.members(); ++place) {
        if ((repaired & bit(place)) == 0) continue;
        const unsigned member = g.member_of(stripe, place);
        log_warning(fmt::format("{}: member {} held wrong data in stripe {}; repaired", name_, member, stripe));
        const Status status = co_await io_->io(member, Op::write, g.chunk_offset(stripe), chunks[place], g.chunk, 0);
        if (status != Status::ok) array_->report_failed(bit(member));
    }
}

}  // namespace mqblk::driver::raid
