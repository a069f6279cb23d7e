// SPDX-License-Identifier: Apache-2.0
//
// A MegaRAID model in virtual time with one piece of host memory, for fuzzers: what they write there and to its
// registers is theirs. The memory's I/O address is the same in every run, so that inputs can name it.
#pragma once

#include "base/log.h"
#include "device/megaraid/controller.h"
#include "driver/ram/ram.h"
#include "pci/in_process.h"
#include "reactor/simulated.h"
#include "wire/megaraid.h"
#include "wire/megaraid_mfi.h"
#include "wire/megaraid_mpi.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

namespace mqblk::test {

class MrFuzz {
  public:
    static constexpr std::uint64_t memory_address = 1ull << 32;
    static constexpr std::size_t memory_bytes = 96 << 10;
    static constexpr std::size_t replies_offset = 64 << 10;  ///< behind what inputs fill
    static constexpr std::size_t init_offset = 88 << 10;
    static constexpr unsigned queues = 2, depth = 1024;

    MrFuzz() {
        set_log_level(LogLevel::off);
        const auto ram = [] { return driver::ram::open({.bytes = 1 << 20, .disk = {}}).value(); };
        std::vector<device::megaraid::VolumeSpec> volumes{{.device = ram()}, {.device = ram(), .level = 6, .disks = 4}};
        auto made = device::megaraid::Controller::create({ram(), ram()}, volumes, {}).value();
        controller_ = made.get();
        function_ = pci::make_in_process(std::move(made), *reactor_, {.reaches_everything = false}).value();
        bar_.emplace(function_->bar(1).value());
        memory_ = function_->dma().allocate(memory_bytes).value();
        if (memory_.address() != memory_address) std::abort();  // the corpus names it
        function_->set_bus_master(true);
    }

    device::megaraid::Controller& controller() { return *controller_; }
    const pci::Bar& bar() { return *bar_; }
    std::byte* memory() { return memory_.data(); }
    std::uint64_t address(std::size_t offset = 0) { return memory_.address(offset); }

    /// Lets the firmware do what it has to do.
    void settle() { world_.run_for(std::chrono::microseconds(10)); }

    /// From wherever it is to operational; aborts if that cannot be done.
    void bring_up() {
        using namespace wire::megaraid;
        for (const std::uint32_t key : diag_keys) bar_->write32(reg::write_sequence, key);
        bar_->write32(reg::host_diag, host_diag_reset_adapter);
        settle();
        if (controller_->state() != State::ready || controller_->in_flight() != 0) std::abort();
        IocInit init;
        init.request_frame_words = io_frame_bytes / 4;
        init.host_msix_vectors = queues;
        init.reply_queue_depth = depth;
        init.sense_address_high = static_cast<std::uint32_t>(memory_address >> 32);
        init.request_frames = address();
        init.reply_queue = address(replies_offset);
        InitFrame frame;
        frame.driver_operations = driver_max_255_lds;
        frame.data_bytes = sizeof init;
        frame.queue_info_new = address(init_offset + 512);
        std::memcpy(memory() + init_offset, &frame, sizeof frame);
        std::memcpy(memory() + init_offset + 512, &init, sizeof init);
        bar_->write64(reg::inbound_low_queue_port, mfa_descriptor(address(init_offset)));
        settle();
        if (controller_->state() != State::operational) std::abort();
        bar_->write32(reg::outbound_intr_mask, ~intr_fusion);
    }

    /// After a reset: each request that was taken ended once.
    void check() {
        const auto& counters = controller_->counters();
        if (controller_->in_flight() != 0) std::abort();
        if (counters.taken != counters.replies + counters.dropped) std::abort();
    }

  private:
    SimulatedWorld world_{1};
    std::unique_ptr<Reactor> reactor_ = world_.make_reactor();
    device::megaraid::Controller* controller_ = nullptr;
    std::unique_ptr<pci::Function> function_;
    std::optional<pci::Bar> bar_;
    pci::DmaMemory memory_;
};

}  // namespace mqblk::test
