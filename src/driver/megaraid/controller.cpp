// SPDX-License-Identifier: Apache-2.0
//
// A controller's beginning and end as a whole, and what the queues and people ask of it.
#include "driver/megaraid/controller.h"

#include "base/log.h"
#include "driver/megaraid/generation.h"
#include "driver/megaraid/io_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace mqblk::driver::megaraid {

using namespace wire::megaraid;

namespace {

constexpr Duration tick_first = std::chrono::milliseconds(250);
constexpr Duration end_step = std::chrono::milliseconds(1);
constexpr Duration end_bound = std::chrono::seconds(10);

/// The first memory BAR: real ones have their I/O space before it.
Result<pci::Bar> find_registers(pci::Function& function) {
    constexpr std::uint32_t is_io = 1;
    for (unsigned index = 0; index < pci::bar_count; ++index) {
        if ((function.config_read(pci::reg::bar0 + 4 * index, 4) & is_io) != 0) continue;
        auto bar = function.bar(index);
        if (!bar) continue;
        if (bar->size() >= register_bytes) return *bar;
        return fail(Errc::protocol, fmt::format("{}: BAR {} has {} bytes and the registers of a MegaRAID controller "
                                                "take {}",
                                                function.name(), index, bar->size(), register_bytes));
    }
    return fail(Errc::protocol, fmt::format("{}: has no memory BAR", function.name()));
}

const char* interrupt_name(pci::InterruptType type) noexcept {
    return type == pci::InterruptType::msix ? "msix" : type == pci::InterruptType::msi ? "msi" : "intx";
}

std::string text_of(std::span<const char> field) {
    const auto end = std::ranges::find(field, '\0');
    return {field.begin(), end};
}

}  // namespace

Result<std::unique_ptr<Controller>> Controller::create(std::unique_ptr<pci::Function> function, Reactor& control,
                                                       const Options& options) {
    if (auto checked = check_options(options); !checked) return std::unexpected(checked.error());
    const pci::FunctionId id = pci::read_id(*function);
    const auto generation = find_generation(function->name(), id.vendor, id.device);
    if (!generation) return std::unexpected(generation.error());
    const auto bar = find_registers(*function);
    if (!bar) return std::unexpected(bar.error());
    return std::unique_ptr<Controller>(new Controller(std::move(function), *bar, control, options, *generation));
}

Controller::Controller(std::unique_ptr<pci::Function> function, pci::Bar bar, Reactor& control, const Options& options,
                       Generation generation)
    : options_(options),
      reactor_(control),
      function_(std::move(function)),
      bar_(bar),
      registers_(registers_of(generation)),
      port_(CommandPort::create(bar_, generation)),
      generation_(generation),
      internal_(control, *port_, [this] { listen_again(); }),
      tick_([this] { tick(); }) {
    function_->on_lost([this, &reactor = reactor_, alive = alive_] {
        reactor.post([this, alive] {
            if (*alive && watching_) tick();
        });
    });
}

Controller::~Controller() {
    *alive_ = false;
    function_->on_lost({});
}

Task<Result<>> Controller::start() {
    function_->set_bus_master(true);
    mask_interrupts(true);
    if (auto ready = co_await bring_to_ready(false); !ready) co_return ready;
    limits_ = read_limits(bar_.read32(reg::scratch_pad), bar_.read32(reg::scratch_pad_2), generation_);
    if (auto ready = prepare_memory(); !ready) co_return ready;
    if (auto enabled = enable_interrupts(); !enabled) co_return enabled;
    if (auto initialized = co_await initialize(); !initialized) co_return initialized;
    watching_ = true;
    tick_.arm(reactor_, reactor_.now() + tick_first);
    if (auto read = co_await read_controller_info(); !read) co_return read;
    if (auto read = co_await read_maps(); !read) co_return read;
    if (auto scanned = co_await scan(); !scanned) co_return scanned;
    co_await start_events();
    wait_for_maps();
    running_ = true;
    spawn(watch(), [this] { running_ = false; });
    co_return Result<>{};
}

Task<void> Controller::stop() {
    stopping_ = true;
    internal_.abandon_wait();
    signal();
    while (running_) co_await sleep(end_step);
    if (operational_ && !given_up() && state_of(bar_.read32(reg::scratch_pad)) == State::operational) {
        Mailbox mailbox;
        mailbox.bytes[0] = flush_controller | flush_disks;
        const Outcome flushed = co_await internal_.dcmd(dcmd::ctrl_cache_flush, mailbox, {}, options_.dcmd_bound);
        if (!flushed.ok())
            log_warning(fmt::format("{}: the controller's caches could not be written at the end", name()));
        if (flushed.end == Outcome::End::answered)
            static_cast<void>(co_await internal_.dcmd(dcmd::ctrl_shutdown, {}, {}, options_.dcmd_bound));
    }
    watching_ = false;
    tick_.cancel();
    co_await sleep({});  // out of the replies that brought this here
    mask_interrupts(true);
    interrupt_.reset();
    if (vectors_enabled_ && !function_->lost())
        static_cast<void>(function_->enable_interrupts(pci::InterruptType::none, 0));
    function_->set_bus_master(false);
    const Time bound = reactor_.now() + end_bound;
    while (!function_->quiet() && reactor_.now() < bound) co_await sleep(end_step);
}

Task<void> Controller::sleep(Duration duration) {
    Promise<bool> later;
    Timer timer([&later] { later.set(true); });
    timer.arm(reactor_, reactor_.now() + duration);
    co_await later;
}

// The queues'.

void Controller::attach(IoQueue& queue) {
    const std::lock_guard lock(queues_mutex_);
    queues_.push_back(&queue);
    queue.adopt(epoch_.load(std::memory_order_relaxed), fewer_);
    if (holds_ > 0) queue.close_gate();
}

void Controller::detach(IoQueue& queue, std::unique_ptr<pci::Interrupt> interrupt) noexcept {
    {
        const std::lock_guard lock(interrupts_mutex_);
        interrupt.reset();
    }
    {
        const std::lock_guard lock(queues_mutex_);
        std::erase(queues_, &queue);
    }
    if (shared_ != nullptr && shared_->stops_polling()) listen();
}

Result<std::unique_ptr<pci::Interrupt>> Controller::make_interrupt(unsigned vector, Reactor& reactor,
                                                                   std::function<void()> raised) {
    const std::lock_guard lock(interrupts_mutex_);
    return function_->interrupt(vector, reactor, std::move(raised));
}

void Controller::hold() noexcept {
    const std::lock_guard lock(queues_mutex_);
    if (holds_++ > 0) return;
    for (IoQueue* queue : queues_) queue->close_gate();
    block::Gate::barrier();
    for (IoQueue* queue : queues_)
        while (queue->inside()) std::this_thread::yield();
}

void Controller::release() {
    const std::lock_guard lock(queues_mutex_);
    if (--holds_ > 0) return;
    for (IoQueue* queue : queues_) {
        queue->open_gate();
        queue->wake();
    }
}

void Controller::late(const LateCommand& command) noexcept {
    {
        const std::lock_guard lock(late_mutex_);
        late_.push_back(command);
    }
    reactor_.post([this, alive = alive_] {
        if (*alive) signal();
    });
}

void Controller::note_mismatch() noexcept {
    counters_.mismatches.fetch_add(1, std::memory_order_relaxed);
    log_limited("megaraid: reply mismatch", "megaraid: a reply belongs to no command: late, twice or wrong");
}

std::vector<std::pair<std::string, std::string>> Controller::details() const {
    const std::lock_guard lock(mutex_);
    return {
        {"function", function_->name()},
        {"product", text_of(info_.product_name)},
        {"controller_serial", text_of(info_.serial)},
        {"package_version", text_of(info_.package_version)},
        {"firmware_state", to_string(state_of(bar_.read32(reg::scratch_pad)))},
        {"generation", to_string(generation_)},
        {"interrupts", interrupt_name(interrupt_type_)},
        {"commands", fmt::format("{}", limits_.commands)},
        {"reply_queues", fmt::format("{}", vectors_)},
        {"chain_frame_bytes", fmt::format("{}", limits_.chain_bytes)},
        {"sges_per_request", fmt::format("{}", limits_.sges)},
        {"ld_map", ld_map_copy_.empty() ? "none"
                   : extended_          ? "extended"
                                        : "legacy"},
        {"controller_resets", fmt::format("{}", counters_.resets.load())},
    };
}

}  // namespace mqblk::driver::megaraid
