// SPDX-License-Identifier: Apache-2.0
//
// Order is what makes an array safe. A new configuration is on media, on all members that it counts on, before anybody
// acts on it; and before it leaves write-intent bits for the journal, all that was written under them is flushed.
#include "driver/raid/keeper.h"

#include "base/log.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

namespace mqblk::driver::raid {

Keeper::Keeper(std::shared_ptr<Array> array, std::unique_ptr<MemberIo> io, const Superblock& superblock,
               std::uint64_t intent_sequence, std::string name)
    : array_(std::move(array)),
      io_(std::move(io)),
      home_(io_->home()),
      name_(std::move(name)),
      superblock_(superblock),
      journal_always_(superblock.journal_always),
      wake_(home_),
      self_(*this) {
    intent_.uuid = superblock.uuid;
    intent_.regions = superblock.geometry.regions();
    intent_.sequence = intent_sequence;
    array_->join(self_);
    array_->set_keeper(this);
}

Keeper::~Keeper() {
    array_->set_keeper(nullptr);
    array_->part(self_);
}

Task<Result<>> Keeper::start(std::unique_ptr<Config> first) {
    auto memory = memory::Buffer::allocate(std::size_t{max_members} * Geometry::block);
    if (!memory) co_return std::unexpected(memory.error());
    blocks_ = std::move(*memory);
    intent_.epoch = first->epoch;
    array_->publish(std::move(first));
    co_await reconfigure();
    first_ = false;
    if (array_->config().dead) {
        co_return fail(Errc::io, fmt::format("{}: too many members failed when the array was started; look at them "
                                             "and start it again",
                                             name_));
    }
    begin_task();
    spawn(run(), [this] { end_task(); });
    start_rebuilding();
    co_return Result<>{};
}

bool Keeper::wants_reconfiguring() const noexcept {
    const Config& now = array_->config();
    const Mask failed = array_->failures() & now.written();
    return !now.dead && (failed != 0 || rebuilt_ != 0 || !replacements_.empty());
}

Task<void> Keeper::run() {
    while (!stopping_) {
        if (wants_reconfiguring()) {
            co_await reconfigure();
            start_rebuilding();
        } else if (array_->anything_wanted()) {
            co_await set_wanted_regions();
        } else if (home_.now() >= next_clearing_) {
            co_await clear_idle_regions();
        } else if (std::exchange(rebuild_again_, false)) {
            start_rebuilding();
        } else {
            co_await wake_.wait(next_clearing_);
        }
    }
}

/// What the configuration becomes by all that has happened.
Config Keeper::changed(const std::vector<Replacement>& replaced, Mask rebuilt) const {
    const Config& now = array_->config();
    Config next = now;
    ++next.generation;
    for (const Replacement& each : replaced) {
        next.devices[each.member] = each.device;
        next.in_sync &= ~bit(each.member);
        next.rebuilding |= bit(each.member);
    }
    next.in_sync |= rebuilt & next.rebuilding;
    next.rebuilding &= ~rebuilt;
    const Mask failed = array_->failures();
    next.rebuilding &= ~failed;
    const Mask left = next.in_sync & ~failed;
    if (std::popcount(left) < static_cast<int>(array_->geometry().data)) {
        next.dead = true;  // what it was stays written down: whoever starts it by force will want to know
    } else {
        next.in_sync = left;
    }
    const bool journal = array_->level() == 6 && (journal_always_ || next.in_sync != array_->all_members());
    if (journal != next.journal) {
        next.journal = journal;
        ++next.epoch;
    }
    return next;
}

Task<void> Keeper::reconfigure() {
    array_->close_gate();
    while (!array_->drained()) co_await wake_.wait();
    const Config before = array_->config();
    const std::vector<Replacement> replaced = std::exchange(replacements_, {});
    Mask rebuilt = std::exchange(rebuilt_, 0);
    if (!replaced.empty()) ++rebuild_round_;
    Mask replaced_members = 0;
    for (const Replacement& each : replaced) replaced_members |= bit(each.member);
    for (const Replacement& each : replaced) {
        rebuilt &= ~bit(each.member);
        array_->forget_failures(bit(each.member));
        if (auto opened = io_->open(each.member, each.device); !opened) array_->report_failed(bit(each.member));
    }
    Config next = changed(replaced, rebuilt);
    std::uint64_t events = before.events;
    for (;;) {
        const Mask live = next.written() & ~array_->failures();
        Mask failed = co_await io_->flush(live);
        next.events = ++events;
        if (failed == 0) failed = co_await write_superblocks(next, live);
        // What stood in the other place of one that is new may be of another array, with more events.
        const Mask fresh = live & next.rebuilding & (first_ ? ~Mask{0} : ~before.rebuilding | replaced_members);
        if (failed == 0 && fresh != 0) failed = co_await clear_superblocks(fresh, (events + 1) % 2);
        if (failed == 0 || next.dead) break;
        array_->report_failed(failed);
        next = changed(replaced, rebuilt);
    }
    if (next.epoch != before.epoch || first_) {
        if (!first_) array_->regions.reset();
        if (next.epoch != intent_.epoch) intent_.bits.fill(0);
        intent_.epoch = next.epoch;
    }
    announce(before, next);
    // Nobody of this thread uses a member any more that was left out; the other threads have channels of their own.
    const Mask gone = (before.written() & ~next.written());
    for (unsigned i = 0; i < max_members && !next.dead; ++i)
        if ((gone & bit(i)) != 0) io_->close(i);
    // Reads of the former device may have failed meanwhile.
    array_->forget_failures(replaced_members & next.rebuilding);
    array_->publish(std::make_unique<const Config>(next));
    array_->open_gate();
    wake_held();
}

void Keeper::announce(const Config& before, const Config& after) const {
    if (first_) return;
    for (unsigned i = 0; i < array_->geometry().members(); ++i) {
        const bool was = (before.written() & bit(i)) != 0, is = (after.written() & bit(i)) != 0;
        if (was && !is) log_warning(fmt::format("{}: member {} failed and is left out", name_, i));
        if ((after.rebuilding & ~before.rebuilding & bit(i)) != 0)
            log_warning(fmt::format("{}: member {} is being rebuilt", name_, i));
        if ((after.in_sync & ~before.in_sync & bit(i)) != 0)
            log_warning(fmt::format("{}: member {} is rebuilt and in use", name_, i));
    }
    if (after.dead && !before.dead)
        log_error(
            fmt::format("{}: more members failed than the array can do without; it takes no I/O any more", name_));
}

Task<Mask> Keeper::write_superblocks(const Config& config, Mask members) {
    Superblock block = superblock_;
    block.events = config.events;
    block.epoch = config.epoch;
    block.journal = config.journal;
    block.dead = config.dead;
    for (unsigned i = 0; i < block.geometry.members(); ++i) {
        block.states[i] = (config.in_sync & bit(i)) != 0      ? MemberState::in_sync
                          : (config.rebuilding & bit(i)) != 0 ? MemberState::rebuilding
                                                              : MemberState::failed;
    }
    MemberMemory memory{};
    for (unsigned i = 0; i < block.geometry.members(); ++i) {
        block.member = i;
        memory[i] = blocks_.data() + std::size_t{i} * Geometry::block;
        block.encode(Block(memory[i], Geometry::block));
    }
    const Mask failed = co_await io_->on_each(members, Op::write, Geometry::superblock_offset[config.events % 2],
                                              memory, Geometry::block, bio_fua);
    co_return failed;
}

Task<Mask> Keeper::clear_superblocks(Mask members, unsigned place) {
    MemberMemory memory{};
    memory.fill(array_->zeroes());
    const Mask failed =
        co_await io_->on_each(members, Op::write, Geometry::superblock_offset[place], memory, Geometry::block, bio_fua);
    co_return failed;
}

Task<Mask> Keeper::write_intent() {
    ++intent_.sequence;
    intent_.encode(Block(blocks_.data(), Geometry::block));
    MemberMemory memory{};
    memory.fill(blocks_.data());
    const Mask failed =
        co_await io_->on_each(array_->config().written(), Op::write, Geometry::intent_offset[intent_.sequence % 2],
                              memory, Geometry::block, bio_fua);
    co_return failed;
}

/// Sets the bits that writes wait for. Whatever comes of it they are told, and look again.
Task<void> Keeper::set_wanted_regions() {
    const Array::Wanted wanted = array_->take_wanted();
    const Config& now = array_->config();
    if (!now.journal && !now.dead) {
        bool news = false;
        for (const auto& [region, waiter] : wanted) {
            news |= !array_->regions.is_marked(region);
            intent_.set(region, true);
        }
        const Mask failed = news ? co_await write_intent() : Mask{0};
        if (failed != 0) {
            array_->report_failed(failed);
            co_await reconfigure();
        } else {
            for (const auto& [region, waiter] : wanted) array_->regions.mark(region);
            if (next_clearing_ == never) next_clearing_ = home_.now() + idle_time;
        }
    }
    for (const auto& [region, waiter] : wanted) waiter->granted(*waiter);
}

Task<void> Keeper::clear_idle_regions() {
    next_clearing_ = never;
    const Config& now = array_->config();
    if (now.journal || now.dead) co_return;
    std::vector<std::uint32_t> idle;
    bool others = false;
    for (std::uint32_t region = 0; region < array_->regions.count(); ++region) {
        if (!array_->regions.is_marked(region)) continue;
        if (array_->regions.is_idle(region)) {
            idle.push_back(region);
        } else {
            others = true;
        }
    }
    if (!idle.empty()) {
        Mask failed = co_await io_->flush(now.written());
        bool any = false;
        for (const std::uint32_t region : idle) {
            if (failed != 0 || !array_->regions.unmark(region)) {
                others = true;
                continue;
            }
            intent_.set(region, false);
            any = true;
        }
        if (any) failed |= co_await write_intent();
        if (failed != 0) array_->report_failed(failed);
    }
    if (others) next_clearing_ = home_.now() + idle_time;
}

void Keeper::replace(unsigned member, std::shared_ptr<Device> device) {
    replacements_.push_back({member, std::move(device)});
    look();
}

void Keeper::wake_held() {
    for (Promise<bool>* each : std::exchange(held_, {})) each->set(true);
}

bool Keeper::stop() {
    stopping_ = true;
    wake_.notify();
    wake_held();
    if (tasks_ > 0) return false;
    if (stopped_ || array_->config().dead) return true;
    // Nothing is written any more: nothing need be repaired at the next start.
    stopped_ = true;
    begin_task();
    spawn(leave_clean(), [this] { end_task(); });
    return tasks_ == 0;
}

Task<void> Keeper::leave_clean() {
    const Config& config = array_->config();
    const Mask failed = co_await io_->flush(config.written());
    if (failed != 0 || config.journal || array_->failures() != 0) co_return;
    intent_.bits.fill(0);
    co_await write_intent();
}

}  // namespace mqblk::driver::raid
