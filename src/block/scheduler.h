// SPDX-License-Identifier: Apache-2.0
//
// What waits is groups: one bio, or several neighbours chained by progress.next that will be one request; the first
// bio's progress.last is the end of the chain and progress.segments the number of memory pieces in it. A group's bios
// are of one channel and one priority. A Fifo keeps the order of arrival; `mq-deadline` is in deadline.h.
#pragma once

#include <mqblk/bio.h>
#include <mqblk/limits.h>

#include <cstdint>

namespace mqblk::block {

/// How far a channel looks for a neighbour to merge with: the attribute nomerges.
enum class Merges : std::uint8_t { all, last_only, none };

enum class SchedulerKind : std::uint8_t { none, mq_deadline };

/// First in, first out; the newest group grows by its back. What a channel has under the scheduler `none`.
class Fifo {
  public:
    /// Takes a group; true if it became part of the newest. The channel's thread (or the queue's lock).
    bool insert(Bio& first, const QueueLimits&, Merges) noexcept;
    /// What was taken and is not done with: a bio being cut goes on before all others.
    void put_back(Bio& first) noexcept;
    /// The group to go next, or null.
    [[nodiscard]] Bio* take() noexcept;
    /// The oldest group of `channel`, or null.
    [[nodiscard]] Bio* take_of(const ChannelCore& channel) noexcept;
    [[nodiscard]] bool empty() const noexcept { return head_ == nullptr; }

  private:
    Bio* take_behind(Bio* previous) noexcept;
    Bio* head_ = nullptr;
    Bio* last_group_ = nullptr;
};

// Groups.

/// A bio alone, as a group.
inline void make_group(Bio& bio) noexcept {
    bio.progress.next = nullptr;
    bio.progress.last = &bio;
    bio.progress.segments = 0;
}
[[nodiscard]] std::uint64_t group_sectors(const Bio& first) noexcept;
[[nodiscard]] std::uint64_t group_end(const Bio& first) noexcept;
/// Puts a bio that is alone behind or before a group where the limits allow. grow_front returns the new first or null.
[[nodiscard]] bool grow_back(Bio& first, Bio& bio, const QueueLimits&) noexcept;
[[nodiscard]] Bio* grow_front(Bio& first, Bio& bio, const QueueLimits&) noexcept;

}  // namespace mqblk::block
