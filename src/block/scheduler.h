// SPDX-License-Identifier: Apache-2.0
//
// Scheduler: what of a channel waits, and which goes next. It holds groups: one bio, or several neighbours chained by
// progress.next that will be one request; the first bio's progress.last is the end of the chain and progress.segments
// the number of memory pieces in it. `none` keeps the order of arrival; `mq-deadline` is in deadline.h.
#pragma once

#include <mqblk/bio.h>
#include <mqblk/limits.h>

#include <cstdint>
#include <memory>
#include <string_view>

namespace mqblk::block {

/// How far a channel looks for a neighbour to merge with: the attribute nomerges.
enum class Merges : std::uint8_t { all, last_only, none };

class Scheduler {
  public:
    virtual ~Scheduler() = default;  ///< it is empty
    /// Takes a group; true if it became part of one that waits. The channel's thread (or the queue's lock).
    virtual bool insert(Bio& first, const QueueLimits&, Merges, std::int64_t now_ns) noexcept = 0;
    /// The group to go next, or null.
    [[nodiscard]] virtual Bio* take(std::int64_t now_ns) noexcept = 0;
    [[nodiscard]] virtual bool empty() const noexcept = 0;
};

enum class SchedulerKind : std::uint8_t { none, mq_deadline };
[[nodiscard]] std::string_view to_string(SchedulerKind) noexcept;
[[nodiscard]] std::unique_ptr<Scheduler> make_scheduler(SchedulerKind);

/// First in, first out; the newest group grows by its back.
class FifoScheduler final : public Scheduler {
  public:
    bool insert(Bio& first, const QueueLimits&, Merges, std::int64_t now_ns) noexcept override;
    [[nodiscard]] Bio* take(std::int64_t now_ns) noexcept override;
    [[nodiscard]] bool empty() const noexcept override { return head_ == nullptr; }

  private:
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
