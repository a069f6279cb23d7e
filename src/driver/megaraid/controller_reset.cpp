// SPDX-License-Identifier: Apache-2.0
//
// The controller reset. The queues stand still meanwhile. What the firmware had answered by then counts; the rest is
// sent again by each queue once the firmware takes requests, exactly once for each reset, or fails if it was lost too
// often. Limits are read again. A controller that does not come back is cut off from memory and given up.
#include "base/log.h"
#include "driver/megaraid/controller.h"
#include "driver/megaraid/io_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mqblk::driver::megaraid {

using namespace wire::megaraid;

namespace {

constexpr unsigned key_tries = 100;
constexpr Duration key_step = std::chrono::milliseconds(100);
constexpr Duration reset_bound = std::chrono::seconds(100);
constexpr Duration shortest_step = std::chrono::microseconds(100), longest_step = std::chrono::milliseconds(100);
constexpr Duration quiet_step = std::chrono::milliseconds(1);
constexpr unsigned fewest_left = reserved_tags + 4;

}  // namespace

void Controller::want_reset(const char* why) noexcept {
    if (reset_why_ == nullptr) reset_why_ = why;
    internal_.abandon_wait();
    signal();
}

Task<void> Controller::reset_controller() {
    const char* const why = std::exchange(reset_why_, nullptr);
    if (given_up()) co_return;
    log_limited("megaraid: reset", fmt::format("{}: controller reset: {}", name(), why));
    counters_.resets.fetch_add(1, std::memory_order_relaxed);
    operational_ = false;
    hold();
    Result<> done = fail(Errc::io, "");
    for (unsigned tries = 0; tries < options_.reset_tries && !done && !stopping_; ++tries) {
        done = co_await try_reset();
        reset_why_ = nullptr;  // noticed by others meanwhile
        if (!done && (function_->lost() || !reset_permitted())) break;
    }
    collected_ = false;
    if (!done) {
        if (!stopping_) co_await give_up(done.error().message());
        release();
        co_return;
    }
    epoch_.fetch_add(1, std::memory_order_relaxed);
    wait_for_event();
    wait_for_maps();
    release();
    if (auto scanned = co_await scan(); !scanned && !stopping_) {
        log_warning(scanned.error().message());
        if (scanned.error().code() == Errc::timed_out) want_reset("a management command was not answered in time");
    }
}

Task<Result<>> Controller::try_reset() {
    if (function_->lost())
        co_return fail(Errc::not_found,
                       fmt::format("{}: the controller is gone; plug it in, or start its model again", name()));
    if ((info_.on_off_properties & property_disable_online_reset) != 0 || !reset_permitted())
        co_return fail(Errc::io, fmt::format("{}: the firmware permits no controller reset; power-cycle it", name()));
    mask_interrupts(true);
    // Without that, the way from operational to ready ends all commands.
    if (registers_.can_reset()) {
        if (auto reset = co_await reset_by_diagnostic(); !reset) co_return reset;
    }
    if (auto ready = co_await bring_to_ready(true); !ready) co_return ready;
    // It has none of our commands any more. What it answered before lies in the queues.
    internal_.forget_all();
    {
        const std::lock_guard lock(queues_mutex_);
        for (IoQueue* queue : queues_) queue->collect();
    }
    if (shared_ != nullptr) static_cast<void>(shared_->take_over());
    collected_ = true;
    const Limits limits = read_limits(bar_.read32(reg::scratch_pad), bar_.read32(reg::scratch_pad_2), generation_);
    if (auto taken = take_limits(limits); !taken) co_return taken;
    if (auto initialized = co_await initialize(); !initialized) co_return initialized;
    if (auto read = co_await read_controller_info(); !read) co_return read;
    if (auto read = co_await read_maps(); !read) co_return read;
    co_await check_taken();
    co_return Result<>{};
}

bool Controller::reset_permitted() const noexcept {
    const std::uint32_t pad = bar_.read32(reg::scratch_pad);
    if (is_fusion(generation_)) return reset_may_help(pad);
    return state_of(pad) != State::fault || registers_.can_reset();
}

Task<Result<>> Controller::reset_by_diagnostic() {
    bool open = false;
    for (unsigned tries = 0; tries < key_tries && !open && !function_->lost() && !stopping_; ++tries) {
        if (tries != 0) co_await sleep(key_step);
        for (const std::uint32_t key : registers_.keys) bar_.write32(registers_.write_sequence, key);
        open = (bar_.read32(registers_.host_diag) & host_diag_write_enable) != 0;
    }
    if (!open)
        co_return fail(Errc::timed_out,
                       fmt::format("{}: the diagnostic register does not open; power-cycle it", name()));
    bar_.write32(registers_.host_diag, bar_.read32(registers_.host_diag) | host_diag_reset_adapter);
    co_await sleep(options_.reset_settle);
    const Time bound = reactor_.now() + reset_bound;
    Duration step = shortest_step;
    while ((bar_.read32(registers_.host_diag) & host_diag_reset_adapter) != 0) {
        if (reactor_.now() >= bound || function_->lost() || stopping_)
            co_return fail(Errc::timed_out,
                           fmt::format("{}: the controller reset does not end; power-cycle it", name()));
        co_await sleep(step);
        step = std::min(2 * step, longest_step);
    }
    co_return Result<>{};
}

/// The queues stand still.
Result<> Controller::take_limits(const Limits& limits) {
    const unsigned queues = limits.msix || interrupt_type_ != pci::InterruptType::msix ? limits.reply_queues : 0;
    if (limits.commands < fewest_left || limits.sges < limits_.sges || queues < vectors_)
        return fail(Errc::not_supported,
                    fmt::format("{}: after its reset the firmware takes too little: {} commands of {} elements, {} "
                                "reply queues; power-cycle it",
                                name(), limits.commands, limits.sges, limits.reply_queues));
    const std::lock_guard lock(mutex_);
    limits_ = limits;
    fewer_ = limits.commands < memory().commands() ? std::make_shared<FewerCommands>(limits.commands) : nullptr;
    return {};
}

/// The queues stand still. No request ends while its memory may be in use.
Task<void> Controller::give_up(std::string why) {
    log_error(fmt::format("{}; the controller is given up", why));
    const bool lost = function_->lost();
    if (!lost) bar_.write32(registers_.doorbell, doorbell_stop_adapter);
    function_->set_bus_master(false);
    while (!function_->quiet() && !stopping_) co_await sleep(quiet_step);
    internal_.forget_all();
    failure_ = lost ? Status::removed : Status::io_error;
    given_up_ = true;
    epoch_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace mqblk::driver::megaraid
