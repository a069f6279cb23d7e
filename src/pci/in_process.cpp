// SPDX-License-Identifier: Apache-2.0
//
// Driver and model in one process. Each vector is a flag; an Interrupt that is armed is a poller that looks at its flag
// and is woken when it is set. Whoever raises may be on another thread: an Interrupt's end waits for it (RCU).
#include "pci/in_process.h"

#include "base/rcu.h"
#include "pci/function_core.h"
#include "reactor/reactor.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

namespace mqblk::pci {

namespace {

constexpr Duration reset_bound = std::chrono::seconds(10);
constexpr Duration reset_look_again = std::chrono::microseconds(50);

/// One vector. `armed_in` is the reactor to wake.
struct Line {
    std::atomic<bool> pending{false};
    std::atomic<Reactor*> armed_in{nullptr};
};

std::size_t most_vectors(const FunctionSpec& spec) noexcept {
    return std::max({spec.intx ? 1u : 0u, spec.msi_vectors, spec.msix_vectors});
}

class InProcessInterrupt final : public Interrupt, Poller {
  public:
    InProcessInterrupt(FunctionCore& core, Line& line, bool pin, Reactor& reactor, std::function<void()> raised)
        : core_(core), line_(line), pin_(pin), reactor_(reactor), raised_(std::move(raised)) {}
    ~InProcessInterrupt() override {
        disarm();
        rcu::synchronize();
    }

    void arm() override {
        reactor_.add(*this);
        line_.armed_in.store(&reactor_, std::memory_order_seq_cst);
        if (pin_) core_.unmask_intx();
    }
    void disarm() noexcept override {
        line_.armed_in.store(nullptr, std::memory_order_seq_cst);
        reactor_.remove(*this);
    }

  private:
    unsigned poll() noexcept override {
        if (!line_.pending.load(std::memory_order_relaxed)) return 0;
        line_.pending.exchange(false, std::memory_order_acq_rel);
        disarm();
        const auto raised = raised_;  // it may destroy this
        raised();
        return 1;
    }
    bool prepare_sleep() noexcept override { return !line_.pending.load(std::memory_order_seq_cst); }

    FunctionCore& core_;
    Line& line_;
    const bool pin_;
    Reactor& reactor_;
    const std::function<void()> raised_;
};

class InProcessFunction final : public Function, BarAccess, InterruptSink {
  public:
    InProcessFunction(std::unique_ptr<Model> model, Reactor& reactor, InProcessOptions options);
    ~InProcessFunction() override;

    Result<> start();

    std::uint32_t config_read(unsigned offset, unsigned bytes) noexcept override;
    void config_write(unsigned offset, unsigned bytes, std::uint32_t value) noexcept override;
    Result<Bar> bar(unsigned index) override;
    Result<Bar> bar_at(unsigned index, std::uint64_t offset) override;
    InterruptCounts interrupt_counts() const noexcept override { return core_.interrupt_counts(); }
    Result<> enable_interrupts(InterruptType type, unsigned vectors) override;
    Result<std::unique_ptr<Interrupt>> interrupt(unsigned vector, Reactor& reactor,
                                                 std::function<void()> raised) override;
    bool quiet() noexcept override { return core_.model().quiet(); }
    Task<Result<>> reset(Reactor& reactor) override;
    bool lost() const noexcept override { return lost_.load(std::memory_order_acquire); }
    void on_lost(std::function<void()> lost) override;
    Result<> reconnect(Duration bound) override;

  private:
    class Backend;

    std::uint64_t bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept override {
        if (lost()) return all_ones(bytes);
        return core_.bar_read(bar, offset, bytes);
    }
    void bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept override {
        if (!lost()) core_.bar_write(bar, offset, bytes, value);
    }
    bool deliver(InterruptType type, unsigned vector) noexcept override;
    void gone_changed(bool gone) noexcept override;
    void tell_model(void (Model::*event)());

    const InProcessOptions options_;
    HostMemory memory_;
    std::vector<Line> lines_;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< for what was posted
    std::atomic<bool> lost_{false};
    std::mutex lost_mutex_;
    std::function<void()> on_lost_;
    FunctionCore core_;
};

/// Memory is where it is; only its addresses have to be known.
class InProcessFunction::Backend final : public DmaBackend {
  public:
    explicit Backend(InProcessFunction& function) : function_(function) {}
    Result<> map(std::uint64_t address, std::span<std::byte> memory, int, std::uint64_t) override {
        if (!function_.memory_.add({.address = address, .bytes = memory.size(), .memory = memory.data()})) {
            return fail(Errc::invalid_argument,
                        fmt::format("map {} bytes at I/O address {:#x}: overlaps a mapping", memory.size(), address));
        }
        function_.tell_model(&Model::memory_changed);
        return {};
    }
    void unmap(std::uint64_t address, std::uint64_t bytes) noexcept override {
        static_cast<void>(function_.memory_.remove(address, bytes));
        function_.tell_model(&Model::memory_changed);
    }

  private:
    InProcessFunction& function_;
};

InProcessFunction::InProcessFunction(std::unique_ptr<Model> model, Reactor& reactor, InProcessOptions options)
    : Function("in-process model",
               std::make_unique<DmaSpace>(std::make_unique<Backend>(*this),
                                          DmaSpace::Options{.reaches_everything = options.reaches_everything})),
      options_(options),
      memory_(options.reaches_everything),
      lines_(most_vectors(model->spec())),
      core_(reactor, memory_, *this, std::move(model)) {}

InProcessFunction::~InProcessFunction() {
    *alive_ = false;
}

Result<> InProcessFunction::start() {
    return core_.start(memory::Backing::anonymous);
}

void InProcessFunction::tell_model(void (Model::*event)()) {
    core_.reactor().post([this, event, alive = alive_] {
        if (*alive) (core_.model().*event)();
    });
}

std::uint32_t InProcessFunction::config_read(unsigned offset, unsigned bytes) noexcept {
    std::array<std::byte, 4> data{};
    if (lost()) {
        data.fill(std::byte{0xff});
    } else {
        core_.config_read(offset, std::span(data).first(bytes));
    }
    std::uint32_t value = 0;
    for (unsigned i = 0; i < bytes; ++i) value |= std::to_integer<std::uint32_t>(data[i]) << (8 * i);
    return value;
}

void InProcessFunction::config_write(unsigned offset, unsigned bytes, std::uint32_t value) noexcept {
    if (lost()) return;
    std::array<std::byte, 4> data{};
    for (unsigned i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(value >> (8 * i));
    if (core_.config_write(offset, std::span(data).first(bytes))) core_.reset();
}

Result<Bar> InProcessFunction::bar(unsigned index) {
    const auto& areas = core_.spec().areas;
    const auto first = std::ranges::find(areas, index, &FunctionSpec::Area::bar);
    return bar_at(index, first == areas.end() ? 0 : first->offset);
}

Result<Bar> InProcessFunction::bar_at(unsigned index, std::uint64_t offset) {
    if (index >= bar_count || core_.spec().bars[index].bytes == 0) {
        return fail(Errc::not_found, fmt::format("{} has no BAR {}", name(), index));
    }
    const std::uint64_t bytes = core_.spec().bars[index].bytes;
    BarAccess& access = *this;
    if (options_.map_areas) {
        core_.set_areas_mapped(true);
        for (const auto& area : core_.spec().areas) {
            if (area.bar != index || offset < area.offset || offset - area.offset >= area.bytes) continue;
            return Bar(access, index, bytes, core_.areas_of(index)->data() + area.offset, area.offset, area.bytes);
        }
    }
    return Bar(access, index, bytes);
}

Result<> InProcessFunction::enable_interrupts(InterruptType type, unsigned vectors) {
    if (auto possible = check_vectors(type, vectors); !possible) return possible;
    core_.enable(InterruptType::none, 0);
    for (auto& line : lines_) line.pending.store(false);
    core_.enable(type, vectors);
    tell_model(&Model::interrupts_changed);
    return {};
}

Result<std::unique_ptr<Interrupt>> InProcessFunction::interrupt(unsigned vector, Reactor& reactor,
                                                                std::function<void()> raised) {
    if (vector >= core_.interrupt_vectors()) {
        return fail(Errc::invalid_argument, fmt::format("{}: interrupt vector {} is not enabled", name(), vector));
    }
    return std::make_unique<InProcessInterrupt>(core_, lines_[vector], core_.interrupt_type() == InterruptType::intx,
                                                reactor, std::move(raised));
}

bool InProcessFunction::deliver(InterruptType, unsigned vector) noexcept {
    const rcu::ReadLock lock;
    Line& line = lines_[vector];
    line.pending.store(true, std::memory_order_seq_cst);
    if (Reactor* const reactor = line.armed_in.load(std::memory_order_seq_cst)) reactor->wake();
    return true;
}

Task<Result<>> InProcessFunction::reset(Reactor& reactor) {
    core_.reset();
    const Time bound = reactor.now() + reset_bound;
    while (!core_.model().quiet()) {
        if (reactor.now() >= bound) {
            co_return fail(Errc::timed_out, fmt::format("reset of {}: its work did not end within 10 s", name()));
        }
        Promise<bool> later;
        Timer timer([&later] { later.set(true); });
        timer.arm(reactor, reactor.now() + reset_look_again);
        co_await later;
    }
    co_return Result<>{};
}

void InProcessFunction::on_lost(std::function<void()> lost) {
    const std::lock_guard lock(lost_mutex_);
    on_lost_ = std::move(lost);
}

void InProcessFunction::gone_changed(bool gone) noexcept {
    if (!gone || lost_.exchange(true, std::memory_order_acq_rel)) return;
    const std::lock_guard lock(lost_mutex_);
    if (on_lost_) on_lost_();
}

Result<> InProcessFunction::reconnect(Duration) {
    if (!lost()) return {};
    if (core_.gone()) return fail(Errc::unreachable, fmt::format("{}: the card is still out of its slot", name()));
    core_.reset();
    lost_.store(false, std::memory_order_release);
    return {};
}

}  // namespace

Result<std::unique_ptr<Function>> make_in_process(std::unique_ptr<Model> model, Reactor& reactor,
                                                  InProcessOptions options) {
    auto function = std::make_unique<InProcessFunction>(std::move(model), reactor, options);
    if (auto started = function->start(); !started) return std::unexpected(started.error());
    return function;
}

}  // namespace mqblk::pci
