// SPDX-License-Identifier: Apache-2.0
//
// From whatever state the firmware is in to one that takes requests: the hand-shake, memory, interrupts, IOC INIT. The
// same after a controller reset, then in the memory that there is.
#include "driver/megaraid/controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace mqblk::driver::megaraid {

using namespace wire::megaraid;

namespace {

constexpr Duration start_step = std::chrono::microseconds(100), longest_start_step = std::chrono::milliseconds(20);
constexpr Duration idle_bound = std::chrono::seconds(10);
constexpr std::size_t work_bytes = 16384;
constexpr unsigned fewest_commands = reserved_tags + 4;

// Of the memory for IOC INIT.
constexpr std::size_t message_offset = 256;
constexpr std::size_t init_bytes = 4096;

std::uint64_t wall_clock_ms() noexcept {
    using namespace std::chrono;
    return static_cast<std::uint64_t>(duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count());
}

/// Waits that begin short: a model needs no time, a card seconds.
Duration next_step(Duration step) noexcept {
    return std::min(2 * step, longest_start_step);
}

}  // namespace

Task<Result<>> Controller::wait_until_idle() {
    const Time bound = reactor_.now() + idle_bound;
    Duration step = start_step;
    while ((bar_.read32(reg::doorbell) & 1) != 0) {
        if (reactor_.now() >= bound || function_->lost() || stopping_)
            co_return fail(Errc::timed_out, fmt::format("{}: the firmware stays busy; power-cycle it", name()));
        co_await sleep(step);
        step = next_step(step);
    }
    co_return Result<>{};
}

Task<Result<>> Controller::bring_to_ready(bool resetting) {
    for (;;) {
        const std::uint32_t pad = bar_.read32(reg::scratch_pad);
        if (function_->lost())
            co_return fail(Errc::not_found,
                           fmt::format("{}: the controller is gone; plug it in, or start its model again", name()));
        const State state = state_of(pad);
        const BringUp what = bring_up(state, resetting);
        if (what.step == Step::done) co_return Result<>{};
        if (what.step == Step::fail) {
            if (state == State::fault && !resetting && reset_may_help(pad)) {
                resetting = true;
                if (auto reset = co_await reset_by_diagnostic(); !reset) co_return reset;
                continue;
            }
            co_return fail(Errc::io,
                           fmt::format("{}: the firmware is in state {}; power-cycle it", name(), to_string(state)));
        }
        if (what.step == Step::write) {
            mask_interrupts(true);
            bar_.write32(reg::doorbell, what.doorbell);
            if (auto idle = co_await wait_until_idle(); !idle) co_return idle;
        }
        const Time bound = reactor_.now() + options_.state_bound;
        Duration step = start_step;
        while (bar_.read32(reg::scratch_pad) == pad) {
            if (reactor_.now() >= bound || stopping_)
                co_return fail(Errc::timed_out,
                               fmt::format("{}: the firmware does not leave state {}; power-cycle it, or try again "
                                           "when it has booted",
                                           name(), to_string(state)));
            co_await sleep(step);
            step = next_step(step);
        }
    }
}

Result<> Controller::prepare_memory() {
    if (limits_.commands < fewest_commands)
        return fail(Errc::not_supported, fmt::format("{}: the firmware takes {} commands, and {} are needed", name(),
                                                     limits_.commands + 1, fewest_commands + 1));
    const unsigned vectors = std::min(limits_.reply_queues, function_->interrupt_counts().msix);
    if (vectors < 2)
        return fail(Errc::not_supported, fmt::format("{}: needs MSI-X and two reply queues, and has {}; a model may "
                                                     "have too few by its options",
                                                     name(), vectors));
    const unsigned wanted = options_.queues != 0 ? options_.queues : std::max(1u, std::thread::hardware_concurrency());
    queues_wanted_ = std::min({wanted, vectors - 1, Options::most_queues});
    auto memory = CommandMemory::create(function_->dma(), limits_.commands, limits_.chain_bytes);
    if (!memory) return std::unexpected(memory.error().in(name()));
    memory_ = std::move(*memory);
    internal_.use(*memory_);
    const std::size_t ring_bytes = limits_.reply_depth * sizeof(ReplyDescriptor);
    const std::pair<pci::DmaMemory*, std::size_t> parts[] = {{&reply_memory_, (queues_wanted_ + 1) * ring_bytes},
                                                             {&init_memory_, init_bytes},
                                                             {&work_, work_bytes},
                                                             {&ld_map_, extended_map_bytes},
                                                             {&pd_map_, pd_map_bytes(max_physical_disks)},
                                                             {&event_, sizeof(Event)}};
    for (const auto& [part, bytes] : parts) {
        auto allocated = function_->dma().allocate(bytes, pci::AddressLimit::below_4g);
        if (!allocated) return std::unexpected(allocated.error().in(name()));
        *part = std::move(*allocated);
    }
    rings_.resize(queues_wanted_ + 1);
    for (unsigned i = 0; i < rings_.size(); ++i) rings_[i].use(reply_memory_.data() + i * ring_bytes, i);
    return {};
}

Result<> Controller::enable_interrupts() {
    if (auto enabled = function_->enable_interrupts(pci::InterruptType::msix, queues_wanted_ + 1); !enabled)
        return enabled;
    vectors_enabled_ = true;
    auto made = make_interrupt(0, reactor_, [this] {
        interrupt_->arm();
        drain();
    });
    if (!made) return std::unexpected(made.error());
    interrupt_ = std::move(*made);
    interrupt_->arm();
    return {};
}

void Controller::mask_interrupts(bool masked) noexcept {
    if (masked) return bar_.write32(reg::outbound_intr_mask, ~0u);
    bar_.write32(reg::outbound_intr_status, ~0u);
    static_cast<void>(bar_.read32(reg::outbound_intr_status));
    bar_.write32(reg::outbound_intr_mask, ~intr_fusion);
}

/// IOC INIT. The queues stand still or are not there yet.
Task<Result<>> Controller::initialize() {
    mask_interrupts(true);
    if (auto idle = co_await wait_until_idle(); !idle) co_return idle;
    const auto vectors = static_cast<unsigned>(rings_.size());
    const unsigned depth = reply_queue_depth(memory_->commands());
    for (ReplyRing& ring : rings_) ring.reset(depth, limits_.combined_index);

    IocInit message;
    message.msg_version = mpi_version;
    message.header_version = mpi_header_version;
    message.host_msix_vectors = static_cast<std::uint8_t>(vectors);
    message.request_frame_words = io_frame_bytes / 4;
    message.reply_queue_depth = static_cast<std::uint16_t>(depth);
    message.sense_address_high = static_cast<std::uint32_t>(memory_->sense_address(1) >> 32);
    message.request_frames = memory_->frames_address();
    message.reply_queue = reply_memory_.address();
    message.time_stamp = wall_clock_ms();
    InitFrame frame;
    frame.command = static_cast<std::uint8_t>(MfiCommand::init);
    frame.status = static_cast<std::uint8_t>(MfiStatus::pending);
    frame.flags = mfi_dont_post;
    frame.data_bytes = sizeof message;
    frame.queue_info_new = init_memory_.address(message_offset);
    frame.driver_operations = driver_max_255_lds | (limits_.chain_bytes > 1024 ? unsigned{driver_ext_io_size} : 0u) |
                              (vectors > 8 ? unsigned{driver_additional_msix} : 0u);
    std::memcpy(init_memory_.data() + message_offset, &message, sizeof message);
    std::memcpy(init_memory_.data(), &frame, sizeof frame);
    bar_.write64(reg::inbound_low_queue_port, mfa_descriptor(init_memory_.address()));

    auto& status_byte = reinterpret_cast<std::uint8_t&>(init_memory_.data()[mfi_status_offset]);
    const std::atomic_ref<std::uint8_t> status(status_byte);
    const Time bound = reactor_.now() + options_.init_bound;
    Duration step = start_step;
    while (status.load(std::memory_order_acquire) == static_cast<std::uint8_t>(MfiStatus::pending)) {
        if (reactor_.now() >= bound || function_->lost() || stopping_)
            co_return fail(Errc::timed_out,
                           fmt::format("{}: the firmware does not answer IOC INIT; power-cycle it", name()));
        co_await sleep(step);
        step = next_step(step);
    }
    if (const unsigned refused = status.load(std::memory_order_acquire); refused != 0)
        co_return fail(Errc::protocol,
                       fmt::format("{}: the firmware refuses IOC INIT with status {:#04x}", name(), refused));
    mask_interrupts(false);
    operational_ = true;
    co_return Result<>{};
}

}  // namespace mqblk::driver::megaraid
