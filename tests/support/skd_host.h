// SPDX-License-Identifier: Apache-2.0
//
// The other side of an S1120 by its registers alone, in virtual time: handshake, FIT messages, completion ring. It does
// what a driver does, one thing at a time, and whatever else a test wants written to the card.
#pragma once

#include "device/skd/card.h"
#include "driver/ram/ram.h"
#include "pci/in_process.h"
#include "reactor/simulated.h"
#include "wire/scsi_cdb.h"
#include "wire/skd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace mqblk::test {

namespace skdw = wire::skd;
namespace scsiw = wire::scsi;

struct SkdDone {
    std::uint16_t tag = 0;
    scsiw::Status status{};
    std::uint32_t bytes = 0;
    std::optional<scsiw::Sense> sense;
};

/// What a request is to move: ranges of the host's memory by I/O address.
struct SkdRequest {
    scsiw::Cdb cdb{};
    std::uint16_t tag = 0;
    std::vector<pci::DmaSegment> data{};
    std::optional<std::uint32_t> said_bytes{};  ///< instead of the sum of `data`
};

inline std::shared_ptr<Device> skd_ram_disk(std::uint64_t bytes = 64 << 20) {
    return driver::ram::open({.bytes = bytes, .disk = {}}).value();
}

class SkdHost {
  public:
    static constexpr std::size_t data_bytes = 4 << 20;
    static constexpr unsigned slots = 256;

    explicit SkdHost(device::skd::Options options = {}, std::shared_ptr<Device> disk = skd_ram_disk(),
                     bool reaches_everything = false)
        : disk_(std::move(disk)), reactor_(world_.make_reactor()) {
        auto card = device::skd::Card::create(disk_, std::move(options));
        if (!card) throw std::runtime_error(card.error().message());
        card_ = card->get();
        auto function = pci::make_in_process(std::move(*card), *reactor_, {.reaches_everything = reaches_everything});
        if (!function) throw std::runtime_error(function.error().message());
        function_ = std::move(*function);
        bar_.emplace(function_->bar(skdw::register_bar).value());
        ring_ = function_->dma().allocate(skdw::completion_ring_bytes()).value();
        messages_ = function_->dma().allocate(slots * sizeof(skdw::FitMessage)).value();
        lists_ = function_->dma().allocate(lists_bytes).value();
        data_ = function_->dma().allocate(data_bytes).value();
        function_->set_bus_master(true);
    }

    SimulatedWorld& world() { return world_; }
    device::skd::Card& card() { return *card_; }
    pci::Function& function() { return *function_; }
    const pci::Bar& bar() { return *bar_; }
    Reactor& reactor() { return *reactor_; }
    Device& disk() { return *disk_; }
    std::byte* data(std::size_t offset = 0) { return data_.data() + offset; }
    std::uint64_t data_address(std::size_t offset = 0) { return data_.address(offset); }
    std::uint64_t ring_address() { return ring_.address(); }
    pci::DmaMemory& ring() { return ring_; }
    pci::DmaMemory& lists() { return lists_; }
    pci::DmaMemory& messages() { return messages_; }

    bool run_until(const std::function<bool()>& done, Duration bound = std::chrono::seconds(120)) {
        return world_.run_until(done, bound) || done();
    }
    void run_for(Duration time) { world_.run_for(time); }

    std::uint32_t read(unsigned reg) { return bar_->read32(reg); }
    /// Drivers do this from a pass of the reactor; here it may be asleep.
    void write(unsigned reg, std::uint32_t value) {
        bar_->write32(reg, value);
        reactor_->wake();
    }
    void write64(unsigned reg, std::uint64_t value) {
        bar_->write64(reg, value);
        reactor_->wake();
    }
    skdw::DriveState state() { return skdw::state_of(read(skdw::reg::status)); }
    bool wait_state(skdw::DriveState state) {
        return run_until([&] { return this->state() == state; });
    }

    /// Sends a mailbox message and gives the answer; 0 if there is none.
    std::uint32_t mailbox(std::uint32_t word) {
        write(skdw::reg::int_status_host, skdw::cause_msg_from_device);
        write(skdw::reg::msg_to_device, word);
        const bool came =
            run_until([&] { return (read(skdw::reg::int_status_host) & skdw::cause_msg_from_device) != 0; },
                      std::chrono::seconds(1));
        if (!came) return 0;
        write(skdw::reg::int_status_host, skdw::cause_msg_from_device);
        return read(skdw::reg::msg_from_device);
    }

    void soft_reset() {
        write(skdw::reg::int_status_host, skdw::cause_acknowledge);
        write(skdw::reg::control, read(skdw::reg::control) | skdw::control_soft_reset);
    }

    /// From state init to online, as the driver does it. False where the card does not play along.
    bool handshake() {
        using enum skdw::MessageType;
        if (!wait_state(skdw::DriveState::init)) return false;
        if (skdw::protocol_major_of(mailbox(skdw::make_message(fitfw_init))) != 1) return false;
        const std::uint32_t depth = mailbox(skdw::make_message(get_cmdq_depth));
        if (depth == 0) return false;
        depth_ = skdw::message_data(depth);
        if (mailbox(skdw::make_message(set_compq_depth, skdw::completion_depth)) == 0) return false;
        write64(skdw::reg::msg_to_device_arg, ring_.address());
        if (mailbox(skdw::make_message(set_compq_addr)) == 0) return false;
        std::memset(ring_.data(), 0, ring_.size());
        position_ = {};
        free_.clear();
        for (unsigned i = 0; i < slots; ++i) free_.push_back(i);
        by_tag_.clear();
        if (mailbox(skdw::make_message(cmd_log_host_id)) == 0) return false;
        if (mailbox(skdw::make_message(cmd_log_time_stamp_lo, 0x1234)) !=
            skdw::make_message(cmd_log_time_stamp_lo, 0x1234))
            return false;
        if (mailbox(skdw::make_message(cmd_log_time_stamp_hi, 0x5678)) == 0) return false;
        if (mailbox(skdw::make_message(arm_queue)) == 0) return false;
        return wait_state(skdw::DriveState::online);
    }
    unsigned depth() const { return depth_; }

    /// Interrupts on, reset, handshake: the whole start.
    bool start() {
        write(skdw::reg::int_status_host, skdw::cause_acknowledge);
        write(skdw::reg::int_mask_host, skdw::mask_driver);
        write(skdw::reg::control, skdw::control_enable_interrupts);
        soft_reset();
        return handshake();
    }

    /// Writes the list of a request where slot `index` has room for it; returns its address.
    std::uint64_t write_list(unsigned index, const std::vector<pci::DmaSegment>& data) {
        const std::size_t at = list_offset(index);
        for (std::size_t i = 0; i < data.size(); ++i) {
            const bool last = i + 1 == data.size();
            const skdw::SgDescriptor descriptor{
                .control = last ? skdw::sg_last : skdw::sg_not_last,
                .bytes = static_cast<std::uint32_t>(data[i].bytes),
                .host_address = data[i].address,
                .device_address = 0,
                .next_address = last ? 0 : lists_.address(at + (i + 1) * sizeof descriptor)};
            std::memcpy(lists_.data() + at + i * sizeof descriptor, &descriptor, sizeof descriptor);
        }
        return lists_.address(at);
    }

    /// Puts requests into one message without ringing; returns what to ring with.
    std::uint64_t prepare(const std::vector<SkdRequest>& requests) {
        const unsigned slot = free_.back();
        free_.pop_back();
        skdw::FitMessage message;
        message.header.requests = static_cast<std::uint8_t>(requests.size());
        for (std::size_t i = 0; i < requests.size(); ++i) {
            skdw::ScsiRequest& to = message.request[i];
            to.cdb = requests[i].cdb;
            to.tag = requests[i].tag;
            std::uint64_t sum = 0;
            for (const auto& range : requests[i].data) sum += range.bytes;
            to.sg_list_bytes = requests[i].said_bytes.value_or(static_cast<std::uint32_t>(sum));
            if (!requests[i].data.empty())
                to.sg_list_address = write_list(slot * skdw::max_requests_per_message + unsigned(i), requests[i].data);
            by_tag_.emplace_back(requests[i].tag, slot);
        }
        const std::size_t at = slot * sizeof message;
        std::memcpy(messages_.data() + at, &message, sizeof message);
        return skdw::encode({.address = messages_.address(at),
                             .bytes = skdw::FitMessage::bytes(static_cast<unsigned>(requests.size()))});
    }
    void ring_doorbell(std::uint64_t value) { write64(skdw::reg::q_command, value); }
    void send(const std::vector<SkdRequest>& requests) { ring_doorbell(prepare(requests)); }

    /// The next entry of the ring, if it is there.
    std::optional<SkdDone> next() {
        std::byte* const place = ring_.data() + skdw::completion_offset(position_.index);
        const std::uint64_t raw =
            std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(place)).load(std::memory_order_acquire);
        const auto entry = std::bit_cast<skdw::CompletionEntry>(raw);
        if (entry.cycle != position_.cycle) return std::nullopt;
        SkdDone done{
            .tag = entry.tag, .status = scsiw::Status{entry.status}, .bytes = entry.returned_bytes, .sense = {}};
        if (done.status == scsiw::Status::check_condition) {
            const auto* error =
                reinterpret_cast<const std::uint8_t*>(ring_.data()) + skdw::error_offset(position_.index);
            done.sense = scsiw::parse_sense({error, sizeof(skdw::ErrorEntry)});
        }
        position_.advance();
        const auto found = std::ranges::find(by_tag_, done.tag, &std::pair<std::uint16_t, unsigned>::first);
        if (found != by_tag_.end()) {
            const unsigned slot = found->second;
            by_tag_.erase(found);
            if (std::ranges::find(by_tag_, slot, &std::pair<std::uint16_t, unsigned>::second) == by_tag_.end())
                free_.push_back(slot);
        }
        return done;
    }
    std::optional<SkdDone> wait_next(Duration bound = std::chrono::seconds(60)) {
        std::optional<SkdDone> done;
        run_until([&] { return (done = next()).has_value(); }, bound);
        return done;
    }

    /// One request with data at `offset` of the data memory, to its end.
    SkdDone run(const scsiw::Cdb& cdb, std::size_t bytes = 0, std::size_t offset = 0, std::uint16_t tag = 0x100) {
        SkdRequest request{.cdb = cdb, .tag = tag};
        if (bytes > 0) request.data.push_back({data_address(offset), bytes});
        return run(request);
    }
    SkdDone run(const SkdRequest& request) {
        send({request});
        const auto done = wait_next();
        if (!done) {
            ADD_FAILURE() << "no completion";
            return {};
        }
        EXPECT_EQ(done->tag, request.tag);
        return *done;
    }

  private:
    static constexpr std::size_t lists_bytes = 8 << 20;
    static constexpr std::size_t list_offset(unsigned index) {
        return index % (lists_bytes / (64 * sizeof(skdw::SgDescriptor))) * 64 * sizeof(skdw::SgDescriptor);
    }

    SimulatedWorld world_{1};
    std::shared_ptr<Device> disk_;
    std::unique_ptr<Reactor> reactor_;
    device::skd::Card* card_ = nullptr;
    std::unique_ptr<pci::Function> function_;
    std::optional<pci::Bar> bar_;
    pci::DmaMemory ring_, messages_, lists_, data_;
    skdw::RingPosition position_;
    unsigned depth_ = 0;
    std::vector<unsigned> free_;
    std::vector<std::pair<std::uint16_t, unsigned>> by_tag_;
};

}  // namespace mqblk::test
