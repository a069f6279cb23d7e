// SPDX-License-Identifier: Apache-2.0
//
// The descriptors that a ring watches, each by a one-shot poll request. The kernel knows a request by slot and
// generation; a slot that was given up in the meantime has another generation, so a late completion finds nobody.
// Requests are collected and handed to the kernel together (flush), since the ring may not be running yet.
#pragma once

#include "reactor/reactor.h"

#include <liburing.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace mqblk {

class UringWatch;

class UringWatches {
  public:
    static constexpr std::uint64_t no_one = ~0ull;  ///< as user_data: completions to be ignored
    static constexpr std::uint32_t no_slot = ~0u;

    UringWatches() = default;
    UringWatches(const UringWatches&) = delete;
    UringWatches& operator=(const UringWatches&) = delete;
    ~UringWatches();  ///< the watches that live on are disarmed

    [[nodiscard]] std::uint32_t arm(UringWatch&, int fd, bool for_write);
    void disarm(std::uint32_t slot) noexcept;

    [[nodiscard]] bool pending() const noexcept { return !changes_.empty(); }
    /// Puts the collected requests into the ring, submitting whenever it is full.
    void flush(io_uring&) noexcept;
    /// A poll request has ended. Runs the watch's callback.
    void complete(std::uint64_t user_data, int result);

  private:
    enum class State : std::uint8_t { free, wanted, armed };
    struct Slot {
        UringWatch* watch = nullptr;
        std::uint32_t generation = 0;
        int fd = -1;
        bool for_write = false;
        State state = State::free;
    };
    struct Change {
        std::uint64_t user_data;
        bool add;
    };

    [[nodiscard]] std::uint64_t name(std::uint32_t slot) const noexcept {
        return slot | static_cast<std::uint64_t>(slots_[slot].generation) << 32;
    }
    [[nodiscard]] Slot* find(std::uint64_t user_data) noexcept;
    void release(std::uint32_t slot) noexcept;

    std::vector<Slot> slots_;
    std::vector<std::uint32_t> free_;
    std::vector<Change> changes_;
};

/// The next free submission entry, after submitting what is there if need be. Null only when the kernel refuses.
[[nodiscard]] io_uring_sqe* next_sqe(io_uring&) noexcept;

class UringWatch final : public Watch {
  public:
    /// `changed` is called after requests were added (a reactor whose ring others sleep on submits them at once).
    UringWatch(UringWatches& watches, int fd, std::function<void()> ready, std::function<void()> changed)
        : watches_(&watches), fd_(fd), ready_(std::move(ready)), changed_(std::move(changed)) {}
    ~UringWatch() override { disarm(); }

    void arm(bool for_write) override;
    void disarm() noexcept override;

  private:
    friend class UringWatches;
    UringWatches* watches_;
    int fd_;
    std::uint32_t slots_[2] = {UringWatches::no_slot, UringWatches::no_slot};  ///< to read, to write
    std::function<void()> ready_;
    std::function<void()> changed_;
};

}  // namespace mqblk
