// SPDX-License-Identifier: Apache-2.0
//
// The MegaRAID model as drivers with several queues use it: each thread writes descriptors to the one request port and
// reads the reply queue of its own, while the firmware runs in another thread, asleep or awake.
#include "block/device_core.h"
#include "device/megaraid/controller.h"
#include "device/megaraid/request_queue.h"
#include "driver/ram/ram.h"
#include "pci/in_process.h"
#include "unit/reactor_support.h"
#include "wire/megaraid.h"
#include "wire/megaraid_mfi.h"
#include "wire/megaraid_mpi.h"
#include "wire/scsi_cdb.h"

#include <atomic>
#include <bit>
#include <cstring>
#include <thread>
#include <vector>

namespace mqblk::test {
namespace {

namespace mr = wire::megaraid;

TEST(MegaraidRequestQueue, EachDescriptorOnceAndInItsWritersOrder) {
    constexpr unsigned writers = 4;
    constexpr std::uint64_t each = 20'000;
    const auto queue = std::make_unique<device::megaraid::RequestQueue>();
    std::vector<std::thread> threads;
    for (std::uint64_t writer = 0; writer < writers; ++writer) {
        threads.emplace_back([&queue, writer] {
            for (std::uint64_t i = 0; i < each; ++i)
                while (!queue->push(writer << 32 | i)) std::this_thread::yield();
        });
    }
    std::vector<std::uint64_t> next(writers);
    for (std::uint64_t taken = 0; taken < writers * each;) {
        std::uint64_t descriptor = 0;
        if (!queue->pop(descriptor)) {
            std::this_thread::yield();
            continue;
        }
        EXPECT_EQ(descriptor & 0xffffffff, next[descriptor >> 32]++);
        ++taken;
    }
    for (auto& thread : threads) thread.join();
    EXPECT_TRUE(queue->empty());
    for (std::size_t i = 0; i < device::megaraid::RequestQueue::entries; ++i) EXPECT_TRUE(queue->push(i));
    EXPECT_FALSE(queue->push(0)) << "full";
}

/// A controller in a thread of its own, operational.
class ServedController {
  public:
    static constexpr unsigned depth = 256, queues = 4;

    ServedController() : reactor_(uring_reactor()) {
        std::vector<std::shared_ptr<Device>> disks{driver::ram::open({.bytes = 8 << 20, .disk = {}}).value()};
        auto made = device::megaraid::Controller::create(std::move(disks), {}, {}).value();
        function_ = pci::make_in_process(std::move(made), *reactor_).value();
        bar_.emplace(function_->bar(1).value());
        memory_.resize(4 << 20);
        base_ = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory_.data()) + 4095) & ~4095ull);
        std::memset(base_ + replies_at, 0xff, queues * depth * 8);
        thread_ = std::thread([this] {
            while (!stop_.load(std::memory_order_acquire)) reactor_->run_once(Reactor::Sleep::yes);
        });
        start();
    }
    ~ServedController() {
        stop_.store(true, std::memory_order_release);
        reactor_->wake();
        thread_.join();
        function_.reset();
    }

    /// Reads the disk `times`, each time a block of its own, with the frames and the queue of `index`.
    void drive(unsigned index, unsigned times) {
        auto* const slots = reinterpret_cast<std::uint64_t*>(base_ + replies_at) + index * depth;
        unsigned place = 0;
        for (unsigned i = 0; i < times; ++i) {
            const auto smid = static_cast<std::uint16_t>(1 + index * 16 + i % 16);
            mr::ScsiIoRequest request;
            request.function = static_cast<std::uint8_t>(mr::Function::scsi_io);
            request.dev_handle = device::megaraid::first_handle;
            request.data_bytes = 512;
            request.io_flags = 10;
            const auto cdb = wire::scsi::build_read(i % 1000, 1);
            std::copy(cdb.begin(), cdb.end(), request.cdb);
            request.sgl[0].address = reinterpret_cast<std::uintptr_t>(base_ + data_at + smid * 512);
            request.sgl[0].bytes = 512;
            request.sgl[0].flags = mr::sge_end_of_list;
            auto* const frame = reinterpret_cast<mr::ScsiIoRequest*>(base_) + smid;
            *frame = request;
            const mr::RequestDescriptor descriptor{mr::request_flags(mr::RequestType::fp_io),
                                                   static_cast<std::uint8_t>(index), smid, 0, 0};
            bar_->write64(mr::reg::inbound_low_queue_port, std::bit_cast<std::uint64_t>(descriptor));
            std::uint64_t raw = 0;
            while ((raw = std::atomic_ref(slots[place]).load(std::memory_order_acquire)) == mr::reply_unused)
                std::this_thread::yield();
            EXPECT_EQ(std::bit_cast<mr::ReplyDescriptor>(raw).smid, smid);
            EXPECT_EQ(frame->context.status, 0);
            std::atomic_ref(slots[place]).store(mr::reply_unused, std::memory_order_relaxed);
            place = (place + 1) % depth;
            bar_->write32(mr::reply_index_register(index, true), mr::reply_index_value(index, place, true));
            if (i % 512 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the firmware falls asleep
        }
    }

  private:
    static constexpr std::size_t replies_at = 64 << 10, init_at = 128 << 10, data_at = 1 << 20;

    void start() {
        const auto address = [this](std::size_t offset) { return reinterpret_cast<std::uintptr_t>(base_ + offset); };
        mr::IocInit init;
        init.host_msix_vectors = queues;
        init.request_frame_words = mr::io_frame_bytes / 4;
        init.reply_queue_depth = depth;
        init.request_frames = address(0);
        init.reply_queue = address(replies_at);
        mr::InitFrame frame;
        frame.data_bytes = sizeof init;
        frame.queue_info_new = address(init_at + 512);
        std::memcpy(base_ + init_at, &frame, sizeof frame);
        std::memcpy(base_ + init_at + 512, &init, sizeof init);
        bar_->write64(mr::reg::inbound_low_queue_port, mr::mfa_descriptor(address(init_at)));
        while (mr::state_of(bar_->read32(mr::reg::scratch_pad)) != mr::State::operational) std::this_thread::yield();
        bar_->write32(mr::reg::outbound_intr_mask, ~mr::intr_fusion);
    }

    std::unique_ptr<Reactor> reactor_;
    std::vector<std::byte> memory_;
    std::byte* base_ = nullptr;
    std::unique_ptr<pci::Function> function_;
    std::optional<pci::Bar> bar_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

TEST(MegaraidThreads, SeveralQueuesAtOnce) {
    ServedController served;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < ServedController::queues; ++i) threads.emplace_back([&, i] { served.drive(i, 2000); });
    for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace mqblk::test
