// SPDX-License-Identifier: Apache-2.0
//
// Two lists are walked together in steps that lie in one piece of each; everything else is a step.
#include "memory/segments.h"

#include <algorithm>
#include <cstring>

namespace mqblk::memory {

namespace {

/// A list of one piece that is only read.
Segment readable(std::span<const std::byte> bytes) noexcept {
    return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

/// step(a, b, bytes) until it returns false or one side ends.
template <class Step>
void walk_together(Segments first, Segments second, Step&& step) noexcept {
    SegmentCursor a(first), b(second);
    Segment left = a.take(~std::size_t{0}), right = b.take(~std::size_t{0});
    while (left.bytes != 0 && right.bytes != 0) {
        const std::size_t bytes = std::min(left.bytes, right.bytes);
        if (!step(left.data, right.data, bytes)) return;
        left = {left.data + bytes, left.bytes - bytes};
        right = {right.data + bytes, right.bytes - bytes};
        if (left.bytes == 0) left = a.take(~std::size_t{0});
        if (right.bytes == 0) right = b.take(~std::size_t{0});
    }
}

}  // namespace

std::uint64_t SegmentCursor::skip(std::uint64_t bytes) noexcept {
    std::uint64_t left = bytes;
    while (left != 0) {
        const Segment taken = take(left);
        if (taken.bytes == 0) break;
        left -= taken.bytes;
    }
    return bytes - left;
}

std::uint64_t total_bytes(Segments list) noexcept {
    std::uint64_t result = 0;
    for (const Segment& segment : list) result += segment.bytes;
    return result;
}

std::uint64_t copy(Segments to, Segments from) noexcept {
    std::uint64_t copied = 0;
    walk_together(to, from, [&](std::byte* target, const std::byte* source, std::size_t bytes) {
        std::memcpy(target, source, bytes);
        copied += bytes;
        return true;
    });
    return copied;
}

std::uint64_t copy(Segments to, std::span<const std::byte> from) noexcept {
    const Segment source = readable(from);
    return copy(to, Segments(&source, 1));
}

std::uint64_t copy(std::span<std::byte> to, Segments from) noexcept {
    const Segment target{to.data(), to.size()};
    return copy(Segments(&target, 1), from);
}

void fill(Segments list, std::byte value) noexcept {
    for (const Segment& segment : list) {
        if (segment.bytes != 0) std::memset(segment.data, std::to_integer<int>(value), segment.bytes);
    }
}

std::optional<std::uint64_t> first_difference(Segments first, Segments second) noexcept {
    std::uint64_t equal = 0;
    bool differs = false;
    walk_together(first, second, [&](const std::byte* a, const std::byte* b, std::size_t bytes) {
        if (std::memcmp(a, b, bytes) != 0) {
            differs = true;
            equal += static_cast<std::uint64_t>(std::mismatch(a, a + bytes, b).first - a);
            return false;
        }
        equal += bytes;
        return true;
    });
    if (differs || total_bytes(first) != total_bytes(second)) return equal;
    return std::nullopt;
}

std::optional<std::uint64_t> first_difference(Segments first, std::span<const std::byte> second) noexcept {
    const Segment other = readable(second);
    return first_difference(first, Segments(&other, 1));
}

std::optional<Segments> sub_range(Segments list, std::uint64_t offset, std::uint64_t bytes,
                                  std::span<Segment> room) noexcept {
    SegmentCursor cursor(list);
    if (cursor.skip(offset) != offset) return std::nullopt;
    std::size_t pieces = 0;
    while (bytes != 0) {
        const Segment taken = cursor.take(bytes);
        if (taken.bytes == 0 || pieces == room.size()) return std::nullopt;
        room[pieces++] = taken;
        bytes -= taken.bytes;
    }
    return Segments(room.data(), pieces);
}

}  // namespace mqblk::memory
