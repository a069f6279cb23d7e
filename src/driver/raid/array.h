// SPDX-License-Identifier: Apache-2.0
//
// Array: what all threads at work on one array share. The data path (RaidQueue, one for each hardware queue) goes
// through four of its parts for each change of a stripe, in this order:
//   1. the stripe's lock (StripeLocks);
//   2. the gate: enter() … leave() around all that is in flight to members. Closing it, which only the keeper on the
//      home thread does, waits for that to end; so the configuration never changes under an I/O;
//   3. with all members, the write-intent bit of its region (Regions); with fewer, an entry of the journal;
//   4. the members.
// Whoever has to wait at 1 to 3 is outside the gate, so that the keeper never waits for one who waits.
#pragma once

#include "driver/raid/geometry.h"
#include "driver/raid/journal_ring.h"
#include "driver/raid/metadata.h"
#include "driver/raid/regions.h"
#include "driver/raid/stripe_locks.h"
#include "driver/raid/waiter.h"
#include "memory/buffer.h"
#include "reactor/reactor.h"

#include <mqblk/device.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace mqblk::driver::raid {

class Keeper;

/// Who the members are. Constant; an array has one at a time, and keeps the former ones as long as it lives.
struct Config {
    std::uint32_t generation = 0;
    std::uint64_t events = 0, epoch = 0;
    Mask in_sync = 0;     ///< read and written
    Mask rebuilding = 0;  ///< written only
    bool journal = false;
    bool dead = false;  ///< nothing is read or written
    std::array<std::shared_ptr<Device>, max_members> devices{};

    [[nodiscard]] Mask written() const noexcept { return in_sync | rebuilding; }
};

/// What happened on the data path. One writer; any reader.
struct Counters {
    enum Which : unsigned {
        full_stripe_writes,   ///< without a read
        read_modify_writes,   ///< read what they replace, and parity
        reconstruct_writes,   ///< read what they leave
        reconstructed_reads,  ///< computed from other members
        repaired_chunks,      ///< could not be read, and were written anew
        journaled_writes,
        count
    };
    std::array<std::atomic<std::uint64_t>, count> values{};
    void add(Which which) noexcept {
        values[which].store(values[which].load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
};

class Array : public std::enable_shared_from_this<Array> {
  public:
    /// One thread's place at the gate.
    class Participant {
      public:
        virtual ~Participant() = default;
        /// The gate is open again, or something else that it waits for has changed. Any thread; short.
        virtual void look_again() noexcept = 0;
        Counters counters;

      private:
        friend class Array;
        std::atomic<std::uint32_t> active_{0};
    };

    Array(const Superblock& superblock, Reactor& home);
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    ~Array();

    [[nodiscard]] unsigned level() const noexcept { return level_; }
    [[nodiscard]] const Geometry& geometry() const noexcept { return geometry_; }
    [[nodiscard]] const Parity& parity() const noexcept { return parity_; }
    [[nodiscard]] const Uuid& uuid() const noexcept { return uuid_; }
    [[nodiscard]] Mask all_members() const noexcept { return first_bits(geometry_.members()); }
    /// A chunk of zeroes to write from.
    [[nodiscard]] std::byte* zeroes() const noexcept { return zeroes_.data(); }

    // Any thread.

    [[nodiscard]] const Config& config() const noexcept { return *config_.load(std::memory_order_acquire); }
    void join(Participant&);
    void part(Participant&) noexcept;
    /// False: the gate is closed; look_again() will be called.
    [[nodiscard]] bool enter(Participant& self) noexcept {
        self.active_.store(self.active_.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
        if (!closed_.load(std::memory_order_seq_cst)) [[likely]]
            return true;
        leave(self);
        return false;
    }
    void leave(Participant& self) noexcept {
        const std::uint32_t left = self.active_.load(std::memory_order_relaxed) - 1;
        self.active_.store(left, std::memory_order_seq_cst);
        if (left == 0 && closed_.load(std::memory_order_seq_cst)) [[unlikely]]
            call_keeper();
    }
    /// Members that could not be written: the keeper leaves them out, in a new configuration. Whatever depends on that
    /// waits for the next look_again() with another generation.
    void report_failed(Mask members) noexcept;
    /// The same of members as they were then: those that were replaced since are not meant.
    void report_failed(Mask members, const Config& then) noexcept;
    /// The region's write-intent bit is to be set; `waiter` is told when that may have been done.
    void want_region(std::uint32_t region, Waiter& waiter) noexcept;
    [[nodiscard]] std::array<std::uint64_t, Counters::count> counters() const;

    StripeLocks locks;
    Regions regions;
    JournalRing journal;

    // For the keeper, on the home thread.

    void set_keeper(Keeper* keeper) noexcept { keeper_ = keeper; }
    void close_gate() noexcept { closed_.store(true, std::memory_order_seq_cst); }
    [[nodiscard]] bool drained() const;
    void open_gate() noexcept;
    void publish(std::unique_ptr<const Config> config);
    [[nodiscard]] Mask failures() const noexcept { return failures_.load(std::memory_order_acquire); }
    void forget_failures(Mask members) noexcept { failures_.fetch_and(~members, std::memory_order_acq_rel); }
    using Wanted = std::vector<std::pair<std::uint32_t, Waiter*>>;
    [[nodiscard]] Wanted take_wanted();
    [[nodiscard]] bool anything_wanted() const;
    /// Has the keeper look at what there is to do. Any thread.
    void call_keeper() noexcept;

  private:
    const unsigned level_;
    const Geometry geometry_;
    const Parity parity_;
    const Uuid uuid_;
    Reactor& home_;
    memory::Buffer zeroes_;
    std::atomic<const Config*> config_{nullptr};
    std::atomic<bool> closed_{false};
    std::atomic<Mask> failures_{0};
    Keeper* keeper_ = nullptr;  // home thread

    mutable std::mutex mutex_;  // below; not on the path of an I/O that finds all as it wants it
    std::vector<std::unique_ptr<const Config>> configs_;
    std::vector<Participant*> participants_;
    std::array<std::uint64_t, Counters::count> counted_{};  // of participants that are gone
    Wanted wanted_;
};

}  // namespace mqblk::driver::raid
