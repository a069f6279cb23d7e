// SPDX-License-Identifier: Apache-2.0
//
// What the controller is, its beginning and end, and one pass of its firmware.
#include "device/megaraid/controller.h"

#include <fmt/format.h>

#include <utility>

namespace mqblk::device::megaraid {

using namespace wire::megaraid;

namespace {

constexpr std::size_t copy_budget_bytes = 16u << 20;
constexpr unsigned register_bar = 1;  ///< BAR 0 of real ones is I/O space, which drivers do not use

pci::FunctionSpec make_spec(const Options& options) {
    pci::FunctionSpec spec;
    spec.id = {.vendor = pci_vendor_id,
               .device = options.device_id,
               .subsystem_vendor = pci_vendor_id,
               .subsystem_device = 0x9361,
               .class_code = 0x010400,
               .revision = 2};
    spec.bars[register_bar] = {.bytes = 65536, .wide = true};
    spec.intx = true;
    spec.msi_vectors = 1;
    spec.msix_vectors = options.reply_queues;
    spec.msix_bar = register_bar;
    spec.msix_table = 0xe000;
    spec.msix_pba = 0xf000;
    spec.express = true;
    spec.link_speed = 3;
    spec.link_width = 8;
    return spec;
}

Result<> check_options(const Options& options) {
    const Generation generation = generation_of(options.device_id);
    if (!is_fusion(generation))
        return mqblk::fail(Errc::not_supported,
                           fmt::format("MegaRAID model {:#06x}: there are 0x005b (Thunderbolt) and 0x005d (Invader)",
                                       options.device_id));
    if (options.max_commands < 32 || options.max_commands > max_commands_used)
        return mqblk::fail(Errc::invalid_argument,
                           fmt::format("{} commands: must be 32 to {}", options.max_commands, max_commands_used));
    const unsigned most = generation == Generation::thunderbolt ? 16 : max_vectors;
    if (options.reply_queues < 1 || options.reply_queues > most)
        return mqblk::fail(Errc::invalid_argument,
                           fmt::format("{} reply queues: must be 1 to {}", options.reply_queues, most));
    if (options.chain_frame_bytes != 1024 && options.chain_frame_bytes != 4096)
        return mqblk::fail(Errc::invalid_argument,
                           fmt::format("chain frames of {} bytes: must be 1024 or 4096", options.chain_frame_bytes));
    return {};
}

}  // namespace

Result<std::unique_ptr<Controller>> Controller::create(std::vector<std::shared_ptr<Device>> disks,
                                                       const std::vector<VolumeSpec>& volumes, Options options) {
    if (auto good = check_options(options); !good) return std::unexpected(good.error());
    auto controller = std::make_unique<Controller>(std::move(options));
    if (!controller->slots_.usable()) return mqblk::fail(Errc::no_space, "MegaRAID model: no memory for its commands");
    for (auto& disk : disks) {
        if (auto added = controller->topology_.add_disk(std::move(disk), max_transfer_bytes); !added)
            return std::unexpected(added.error());
    }
    for (const auto& volume : volumes) {
        if (auto added = controller->topology_.add_volume(volume, max_transfer_bytes); !added)
            return std::unexpected(added.error());
    }
    for (const Fault& fault : controller->options_.faults) {
        if (auto good = controller->check(fault); !good) return std::unexpected(good.error());
    }
    return controller;
}

Result<> Controller::check(const Fault& fault) const {
    const char* const key = fault.disk && topology_.disk(*fault.disk) == nullptr         ? "pd"
                            : fault.volume && topology_.volume(*fault.volume) == nullptr ? "ld"
                                                                                         : nullptr;
    if (key == nullptr) return {};
    std::string there;
    for (const auto& target : topology_.targets())
        there += fmt::format("{}{}={}", there.empty() ? "" : ", ", target->is_volume ? "ld" : "pd", target->id);
    return mqblk::fail(Errc::invalid_argument, fmt::format("fault with {}={}: there are {}", key,
                                                           key[0] == 'p' ? *fault.disk : *fault.volume, there));
}

Controller::Controller(Options options)
    : options_(std::move(options)),
      spec_(make_spec(options_)),
      topology_(options_.serial),
      slots_(*this, options_.max_commands),
      delayed_(options_.max_commands),
      delay_timer_([] {}),
      echo_timer_([] {}),
      max_commands_(options_.max_commands),
      restart_timer_([] {}),
      put_back_timer_([this] { put_back(); }) {
    for (const Fault& fault : options_.faults) faults_.add(fault);
    flush_waiting_.reserve(options_.max_commands);
    flush_served_.reserve(options_.max_commands);
}

Controller::~Controller() {
    for (const auto& target : topology_.targets())
        if (target->nexus != nullptr) target->unit->device().on_change({});
    if (host_ == nullptr) return;
    host_->reactor().remove(*this);
    drop_all();
    for (const auto& target : topology_.targets()) target->nexus.reset();  // runs completions
}

Result<> Controller::attach(pci::Host& host) {
    auto pool = memory::BufferPool::create(copy_budget_bytes, max_transfer_bytes);
    if (!pool) return std::unexpected(pool.error());
    copy_pool_ = std::move(*pool);
    host_ = &host;
    interrupts_.attach(host);
    for (const auto& target : topology_.targets()) {
        if (auto open = open_target(*target); !open) return open;
    }
    host.reactor().add(*this);
    power_on();
    return {};
}

Result<> Controller::open_target(Target& target) {
    auto nexus = scsi::Nexus::open(target.unit, host_->reactor());
    if (!nexus) return std::unexpected(nexus.error());
    target.nexus = std::move(*nexus);
    flushes_.push_back(std::make_unique<Flush>(Flush{.command = {}, .controller = this}));
    scsi::Command& flush = flushes_.back()->command;
    flush.context = flushes_.back().get();
    flush.done = [](scsi::Command& done) noexcept {
        Controller& controller = *static_cast<Flush*>(done.context)->controller;
        --controller.running_;
        controller.flushed();
    };
    target.unit->device().on_change([this] { ask(ask_changes); });
    return {};
}

unsigned Controller::poll() noexcept {
    sleeping_.store(false, std::memory_order_relaxed);
    unsigned events = 0;
    if (look_at_tasks_) [[unlikely]]
        look_at_tasks();
    if (asked_.load(std::memory_order_relaxed) != 0) [[unlikely]]
        events += take_asked();
    events += take_requests();
    if (running_ > 0) {
        for (const auto& target : topology_.targets())
            if (target->nexus->outstanding() > 0) events += target->nexus->poll();
    }
    if (!delayed_.empty()) [[unlikely]]
        events += tell_delayed();
    if (!echoes_.empty()) [[unlikely]]
        events += tell_echoes();
    if (restarting_) [[unlikely]]
        events += advance_firmware();
    if (interrupts_.noted()) interrupts_.flush();
    return events;
}

bool Controller::prepare_sleep() noexcept {
    if (interrupts_.noted() || look_at_tasks_) return false;
    if (restarting_ && running_ == 0 && host_->reactor().now() >= restart_time_) return false;
    // Whoever writes after this wakes the reactor; what was written before is seen here.
    sleeping_.store(true, std::memory_order_seq_cst);
    if (requests_.empty() && asked_.load(std::memory_order_seq_cst) == 0) return true;
    sleeping_.store(false, std::memory_order_relaxed);
    return false;
}

void Controller::look_awake() noexcept {
    if (sleeping_.load(std::memory_order_seq_cst) && sleeping_.exchange(false, std::memory_order_seq_cst)) [[unlikely]]
        host_->reactor().wake();
}

}  // namespace mqblk::device::megaraid
