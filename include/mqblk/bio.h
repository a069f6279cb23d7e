// SPDX-License-Identifier: Apache-2.0
//
// A Bio is one I/O as its caller sees it. The caller owns it, its segment list and its memory until `done` runs; the
// block layer needs no other memory for it. Sectors are 512 bytes whatever the device's logical block size.
#pragma once

#include <mqblk/status.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace mqblk {

namespace block {
class ChannelCore;
}

inline constexpr unsigned sector_bytes = 512;

enum class Op : std::uint8_t { read, write, flush, discard, write_zeroes };
inline constexpr unsigned op_count = 5;

[[nodiscard]] constexpr bool carries_data(Op op) noexcept {
    return op == Op::read || op == Op::write;
}
[[nodiscard]] constexpr bool changes_data(Op op) noexcept {
    return op == Op::write || op == Op::discard || op == Op::write_zeroes;
}
[[nodiscard]] std::string_view to_string(Op) noexcept;

/// Bits of Bio::flags.
enum BioFlag : std::uint8_t {
    bio_fua = 1,       ///< done only when this data is on stable media
    bio_preflush = 2,  ///< all writes acknowledged before are on stable media first
    bio_nomerge = 4,   ///< stays a request of its own
    bio_polled = 8,    ///< the caller polls; no wake-up needed
    bio_unmap = 16,    ///< write_zeroes may deallocate
};

/// How a bio fares among others where the device has the scheduler mq-deadline; without effect elsewhere. Lower ones
/// wait while higher ones wait or are in flight, but not for ever.
enum class Priority : std::uint8_t { realtime, best_effort, idle };
inline constexpr unsigned priority_count = 3;

/// One piece of memory. Zero-length pieces are allowed and skipped.
struct Segment {
    std::byte* data;
    std::size_t bytes;
};
using Segments = std::span<const Segment>;

struct Bio;
/// Runs on the thread that submitted, from Channel::poll() or Channel::wait(), never from submit(). It may submit
/// again, reuse or free the Bio.
using Completion = void (*)(Bio&) noexcept;

struct Bio {
    Op op = Op::read;
    std::uint8_t flags = 0;
    Status status = Status::ok;  ///< out: valid when `done` runs
    Priority priority = Priority::best_effort;
    std::uint64_t sector = 0;   ///< first sector
    std::uint64_t sectors = 0;  ///< length; for reads and writes it must equal the bytes in `data`
    Segments data;              ///< reads and writes only
    Completion done = nullptr;
    void* context = nullptr;  ///< the caller's

    /// The block layer's while the bio is submitted; nothing here is for callers.
    struct Progress {
        Bio* next = nullptr;                    ///< link in whichever list holds the bio
        std::uint64_t issued = 0;               ///< sectors already turned into requests
        std::uint32_t segment = 0;              ///< where the next piece starts: index in `data` …
        std::uint32_t pieces = 0;               ///< requests outstanding, plus one while pieces remain to be cut
        std::size_t segment_offset = 0;         ///< … and bytes into that segment
        std::int64_t queued_ns = 0;             ///< when it was submitted
        block::ChannelCore* channel = nullptr;  ///< where it was submitted
        Bio* last = nullptr;                    ///< while it waits or is merged: the last of the bios chained behind it
        std::uint32_t segments = 0;             ///< … and how many memory pieces all of them have; 0 = not counted
        std::uint8_t stage = 0;                 ///< position in a flush sequence
    } progress;
};

}  // namespace mqblk
