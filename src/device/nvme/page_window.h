// SPDX-License-Identifier: Apache-2.0
//
// The part of a page that a command asked for. A page (a log, an identify structure) is generated from its first byte
// on; what lies before the window or behind it is dropped. The window is zeroed first, so that a page shorter than the
// transfer reads as zeroes behind its end and nothing of an older command is ever sent.
#pragma once

#include <mqblk/bio.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace mqblk::device::nvme {

class PageWindow {
  public:
    /// The window is [offset, offset + bytes of `data`) of the page.
    PageWindow(Segments data, std::uint64_t offset) noexcept;

    /// The page's next bytes.
    void append(const void* bytes, std::size_t count) noexcept;
    template <class T>
        requires std::is_trivially_copyable_v<T>
    void append(const T& value) noexcept {
        append(&value, sizeof value);
    }

    /// The next `count` bytes of the page need not be generated: pass over them.
    void skip(std::uint64_t count) noexcept { position_ += count; }
    /// False: none of the page's next `count` bytes lie in the window; skip() them.
    [[nodiscard]] bool wants(std::uint64_t count) const noexcept {
        return position_ < end_ && position_ + count > begin_;
    }
    /// Where in the page the next byte goes: its length when all is appended.
    [[nodiscard]] std::uint64_t position() const noexcept { return position_; }

  private:
    Segments data_;
    std::uint64_t begin_, end_;
    std::uint64_t position_ = 0;
};

/// Copies `count` bytes out of segments, from `offset` on. False, and nothing copied, when they hold fewer.
[[nodiscard]] bool copy_out(Segments from, std::size_t offset, void* to, std::size_t count) noexcept;
/// Copies `count` bytes into segments, from `offset` on. False when they hold fewer; what fits was copied.
bool copy_in(Segments to, std::size_t offset, const void* from, std::size_t count) noexcept;
/// Compares `count` bytes of segments, from `offset` on, with memory.
[[nodiscard]] bool equals(Segments data, std::size_t offset, const void* with, std::size_t count) noexcept;

[[nodiscard]] std::size_t bytes_of(Segments) noexcept;

}  // namespace mqblk::device::nvme
