// SPDX-License-Identifier: Apache-2.0
//
// Work on scatter-gather lists: walking, copying, comparing. Nothing here allocates. Zero-length pieces are skipped.
#pragma once

#include <mqblk/bio.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace mqblk::memory {

/// A place in a list that moves forward.
class SegmentCursor {
  public:
    explicit SegmentCursor(Segments list) noexcept : list_(list) {}

    /// The next piece, at most `max_bytes` (1 or more) of it, and moves over it. {nullptr, 0} at the end.
    Segment take(std::size_t max_bytes) noexcept {
        while (index_ < list_.size()) {
            const Segment& segment = list_[index_];
            const std::size_t room = segment.bytes - offset_;
            if (room > max_bytes) {
                const Segment result{segment.data + offset_, max_bytes};
                offset_ += max_bytes;
                return result;
            }
            const Segment result{segment.data + offset_, room};
            ++index_;
            offset_ = 0;
            if (room != 0) return result;
        }
        return {nullptr, 0};
    }

    /// Moves over `bytes`; returns how many there were.
    std::uint64_t skip(std::uint64_t bytes) noexcept;

  private:
    Segments list_;
    std::size_t index_ = 0;
    std::size_t offset_ = 0;
};

[[nodiscard]] std::uint64_t total_bytes(Segments) noexcept;

/// Copy as many bytes as the shorter side has, and return how many. The two must not overlap.
std::uint64_t copy(Segments to, Segments from) noexcept;
std::uint64_t copy(Segments to, std::span<const std::byte> from) noexcept;
std::uint64_t copy(std::span<std::byte> to, Segments from) noexcept;

void fill(Segments, std::byte value) noexcept;

/// Offset of the first byte that differs; where one is shorter, its length; nothing if they are equal.
[[nodiscard]] std::optional<std::uint64_t> first_difference(Segments, Segments) noexcept;
[[nodiscard]] std::optional<std::uint64_t> first_difference(Segments, std::span<const std::byte>) noexcept;

/// The pieces of [offset, offset + bytes) of `list`, written to `room`. Nothing if the list is shorter or `room` too
/// small for them.
[[nodiscard]] std::optional<Segments> sub_range(Segments list, std::uint64_t offset, std::uint64_t bytes,
                                                std::span<Segment> room) noexcept;

}  // namespace mqblk::memory
