// SPDX-License-Identifier: Apache-2.0
#include "driver/megaraid/megaraid.h"

#include "block/driver.h"
#include "block/queue.h"
#include "driver/megaraid/controller.h"
#include "driver/megaraid/io_queue.h"
#include "pci/function.h"
#include "reactor/reactor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace mqblk::driver::megaraid {

namespace {

Task<void> close_controller(std::unique_ptr<Controller> controller) {
    co_await controller->stop();
    controller.reset();  // before anybody is told
}

std::string model_of(const UnitFacts& facts) {
    return facts.vendor.empty() ? facts.product : fmt::format("{} {}", facts.vendor, facts.product);
}

using Details = std::vector<std::pair<std::string, std::string>>;

block::Disk describe(Unit& unit, const Controller& controller, Details details) {
    const UnitFacts& facts = unit.facts;
    block::Disk disk;
    QueueLimits& limits = disk.limits;
    const auto sectors_of = [&](std::uint64_t blocks) {
        return static_cast<std::uint32_t>(
            std::min<std::uint64_t>(blocks << unit.block_shift, QueueLimits::unlimited >> 1));
    };
    limits.logical_block_size = facts.block_bytes;
    limits.physical_block_size = facts.physical_bytes;
    limits.io_min = facts.physical_bytes;
    if (unit.route.layout) {
        const wire::megaraid::Layout& layout = *unit.route.layout;
        limits.io_min = static_cast<std::uint32_t>(layout.strip_blocks() * sector_bytes);
        limits.io_opt = limits.io_min * layout.data_arms;
    }
    limits.max_sectors = controller.max_bytes() / sector_bytes;
    limits.max_segments = controller.max_sges();
    limits.max_discard_sectors = sectors_of(facts.max_unmap_blocks);
    limits.discard_granularity = facts.max_unmap_blocks == 0 ? 0 : facts.unmap_granularity_blocks * facts.block_bytes;
    limits.max_write_zeroes_sectors = sectors_of(facts.max_write_same_blocks);
    limits.write_cache = facts.write_cache;
    limits.fua = facts.write_cache && facts.fua;
    limits.rotational = facts.rotational;
    disk.sectors = facts.blocks << unit.block_shift;
    disk.read_only = facts.read_only;
    disk.identity.name = fmt::format("{}/{}/{}", controller.options().name, to_string(unit.kind()), unit.id());
    disk.identity.driver = "megaraid";
    disk.identity.model = model_of(facts);
    disk.identity.serial = facts.serial;
    disk.identity.firmware = facts.revision;
    disk.unit = unit.id();
    disk.driver_data = &unit;
    disk.details = std::move(details);
    if (unit.kind() == Kind::volume && unit.route.mapped)
        disk.details.emplace_back("raid_level", fmt::format("{}", unit.route.raid.level));
    disk.details.emplace_back("fast_path", unit.route.mapped ? "yes" : "no");
    return disk;
}

}  // namespace

/// Knows the way to the controller, and how to end it.
class MegaraidDriver final : public block::Driver {
  public:
    MegaraidDriver(std::unique_ptr<Controller> controller, Control control, std::thread::id control_thread,
                   std::shared_ptr<Reactor> home)
        : controller_(std::move(controller)),
          control_(std::move(control)),
          control_thread_(control_thread),
          home_(std::move(home)) {
        shape_.max_queues = controller_->queues();
        shape_.depth = controller_->memory().commands();
        shape_.reserved = reserved_tags;
        shape_.payload_bytes = sizeof(Context);
        shape_.host_wide_tags = true;
        shape_.timeout = controller_->options().timeout;
    }
    ~MegaraidDriver() override {
        // The control path may have been the last to look at a device: then its thread ends what it can, and another
        // one ends it.
        const bool own_thread = control_.thread != nullptr && std::this_thread::get_id() == control_thread_;
        end(std::move(controller_), control_, own_thread, closed_);
    }

    /// Stops and destroys a controller in its reactor.
    static void end(std::unique_ptr<Controller> controller, const Control& control, bool own_thread,
                    std::shared_ptr<std::atomic<bool>> closed = nullptr) {
        const auto done = std::make_shared<std::atomic<bool>>(false);
        const auto held = std::make_shared<std::unique_ptr<Controller>>(std::move(controller));
        std::shared_ptr<void> thread = own_thread ? control.thread : nullptr;
        control.reactor->post([done, held, closed = std::move(closed), thread = std::move(thread)]() mutable {
            spawn(close_controller(std::move(*held)), [done, closed, thread = std::move(thread)]() mutable {
                for (const auto& flag : {done, closed}) {
                    if (flag == nullptr) continue;
                    flag->store(true);
                    flag->notify_all();
                }
                if (thread != nullptr) std::thread([thread = std::move(thread)] {}).detach();
            });
        });
        if (!own_thread) control.wait(*done);
    }

    const Shape& shape() const noexcept override { return shape_; }
    std::shared_ptr<Reactor> home() noexcept override { return home_; }
    Result<std::unique_ptr<block::HardwareQueue>> open_queue(unsigned index, block::Queue& queue, Reactor&) override {
        auto opened = IoQueue::create(*controller_, queue, controller_->shared() != nullptr ? 0 : index + 1);
        if (!opened) return std::unexpected(opened.error());
        return std::move(*opened);
    }
    [[nodiscard]] Controller& controller() const noexcept { return *controller_; }
    [[nodiscard]] const std::shared_ptr<std::atomic<bool>>& closed() const noexcept { return closed_; }

  private:
    std::unique_ptr<Controller> controller_;
    const Control control_;
    const std::thread::id control_thread_;
    const std::shared_ptr<Reactor> home_;  ///< of the last queue: has the control reactor's clock, not a caller's
    const std::shared_ptr<std::atomic<bool>> closed_ = std::make_shared<std::atomic<bool>>(false);
    Shape shape_;
};

Control threaded_control(Reactor& reactor, std::shared_ptr<void> thread) {
    return {.reactor = &reactor,
            .wait = [](const std::atomic<bool>& done) { done.wait(false); },
            .thread = std::move(thread)};
}

Control turned_control(Reactor& reactor) {
    return {.reactor = &reactor,
            .wait =
                [&reactor](const std::atomic<bool>& done) {
                    while (!done.load()) reactor.run_once(Reactor::Sleep::yes);
                },
            .thread = nullptr};
}

Result<std::shared_ptr<Adapter>> Adapter::open(std::unique_ptr<pci::Function> function, Control control,
                                               const Options& options) {
    struct Start {
        std::unique_ptr<pci::Function> function;
        Result<std::unique_ptr<Controller>> controller = nullptr;
        Result<> result;
        std::thread::id thread;
        std::shared_ptr<Reactor> home;
        std::atomic<bool> done{false};
        void end() {
            done.store(true);
            done.notify_all();
        }
    };
    const auto start = std::make_shared<Start>();
    start->function = std::move(function);
    control.reactor->post([start, &reactor = *control.reactor, options] {
        start->thread = std::this_thread::get_id();
        start->home = reactor.shareable();
        start->controller = Controller::create(std::move(start->function), reactor, options);
        start->function.reset();
        if (!start->controller) return start->end();
        spawn((*start->controller)->start(), [start](Result<> result) {
            start->result = std::move(result);
            start->end();
        });
    });
    control.wait(start->done);
    if (!start->controller) return std::unexpected(start->controller.error());
    if (!start->result) {
        MegaraidDriver::end(std::move(*start->controller), control, false);
        return std::unexpected(start->result.error());
    }
    auto driver = std::make_shared<MegaraidDriver>(std::move(*start->controller), std::move(control), start->thread,
                                                   std::move(start->home));
    auto set = block::QueueSet::create(driver);
    return std::shared_ptr<Adapter>(new Adapter(std::move(driver), std::move(set)));
}

Adapter::Adapter(std::shared_ptr<MegaraidDriver> driver, std::shared_ptr<block::QueueSet> set)
    : driver_(std::move(driver)), set_(std::move(set)) {}

Adapter::~Adapter() = default;

Adapter::Trace Adapter::trace() const {
    Trace trace;
    trace.driver_ = driver_;
    trace.set_ = set_;
    trace.closed_ = driver_->closed();
    return trace;
}

std::shared_ptr<Adapter> Adapter::Trace::again() const {
    auto driver = driver_.lock();
    auto set = set_.lock();
    if (driver != nullptr && set != nullptr)
        return std::shared_ptr<Adapter>(new Adapter(std::move(driver), std::move(set)));
    driver.reset();
    if (closed_ != nullptr) closed_->wait(false);
    return nullptr;
}

std::vector<std::pair<std::string, std::string>> Adapter::details() const {
    return driver_->controller().details();
}

std::vector<UnitName> Adapter::units() const {
    std::vector<UnitName> result;
    driver_->controller().for_each_present([&](const Unit& unit) {
        result.push_back({.kind = unit.kind(),
                          .id = unit.id(),
                          .model = model_of(unit.facts),
                          .serial = unit.facts.serial,
                          .bytes = unit.facts.blocks * unit.facts.block_bytes,
                          .block_bytes = unit.facts.block_bytes});
        if (unit.kind() == Kind::volume && unit.route.mapped) result.back().raid_level = unit.route.raid.level;
    });
    return result;
}

Result<std::shared_ptr<Device>> Adapter::device(Kind kind, unsigned id) {
    std::shared_ptr<Device> device;
    Controller& controller = driver_->controller();
    const bool there = controller.with_unit(kind, id, [&](Unit& unit) { device = unit.device.lock(); });
    if (device != nullptr) return device;
    if (there) {
        block::Disk disk;
        auto details = controller.details();
        const Unit* described = nullptr;
        controller.with_unit(kind, id, [&](Unit& unit) {
            unit.taken = true;
            described = &unit;
            disk = describe(unit, controller, std::move(details));
        });
        if (described != nullptr) {
            device = set_->add_disk(std::move(disk));
            bool same = false;
            controller.with_unit(kind, id, [&](Unit& unit) {
                same = &unit == described;
                if (same) unit.device = device;
            });
            if (!same) device->remove();  // it went meanwhile
            return device;
        }
    }
    std::vector<std::string> names;
    for (const UnitName& unit : units()) names.push_back(fmt::format("{}/{}", to_string(unit.kind), unit.id));
    return fail(Errc::not_found, fmt::format("{}: has no {}/{}; {}", controller.name(), to_string(kind), id,
                                             names.empty() ? controller.why_empty()
                                                           : fmt::format("there are {}", fmt::join(names, ", "))));
}

Adapter::Counters Adapter::counters() const {
    const Controller::Counters& from = driver_->controller().counters();
    return {.resets = from.resets,
            .aborts = from.aborts,
            .target_resets = from.target_resets,
            .mismatches = from.mismatches,
            .sent_again = from.sent_again,
            .events = from.events};
}

unsigned Adapter::queues() const noexcept {
    return driver_->shape().max_queues;
}

unsigned Adapter::depth() const noexcept {
    return driver_->shape().depth - driver_->shape().reserved;
}

}  // namespace mqblk::driver::megaraid
