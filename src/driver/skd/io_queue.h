// SPDX-License-Identifier: Apache-2.0
//
// IoQueue: the card's one hardware queue. A request's tag is its id, its place among the messages and the descriptors;
// its context is the payload behind it, so there is no list of free contexts and nothing to look up. Requests of one
// batch share a FIT message, which lies where the tag of its first request says; the card copies a message before it
// ends any of its commands. What went out ends by its completion, by recover() after a reset, or by end_all().
#pragma once

#include "block/driver.h"
#include "block/queue.h"
#include "driver/skd/controller.h"
#include "driver/skd/request_id.h"
#include "pci/dma_transfer.h"
#include "wire/skd.h"

#include <mqblk/error.h>

#include <cstdint>
#include <memory>

namespace mqblk::driver::skd {

/// What a request needs here, in one allocation with it.
struct Context {
    enum class State : std::uint8_t {
        idle,
        sent,     ///< the card has it
        waiting,  ///< to be sent (again)
    };
    std::uint64_t list_address = 0;  ///< of its first descriptor
    std::byte* bounce = nullptr;     ///< its data are copied through this
    block::Request* next = nullptr;  ///< that waits
    Time late_since{};               ///< when it had not ended in the time that a card has; zero: it may yet
    std::uint16_t id = 0;
    State state = State::idle;
    std::uint8_t requeues = 0;  ///< that the card asked for, or that brought too little
    std::uint8_t resets = 0;    ///< that it was lost in
    bool cancelled = false;
};

/// Memory that the card reads commands from, by tag. It outlives the queues, which come and go.
class CommandMemory {
  public:
    [[nodiscard]] static Result<std::unique_ptr<CommandMemory>> create(pci::DmaSpace& space, unsigned depth,
                                                                       unsigned descriptors);

    [[nodiscard]] wire::skd::FitMessage& message(unsigned tag) const noexcept {
        return reinterpret_cast<wire::skd::FitMessage*>(messages_.data())[tag];
    }
    [[nodiscard]] std::uint64_t message_address(unsigned tag) const noexcept {
        return messages_.address(tag * sizeof(wire::skd::FitMessage));
    }
    /// A list of one descriptor. They lie side by side, so that those in use stay in the cache.
    [[nodiscard]] wire::skd::SgDescriptor& single(unsigned tag) const noexcept {
        return reinterpret_cast<wire::skd::SgDescriptor*>(singles_.data())[tag];
    }
    [[nodiscard]] std::uint64_t single_address(unsigned tag) const noexcept {
        return singles_.address(tag * sizeof(wire::skd::SgDescriptor));
    }
    [[nodiscard]] wire::skd::SgDescriptor* list(unsigned tag) const noexcept {
        return reinterpret_cast<wire::skd::SgDescriptor*>(lists_.data()) + std::size_t{tag} * descriptors_;
    }
    [[nodiscard]] std::uint64_t list_address(unsigned tag) const noexcept {
        return lists_.address(std::size_t{tag} * descriptors_ * sizeof(wire::skd::SgDescriptor));
    }
    [[nodiscard]] pci::BouncePool& bounce() const noexcept { return *bounce_; }
    [[nodiscard]] pci::DmaSpace& space() const noexcept { return space_; }

  private:
    CommandMemory(pci::DmaSpace& space, unsigned descriptors) noexcept : space_(space), descriptors_(descriptors) {}

    pci::DmaSpace& space_;
    const unsigned descriptors_;
    pci::DmaMemory messages_, singles_, lists_;
    std::unique_ptr<pci::BouncePool> bounce_;
};

class IoQueue final : public block::HardwareQueue {
  public:
    static constexpr unsigned max_requeues = 1;
    static constexpr unsigned max_resets = 3;
    /// For commands that nobody wants any more: then the card is reset.
    static constexpr Duration longest_cancel = std::chrono::seconds(1);

    IoQueue(Controller& controller, CommandMemory& memory, block::Queue& queue, const Options& options);
    ~IoQueue() override;

    void prepare(block::Request&) override;
    block::Issue queue(block::Request&, bool last) noexcept override;
    void commit() noexcept override;
    unsigned poll() noexcept override;
    bool prepare_sleep() noexcept override;
    block::Expired timeout(block::Request&) noexcept override;
    void cancel_all(Status) noexcept override;

    // The controller's.

    /// False: the id fits no command that is out.
    [[nodiscard]] bool completed(const Completion&, const wire::skd::ErrorEntry&) noexcept;
    /// The card has no command any more: they are sent again when it is online, or have been sent often enough.
    void recover() noexcept;
    void end_all(Status) noexcept;
    /// The card takes requests again, or they fail: those that wait have their turn.
    void go_on() noexcept;
    /// Whether poll() is being called.
    [[nodiscard]] bool polled() const noexcept { return queue_.in_flight() > 0; }

  private:
    [[nodiscard]] block::Issue not_taken(block::Request&) const noexcept;
    void put(block::Request&, Context&) noexcept;
    void ring() noexcept;
    [[nodiscard]] bool restarting() const noexcept;
    void failed(block::Request&, Context&, const Completion&, const wire::skd::ErrorEntry&) noexcept;
    /// Once more, unless it was that already: then it ends so.
    void try_again(block::Request&, Context&, Status otherwise) noexcept;
    void finish(block::Request&, Context&, Status) noexcept;
    void wait_to_send(block::Request&, Context&) noexcept;
    void send_waiting() noexcept;
    void cancel_late() noexcept;

    Controller& controller_;
    CommandMemory& memory_;
    block::Queue& queue_;
    const unsigned max_req_per_msg_;
    const Duration timeout_;

    // The message being filled.
    wire::skd::FitMessage* open_ = nullptr;
    std::uint64_t open_address_ = 0;
    unsigned open_requests_ = 0;

    unsigned sent_ = 0;  ///< commands that the card has
    block::Request* waiting_first_ = nullptr;
    block::Request* waiting_last_ = nullptr;
    Status cancel_status_ = Status::aborted;
    Timer cancel_;
};

}  // namespace mqblk::driver::skd
