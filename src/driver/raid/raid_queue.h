// SPDX-License-Identifier: Apache-2.0
//
// RaidQueue: one hardware queue of an array: channels of its own to all members, and the work on its requests, cut into
// one StripeWork for each stripe. All of it runs on the queue's thread; other threads only give what a work waits for
// (the stripe's lock, a bit, an entry), by the inbox. What a queue needs is there from the start: a work slot, then
// memory from its pool, then the stripe; each is had before the next is waited for, so nobody waits in a circle.
#pragma once

#include "block/driver.h"
#include "block/pool_trimmer.h"
#include "block/queue.h"
#include "driver/raid/array.h"
#include "memory/buffer_pool.h"
#include "reactor/reactor.h"

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

namespace mqblk::driver::raid {

class RaidQueue;
struct StripeWork;

/// What one request may hold: pieces of memory, once more than that for chunk borders, and the same for the journal.
struct RequestRoom {
    static constexpr std::uint32_t max_segments = 2176;  // 8 MiB of scattered pages, and some
    std::uint32_t pieces = 0, journal_pieces = 0;

    [[nodiscard]] static RequestRoom of(const Geometry& geometry, std::uint64_t max_bytes) noexcept;
    [[nodiscard]] std::size_t payload_bytes() const noexcept;
};

/// Behind each request; its pieces behind it.
struct Payload {
    block::Request* next = nullptr;
    std::uint64_t cut = 0;     ///< bytes that works were made for
    std::uint32_t works = 0;   ///< of its works, those that have not ended
    std::uint32_t pieces = 0;  ///< used
    std::uint32_t journal_pieces = 0;
    Status status = Status::ok;
    [[nodiscard]] Segment* room() noexcept { return reinterpret_cast<Segment*>(this + 1); }
};

/// An I/O on one member.
struct MemberBio {
    Bio bio;
    StripeWork* work = nullptr;
    unsigned member = 0;
    Segment piece{nullptr, 0};
};

/// What is done to one stripe for one request.
struct StripeWork {
    enum class Wait : std::uint8_t { nothing, memory, lock, gate, region, journal, configuration };
    enum class Method : std::uint8_t { none, whole, modify, reconstruct, recover, plain };

    RaidQueue* owner = nullptr;
    block::Request* request = nullptr;
    StripeWork* next = nullptr;  ///< free, held or in the inbox
    std::uint64_t stripe = 0;
    std::uint32_t from = 0, to = 0;   ///< bytes of the stripe's data
    std::uint32_t low = 0, high = 0;  ///< bytes of each chunk that it covers, from the first to the last
    Segment* pieces = nullptr;        ///< the request's memory for it, chunk by chunk
    std::array<std::uint32_t, max_data + 1> first_piece{};  ///< of each data chunk
    Segment* journal_pieces = nullptr;

    Wait wait = Wait::nothing;
    bool locked = false, inside = false, zeroes = false;
    bool compact = false;  ///< a whole stripe whose data need no copy: memory for P and Q only
    StripeLock lock;
    Waiter waiter;
    std::int64_t region = -1;
    std::uint32_t region_generation = 0;
    std::int64_t journal = -1;  ///< the sequence number of its entry
    const Config* config = nullptr;
    std::uint32_t generation = 0;  ///< waits for another one
    Mask avoid = 0;                ///< members that could not be read
    Method method = Method::none;
    memory::BufferRequest memory;
    bool has_memory = false;

    unsigned in_flight = 0;
    Mask failed = 0;  ///< members whose I/O of this step failed
    Mask lost = 0;    ///< of those, members that are gone rather than unreadable at this place
    Mask written = 0;
    void (RaidQueue::*then)(StripeWork&) noexcept = nullptr;  ///< when the last of this step has ended
    std::array<MemberBio, max_members> bios;

    [[nodiscard]] bool touches(unsigned chunk, std::uint32_t chunk_bytes) const noexcept {
        return from < (chunk + 1) * chunk_bytes && to > chunk * chunk_bytes;
    }
};

class RaidQueue final : public block::HardwareQueue, public Array::Participant {
  public:
    static constexpr unsigned works = 64;

    [[nodiscard]] static Result<std::unique_ptr<RaidQueue>> open(std::shared_ptr<Array> array, block::Queue& queue,
                                                                 Reactor& reactor);
    ~RaidQueue() override;

    void prepare(block::Request& request) override { new (&request.payload<Payload>()) Payload; }
    block::Issue queue(block::Request& request, bool last) noexcept override;
    unsigned poll() noexcept override;
    bool prepare_sleep() noexcept override;
    /// Members have time-outs of their own.
    block::Expired timeout(block::Request&) noexcept override { return block::Expired::extend; }
    void cancel_all(Status status) noexcept override;

    void look_again() noexcept override;

  private:
    RaidQueue(std::shared_ptr<Array> array, block::Queue& queue, Reactor& reactor);

    // Requests to works and back (raid_queue.cpp).
    void pump() noexcept;
    void lay_out(block::Request&) noexcept;
    void cut(block::Request&, StripeWork&) noexcept;
    void finish(StripeWork&, Status) noexcept;
    void settle(block::Request&) noexcept;
    const Config& adopt() noexcept;
    void take_inbox() noexcept;
    void close_retired() noexcept;
    void give(StripeWork&) noexcept;
    void resume(StripeWork&) noexcept;
    void begin_step(StripeWork& work, void (RaidQueue::*then)(StripeWork&) noexcept) noexcept;
    void send(StripeWork&, unsigned member, Op, std::uint64_t offset, std::uint64_t bytes, Segments pieces,
              std::uint8_t flags) noexcept;
    /// The columns `low` to `high` of the member's chunk, to or from `memory`.
    void send_area(StripeWork&, unsigned member, Op, std::byte* memory) noexcept;
    void end_step(StripeWork&) noexcept;
    void ended(MemberBio&) noexcept;
    void start(StripeWork&) noexcept;
    void hold(StripeWork&, StripeWork::Wait) noexcept;

    // The way to the members (raid_queue.cpp).
    void get_memory(StripeWork&) noexcept;
    void lock_stripe(StripeWork&) noexcept;
    void enter_gate(StripeWork&) noexcept;
    void leave_gate(StripeWork&) noexcept;

    // Reads, flushes and RAID-0 (stripe_read.cpp).
    void direct(StripeWork&) noexcept;
    void direct_ended(StripeWork&) noexcept;
    void flush(StripeWork&) noexcept;
    void flush_ended(StripeWork&) noexcept;
    void recover_read(StripeWork&) noexcept;
    void recover_read_ended(StripeWork&) noexcept;
    void repair_ended(StripeWork&) noexcept;
    [[nodiscard]] const Recovery* recovery(Mask available, Mask lost) noexcept;

    // Writes of RAID-6 (stripe_write.cpp, stripe_parity.cpp).
    void begin_write(StripeWork&) noexcept;
    [[nodiscard]] bool mark_region(StripeWork&) noexcept;
    [[nodiscard]] bool take_entry(StripeWork&) noexcept;
    void plan_write(StripeWork&) noexcept;
    void read_before(StripeWork&) noexcept;
    void read_before_ended(StripeWork&) noexcept;
    void compute(StripeWork&) noexcept;
    void compute_whole(StripeWork&, std::byte* p, std::byte* q) noexcept;
    void compute_modify(StripeWork&, std::byte* p, std::byte* q) noexcept;
    void compute_reconstruct(StripeWork&, std::byte* p, std::byte* q) noexcept;
    void write_journal(StripeWork&) noexcept;
    void journal_ended(StripeWork&) noexcept;
    void write_members(StripeWork&) noexcept;
    void write_ended(StripeWork&) noexcept;
    void await_configuration(StripeWork&) noexcept;

    [[nodiscard]] const Geometry& geometry() const noexcept { return array_->geometry(); }
    [[nodiscard]] bool is_whole(const StripeWork& work) const noexcept {
        return work.from == 0 && work.to == geometry().stripe_bytes();
    }
    /// Memory of a place's chunk, from `low` on. A whole stripe has it for P and Q only where its data need no copy.
    [[nodiscard]] std::byte* area(const StripeWork& work, unsigned place) const noexcept {
        const std::size_t index = work.compact ? place - geometry().data : place;
        return work.memory.data + index * (work.high - work.low);
    }
    [[nodiscard]] bool is_compact(const StripeWork& work) const noexcept;
    [[nodiscard]] std::size_t memory_bytes(const StripeWork& work) const noexcept {
        const std::size_t areas = work.compact ? 2 : geometry().members();
        return areas * (work.high - work.low) + Geometry::block;
    }
    [[nodiscard]] Segments pieces_of(const StripeWork& work, unsigned chunk) const noexcept {
        return {work.pieces + work.first_piece[chunk], work.first_piece[chunk + 1] - work.first_piece[chunk]};
    }
    /// What of a data chunk it covers, from its start.
    struct Extent {
        std::uint32_t offset, bytes;
    };
    [[nodiscard]] Extent extent_of(const StripeWork& work, unsigned chunk) const noexcept;

    const std::shared_ptr<Array> array_;
    block::Queue& queue_;
    Reactor& reactor_;
    RequestRoom room_;
    std::unique_ptr<memory::BufferPool> pool_;
    std::optional<block::PoolTrimmer> trimmer_;
    std::array<std::shared_ptr<Device>, max_members> devices_{};
    std::array<std::unique_ptr<Channel>, max_members> channels_{};
    std::vector<std::unique_ptr<Channel>> retired_;  // to former members; closed at the next poll
    std::uint32_t adopted_ = ~0u;

    std::unique_ptr<StripeWork[]> slots_;
    StripeWork* free_ = nullptr;
    StripeWork* held_ = nullptr;         // at the gate, or for another configuration
    block::Request* pending_ = nullptr;  // not all cut
    block::Request* pending_last_ = nullptr;
    block::Request* finished_ = nullptr;  // to be completed at the next poll
    unsigned working_ = 0;
    bool pumping_ = false;
    std::atomic<StripeWork*> inbox_{nullptr};
    std::atomic<bool> look_{false};
    struct Known {
        Mask available = 0, lost = 0;
        std::optional<Recovery> recovery;
    };
    std::array<Known, 8> known_{};
    unsigned next_known_ = 0;
};

}  // namespace mqblk::driver::raid
