// SPDX-License-Identifier: Apache-2.0
//
// A card's beginning and end, its handshake, and what it says of itself. What happens in between is in
// controller_states.cpp.
#include "driver/skd/controller.h"

#include "base/log.h"
#include "driver/skd/io_queue.h"
#include "driver/skd/skd.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

namespace mqblk::driver::skd {

using namespace wire::skd;

namespace {

constexpr Duration tick_period = std::chrono::seconds(1);
/// For all of start(), whatever states the card goes through.
constexpr Duration start_limit = std::chrono::seconds(90);
constexpr std::uint16_t host_id = 0;  // for the card's own log
constexpr unsigned seconds_high_shift = 16;

std::uint32_t wall_clock_seconds() noexcept {
    return static_cast<std::uint32_t>(std::time(nullptr));
}

}  // namespace

Result<> check_id(const std::string& name, std::uint16_t vendor, std::uint16_t device) {
    if (vendor == pci_vendor_id && device == pci_device_id) return {};
    return fail(
        Errc::not_supported,
        fmt::format("{} is {:04x}:{:04x}, which is no S1120 ({:04x}:{:04x}); name another one, as `lspci -nn -d "
                    "{:04x}:` lists them",
                    name, vendor, device, pci_vendor_id, pci_device_id, pci_vendor_id));
}

Result<std::unique_ptr<Controller>> Controller::create(std::unique_ptr<pci::Function> function, Reactor& reactor,
                                                       const Options& options) {
    if (auto checked = check_options(options); !checked) return std::unexpected(checked.error());
    const pci::FunctionId id = pci::read_id(*function);
    if (auto known = check_id(function->name(), id.vendor, id.device); !known) return std::unexpected(known.error());
    const auto bar = function->bar(register_bar);
    if (!bar) return std::unexpected(bar.error());
    if (bar->size() < register_bytes) {
        return fail(Errc::protocol, fmt::format("{}: BAR {} has {} bytes and the registers of an S1120 take {}",
                                                function->name(), register_bar, bar->size(), register_bytes));
    }
    std::unique_ptr<Controller> controller(new Controller(std::move(function), *bar, reactor, options));
    if (auto ready = controller->prepare(); !ready) return std::unexpected(ready.error());
    return controller;
}

Controller::Controller(std::unique_ptr<pci::Function> function, pci::Bar bar, Reactor& reactor, const Options& options)
    : options_(options),
      reactor_(reactor),
      function_(std::move(function)),
      bar_(bar),
      depth_(options.max_queue_depth),
      interrupts_(*function_, bar_, reactor, *this),
      tick_([this] { tick(); }),
      pause_([this] { send_internal(); }),
      quiet_([this] { fail_when_quiet(); }) {}

Controller::~Controller() {
    *alive_ = false;
    function_->on_lost({});
}

Result<> Controller::prepare() {
    auto ring = function_->dma().allocate(completion_ring_bytes());
    if (!ring) return std::unexpected(ring.error().in(function_->name()));
    ring_memory_ = std::move(*ring);
    completions_.use(ring_memory_.data());
    completions_.reset();
    if (auto ready = commands_.prepare(function_->dma()); !ready)
        return std::unexpected(ready.error().in(function_->name()));
    if (auto enabled = interrupts_.enable(options_.isr_type); !enabled) return enabled;
    function_->on_lost([this, &reactor = reactor_, alive = alive_] {
        reactor.post([this, alive] {
            if (*alive) state_changed();
        });
    });
    return {};
}

Result<> Controller::start() {
    begun_ = true;
    given_up_ = false;
    function_->set_bus_master(true);
    bar_.write32(reg::int_status_host, cause_acknowledge);
    look_at_drive();
    hardware_version_ = bar_.read32(reg::hw_version);
    interrupts_.open_gates();
    const Time begun = reactor_.now();
    tick_.arm(reactor_, begun + tick_period);
    act(states_.begin(drive_, begun));
    const Time limit = begun + start_limit;
    while (!given_up_ && (admission_ == Admission::hold || states_.due() != never)) {
        if (reactor_.now() >= limit) break;
        reactor_.run_once(Reactor::Sleep::yes, limit);
    }
    if (states_.state() != DriverState::online) return std::unexpected(start_failure());
    if (facts().sectors == 0) {
        return fail(Errc::io, fmt::format("{}: the card does not say its capacity (medium error)", function_->name()));
    }
    return {};
}

Error Controller::start_failure() const {
    const std::string& name = function_->name();
    switch (states_.state()) {
        case DriverState::protocol_mismatch:
            return {Errc::protocol, fmt::format("{}: its firmware speaks protocol {}.{}, and major {} is needed", name,
                                                protocol_ >> 4, protocol_ & 0xf, protocol_major)};
        case DriverState::disappeared:
            return {Errc::not_found, fmt::format("{}: the card is gone; plug it in, or start its model again", name)};
        case DriverState::fault:
            if (drive_ == DriveState::fault)
                return {Errc::io, fmt::format("{}: the card's firmware is in state fault; power-cycle it", name)};
            break;
        default:
            break;
    }
    return {Errc::timed_out, fmt::format("{}: the card is not online in time (card {}, driver {}); power-cycle it, or "
                                         "try again when it has booted",
                                         name, to_string(drive_), to_string(states_.state()))};
}

void Controller::stop() noexcept {
    if (!begun_) return;
    const bool sync = states_.state() == DriverState::online && !commands_.pending();
    states_.stop(sync);
    states_changed();
    if (sync) {
        synced_ = false;
        commands_.begin_sync();
        send_internal();
        const Time limit = reactor_.now() + sync_bound;
        while (!synced_ && states_.state() == DriverState::syncing && reactor_.now() < limit)
            reactor_.run_once(Reactor::Sleep::yes, limit);
        if (!synced_ || commands_.sync_failed())
            log_warning(fmt::format("{}: the card's cache could not be written at the end", function_->name()));
        states_.stop(false);
    }
    commands_.forget();
    tick_.cancel();
    pause_.cancel();
    quiet_.cancel();
    interrupts_.close_gates();
    bar_.write32(reg::int_status_host, cause_acknowledge);
    bar_.write32(reg::control, control_soft_reset);
    const auto settled = [this] {
        look_at_drive();
        return drive_ == DriveState::init || drive_ == DriveState::missing;
    };
    for (unsigned step = 0; step < stop_steps && !settled(); ++step) {
        const Time until = reactor_.now() + stop_step;
        while (reactor_.now() < until && !settled()) reactor_.run_once(Reactor::Sleep::yes, until);
    }
    if (!settled())
        log_warning(fmt::format("{}: the card does not stop; it is in state {}", function_->name(), to_string(drive_)));
    function_->set_bus_master(false);
    begun_ = false;
}

void Controller::send_message(MessageType type, std::uint16_t data) noexcept {
    last_message_ = type;
    bar_.write32(reg::msg_to_device, make_message(type, data));
}

/// The answer to a message brings the next one; whatever else comes is nobody's.
void Controller::answered(std::uint32_t word) {
    const MessageType type = message_type(word);
    if (type != last_message_ || type == MessageType::none) return;
    last_message_ = MessageType::none;
    const std::uint32_t seconds = wall_clock_seconds();
    switch (type) {
        case MessageType::fitfw_init:
            protocol_ = message_parameter(word);
            if (protocol_major_of(word) != protocol_major) return act(states_.mismatched());
            return send_message(MessageType::get_cmdq_depth);
        case MessageType::get_cmdq_depth:
            depth_ = std::min<unsigned>(options_.max_queue_depth, message_data(word));
            if (depth_ == 0) return give_up_on_card("it says that it takes no commands");
            return send_message(MessageType::set_compq_depth, completion_depth);
        case MessageType::set_compq_depth:
            bar_.write64(reg::msg_to_device_arg, ring_memory_.address());
            return send_message(MessageType::set_compq_addr);
        case MessageType::set_compq_addr:
            completions_.reset();
            return send_message(MessageType::cmd_log_host_id, host_id);
        case MessageType::cmd_log_host_id:
            return send_message(MessageType::cmd_log_time_stamp_lo, static_cast<std::uint16_t>(seconds));
        case MessageType::cmd_log_time_stamp_lo:
            return send_message(MessageType::cmd_log_time_stamp_hi,
                                static_cast<std::uint16_t>(seconds >> seconds_high_shift));
        case MessageType::cmd_log_time_stamp_hi:
            return send_message(MessageType::arm_queue);
        default:
            return;  // of arm_queue: the card says itself that it is online
    }
}

std::vector<std::pair<std::string, std::string>> Controller::details() const {
    std::vector<std::pair<std::string, std::string>> result{
        {"function", function_->name()},
        {"driver_state", to_string(states_.state())},
        {"drive_state", to_string(drive_)},
        {"protocol", fmt::format("{}.{}", protocol_ >> 4, protocol_ & 0xf)},
        {"hw_version", fmt::format("{:#x}", hardware_version_)},
        {"isr_type", to_string(interrupts_.type())},
        {"queue_depth", fmt::format("{}", depth_)},
        {"max_req_per_msg", fmt::format("{}", options_.max_req_per_msg)},
        {"sgs_per_request", fmt::format("{}", options_.sgs_per_request)},
    };
    if (const auto express = pci::find_capability(*function_, pci::cap::pci_express)) {
        const std::uint32_t link = function_->config_read(*express + pci::cap::express_link_status, 2);
        result.emplace_back("link_generation", fmt::format("{}", link & 0xf));
        result.emplace_back("link_width", fmt::format("{}", link >> 4 & 0x3f));
    }
    return result;
}

}  // namespace mqblk::driver::skd
