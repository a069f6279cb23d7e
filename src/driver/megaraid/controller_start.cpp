// SPDX-License-Identifier: Apache-2.0
//
// From whatever state the firmware is in to one that takes requests: the hand-shake, memory, INIT. The same after a
// controller reset, then in the memory that there is.
#include "driver/megaraid/controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mqblk::driver::megaraid {

using namespace wire::megaraid;

namespace {

constexpr Duration start_step = std::chrono::microseconds(100), longest_start_step = std::chrono::milliseconds(20);
constexpr Duration idle_bound = std::chrono::seconds(10);
constexpr std::size_t work_bytes = 16384;
constexpr unsigned most_changes = 64;  ///< of state on the way to ready, which takes about ten
constexpr unsigned fewest_commands = reserved_tags + 4;

/// Waits that begin short: a model needs no time, a card seconds.
Duration next_step(Duration step) noexcept {
    return std::min(2 * step, longest_start_step);
}

}  // namespace

Task<Result<>> Controller::wait_until_idle() {
    const Time bound = reactor_.now() + idle_bound;
    Duration step = start_step;
    while (registers_.says_busy && (bar_.read32(registers_.doorbell) & 1) != 0) {
        if (reactor_.now() >= bound || function_->lost() || stopping_)
            co_return fail(Errc::timed_out, fmt::format("{}: the firmware stays busy; power-cycle it", name()));
        co_await sleep(step);
        step = next_step(step);
    }
    co_return Result<>{};
}

/// A state that changes is progress only so often: firmware that goes round in circles is given up.
Task<Result<>> Controller::bring_to_ready(bool resetting) {
    const Time end = reactor_.now() + options_.ready_bound;
    for (unsigned changes = 0;; ++changes) {
        const std::uint32_t pad = bar_.read32(reg::scratch_pad);
        if (function_->lost())
            co_return fail(Errc::not_found,
                           fmt::format("{}: the controller is gone; plug it in, or start its model again", name()));
        const State state = state_of(pad);
        const BringUp what = bring_up(state, resetting);
        if (what.step == Step::done) co_return Result<>{};
        if (changes >= most_changes || reactor_.now() >= end || stopping_)
            co_return fail(Errc::timed_out,
                           fmt::format("{}: the firmware changes its state without getting ready, and is in state {}; "
                                       "power-cycle it",
                                       name(), to_string(state)));
        if (what.step == Step::fail) {
            if (state == State::fault && !resetting && reset_permitted()) {
                resetting = true;
                if (auto reset = co_await reset_by_diagnostic(); !reset) co_return reset;
                continue;
            }
            co_return fail(Errc::io,
                           fmt::format("{}: the firmware is in state {}; power-cycle it", name(), to_string(state)));
        }
        if (what.step == Step::write) {
            mask_interrupts(true);
            bar_.write32(registers_.doorbell, what.doorbell);
            if (auto idle = co_await wait_until_idle(); !idle) co_return idle;
        }
        const Time bound = std::min(end, reactor_.now() + options_.state_bound);
        Duration step = start_step;
        do {
            if (reactor_.now() >= bound || stopping_)
                co_return fail(Errc::timed_out,
                               fmt::format("{}: the firmware does not leave state {}; power-cycle it, or try again "
                                           "when it has booted",
                                           name(), to_string(state)));
            co_await sleep(step);
            step = next_step(step);
        } while (state_of(bar_.read32(reg::scratch_pad)) == state);
    }
}

Result<> Controller::prepare_memory() {
    if (limits_.commands < fewest_commands)
        return fail(Errc::not_supported, fmt::format("{}: the firmware takes {} commands, and {} are needed", name(),
                                                     limits_.commands + 1, fewest_commands + 1));
    if (limits_.sges == 0)
        return fail(Errc::protocol, fmt::format("{}: the firmware takes lists of no elements; power-cycle it", name()));
    if (auto chosen = choose_interrupts(); !chosen) return chosen;
    if (auto allocated = port_->allocate(function_->dma(), limits_, vectors_); !allocated)
        return std::unexpected(allocated.error().in(name()));
    const bool has_maps = is_fusion(generation_);
    const std::pair<pci::DmaMemory*, std::size_t> parts[] = {
        {&work_, work_bytes},
        {&event_, sizeof(Event)},
        {&ld_map_, has_maps ? extended_map_bytes : 0},
        {&pd_map_, has_maps ? pd_map_bytes(max_physical_disks) : 0}};
    for (const auto& [part, bytes] : parts) {
        if (bytes == 0) continue;
        auto allocated = function_->dma().allocate(bytes, pci::AddressLimit::below_4g);
        if (!allocated) return std::unexpected(allocated.error().in(name()));
        *part = std::move(*allocated);
    }
    return {};
}

/// INIT. The queues stand still or are not there yet.
Task<Result<>> Controller::initialize() {
    mask_interrupts(true);
    if (auto idle = co_await wait_until_idle(); !idle) co_return idle;
    port_->begin_init(limits_, interrupt_type_ == pci::InterruptType::msix ? vectors_ : 0);
    const char* const what = is_fusion(generation_) ? "IOC INIT" : "INIT";
    const Time bound = reactor_.now() + options_.init_bound;
    Duration step = start_step;
    while (port_->init_status() == static_cast<std::uint8_t>(MfiStatus::pending)) {
        if (reactor_.now() >= bound || function_->lost() || stopping_)
            co_return fail(Errc::timed_out,
                           fmt::format("{}: the firmware does not answer {}; power-cycle it", name(), what));
        co_await sleep(step);
        step = next_step(step);
    }
    if (const unsigned refused = port_->init_status(); refused != 0)
        co_return fail(Errc::protocol,
                       fmt::format("{}: the firmware refuses {} with status {:#04x}", name(), what, refused));
    mask_interrupts(false);
    operational_ = true;
    co_return Result<>{};
}

}  // namespace mqblk::driver::megaraid
