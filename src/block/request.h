// SPDX-License-Identifier: Apache-2.0
//
// Request: one command to a device. It is found by its tag, lives in an array that is allocated once, and the driver's
// own bytes lie right behind it, so that request, tag and driver context are one thing. It covers a window of one bio,
// or several whole bios that were merged. It ends exactly once.
#pragma once

#include "base/clock.h"
#include "block/split.h"

#include <mqblk/bio.h>

#include <cassert>
#include <cstddef>
#include <cstdint>

namespace mqblk::block {

class ChannelCore;
class DeadlineScheduler;
class DeviceCore;
class Queue;

enum class RequestState : std::uint8_t { idle, waiting, in_flight, complete };

/// Where a request's data starts: `segment` of `bio`, `offset` bytes into it. From there it runs over the bio's further
/// segments and over bios chained by `progress.next`, for `Request::data_bytes()` bytes.
struct DataWindow {
    const Bio* bio = nullptr;
    std::uint32_t segment = 0;
    std::size_t offset = 0;
};

class alignas(64) Request {
  public:
    // What the command is. Set by the block layer before the driver sees the request; constant until it ends.
    std::uint32_t tag = 0;
    std::uint16_t generation = 0;  ///< grows with each use of the tag: tells a late completion from a true one
    Op op = Op::read;
    std::uint8_t flags = 0;  ///< BioFlag bits that are left for the driver (fua, unmap)
    std::uint64_t sector = 0;
    std::uint64_t sectors = 0;
    DataWindow data;
    std::uint32_t segments = 0;  ///< pieces after the limits were applied; for_each_segment yields just as many
    RequestState state = RequestState::idle;
    Status status = Status::ok;
    std::uint8_t retries = 0;
    Priority priority = Priority::best_effort;
    Time started{};         ///< when it was handed to the driver
    Time deadline = never;  ///< when it is late

    [[nodiscard]] std::uint64_t data_bytes() const noexcept { return carries_data(op) ? sectors * sector_bytes : 0; }
    [[nodiscard]] DeviceCore& device() const noexcept { return *device_; }
    [[nodiscard]] Queue& queue() const noexcept { return *queue_; }

    /// The driver's bytes behind this request; `Payload` must fit Driver::Shape::payload_bytes. Constructed once by
    /// HardwareQueue::prepare and kept over the request's uses.
    template <class Payload>
    [[nodiscard]] Payload& payload() noexcept {
        static_assert(alignof(Payload) <= alignof(Request));
        return *reinterpret_cast<Payload*>(this + 1);
    }

    /// Calls fn(std::byte* data, std::size_t bytes) for each piece, in order, cut so that the device's segment limits
    /// hold (max_segment_size, segment boundary). Neighbouring pieces are not joined.
    template <class Fn>
    void for_each_segment(Fn&& fn) const {
        const std::size_t max_size = max_segment_size_;
        const std::uint64_t boundary = seg_boundary_mask_;
        std::uint64_t left = data_bytes();
        const Bio* bio = data.bio;
        std::uint32_t index = data.segment;
        std::size_t offset = data.offset;
        while (left > 0) {
            assert(bio != nullptr);
            if (index == bio->data.size()) {
                bio = bio->progress.next;
                index = 0;
                offset = 0;
                continue;
            }
            const Segment& segment = bio->data[index];
            std::size_t room = segment.bytes - offset;
            if (room == 0) {
                ++index;
                offset = 0;
                continue;
            }
            std::byte* const at = segment.data + offset;
            const std::uint64_t to_boundary = boundary - (reinterpret_cast<std::uintptr_t>(at) & boundary);
            if (room > left) room = left;
            if (room > max_size) room = max_size;
            if (room - 1 > to_boundary) room = to_boundary + 1;
            fn(at, room);
            offset += room;
            left -= room;
        }
    }

    /// The whole data as one piece if it is one, else {nullptr, 0}.
    [[nodiscard]] Segment single_segment() const noexcept {
        if (segments != 1) return {nullptr, 0};
        Segment result{nullptr, 0};
        for_each_segment([&](std::byte* at, std::size_t bytes) { result = {at, bytes}; });
        return result;
    }

    /// How for_each_segment cuts, so that it yields as many pieces as next_cut counted under the same limits.
    void limit_segments(const QueueLimits& limits) noexcept {
        max_segment_size_ = max_piece_bytes(limits);
        seg_boundary_mask_ = limits.seg_boundary_mask;
    }

  private:
    friend class ChannelCore;
    friend class Queue;
    friend class TimerWheel;
    Bio* bios_ = nullptr;  // first of those it serves; merged ones are chained by progress.next; null: a flush
    ChannelCore* channel_ = nullptr;  // null: a reserved tag, the driver's own
    DeviceCore* device_ = nullptr;
    Queue* queue_ = nullptr;
    std::size_t max_segment_size_ = ~0ull;
    std::uint64_t seg_boundary_mask_ = ~0ull;
    Request* next_ = nullptr;        // dispatch, requeue or completion list
    Request* wheel_next_ = nullptr;  // timer wheel slot
    Request** wheel_slot_ = nullptr;
    Bio* last_bio_ = nullptr;
    DeadlineScheduler* scheduler_ = nullptr;  // that it came through and that counts it
};

}  // namespace mqblk::block
