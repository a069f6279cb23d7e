// SPDX-License-Identifier: Apache-2.0
//
// An S1120 model in virtual time with one piece of host memory, for fuzzers: what they write there and to its registers
// is theirs. The memory's I/O address is the same in every run, so that inputs can name it.
#pragma once

#include "base/log.h"
#include "device/skd/card.h"
#include "driver/ram/ram.h"
#include "pci/in_process.h"
#include "reactor/simulated.h"
#include "wire/skd.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>

namespace mqblk::test {

class SkdFuzz {
  public:
    static constexpr std::uint64_t memory_address = 1ull << 32;
    static constexpr std::size_t memory_bytes = 64 << 10;
    static constexpr std::size_t ring_offset = 48 << 10;

    SkdFuzz() {
        set_log_level(LogLevel::off);
        auto disk = driver::ram::open({.bytes = 1 << 20, .disk = {}}).value();
        auto card = device::skd::Card::create(std::move(disk), {}).value();
        card_ = card.get();
        function_ = pci::make_in_process(std::move(card), *reactor_, {.reaches_everything = false}).value();
        bar_.emplace(function_->bar(wire::skd::register_bar).value());
        memory_ = function_->dma().allocate(memory_bytes).value();
        if (memory_.address() != memory_address) std::abort();  // the corpus names it
        function_->set_bus_master(true);
    }

    device::skd::Card& card() { return *card_; }
    const pci::Bar& bar() { return *bar_; }
    std::byte* memory() { return memory_.data(); }
    std::uint64_t address(std::size_t offset = 0) { return memory_.address(offset); }

    /// Lets the card do what it has to do.
    void settle() {
        reactor_->wake();
        world_.run_for(std::chrono::microseconds(10));
    }

    /// From wherever it is to online; aborts if that cannot be done.
    void bring_up() {
        using namespace wire::skd;
        bar_->write32(reg::control, control_hard_reset);
        settle();
        bar_->write32(reg::control, control_enable_interrupts | control_soft_reset);
        settle();
        bar_->write32(reg::int_mask_host, mask_driver);
        bar_->write32(reg::msg_to_device, make_message(MessageType::set_compq_depth, completion_depth));
        bar_->write64(reg::msg_to_device_arg, address(ring_offset));
        bar_->write32(reg::msg_to_device, make_message(MessageType::set_compq_addr));
        bar_->write32(reg::msg_to_device, make_message(MessageType::arm_queue));
        settle();
        if (card_->state() != DriveState::online) std::abort();
    }

    /// Nothing that was taken is left, and each ended once.
    void check() {
        const auto& counters = card_->counters();
        if (card_->in_flight() != 0) std::abort();
        if (counters.commands != counters.completions + counters.dropped) std::abort();
    }

  private:
    SimulatedWorld world_{1};
    std::unique_ptr<Reactor> reactor_ = world_.make_reactor();
    device::skd::Card* card_ = nullptr;
    std::unique_ptr<pci::Function> function_;
    std::optional<pci::Bar> bar_;
    pci::DmaMemory memory_;
};

}  // namespace mqblk::test
