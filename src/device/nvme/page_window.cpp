// SPDX-License-Identifier: Apache-2.0
#include "device/nvme/page_window.h"

#include <algorithm>
#include <cstring>

namespace mqblk::device::nvme {

namespace {
/// Calls fn(piece, bytes) for each piece of [offset, offset + count); returns how many bytes there were.
template <class Fn>
std::size_t for_each_piece(Segments segments, std::size_t offset, std::size_t count, Fn&& fn) noexcept {
    std::size_t done = 0;
    for (const Segment& segment : segments) {
        if (done == count) break;
        if (offset >= segment.bytes) {
            offset -= segment.bytes;
            continue;
        }
        const std::size_t bytes = std::min(segment.bytes - offset, count - done);
        if (!fn(segment.data + offset, bytes)) break;
        done += bytes;
        offset = 0;
    }
    return done;
}
}  // namespace

PageWindow::PageWindow(Segments data, std::uint64_t offset) noexcept
    : data_(data), begin_(offset), end_(offset + bytes_of(data)) {
    for (const Segment& segment : data) {
        if (segment.bytes > 0) std::memset(segment.data, 0, segment.bytes);
    }
}

void PageWindow::append(const void* bytes, std::size_t count) noexcept {
    if (wants(count)) {
        const std::size_t cut = position_ < begin_ ? static_cast<std::size_t>(begin_ - position_) : 0;
        const std::uint64_t at = position_ + cut - begin_;
        const auto room = static_cast<std::size_t>(end_ - begin_ - at);
        copy_in(data_, static_cast<std::size_t>(at), static_cast<const std::byte*>(bytes) + cut,
                std::min(count - cut, room));
    }
    position_ += count;
}

bool copy_out(Segments from, std::size_t offset, void* to, std::size_t count) noexcept {
    if (bytes_of(from) < offset + count) return false;
    auto* at = static_cast<std::byte*>(to);
    for_each_piece(from, offset, count, [&](const std::byte* piece, std::size_t bytes) {
        std::memcpy(at, piece, bytes);
        at += bytes;
        return true;
    });
    return true;
}

bool copy_in(Segments to, std::size_t offset, const void* from, std::size_t count) noexcept {
    const auto* at = static_cast<const std::byte*>(from);
    return for_each_piece(to, offset, count, [&](std::byte* piece, std::size_t bytes) {
               std::memcpy(piece, at, bytes);
               at += bytes;
               return true;
           }) == count;
}

bool equals(Segments data, std::size_t offset, const void* with, std::size_t count) noexcept {
    const auto* at = static_cast<const std::byte*>(with);
    return for_each_piece(data, offset, count, [&](const std::byte* piece, std::size_t bytes) {
               if (std::memcmp(piece, at, bytes) != 0) return false;
               at += bytes;
               return true;
           }) == count;
}

std::size_t bytes_of(Segments segments) noexcept {
    std::size_t bytes = 0;
    for (const Segment& segment : segments) bytes += segment.bytes;
    return bytes;
}

}  // namespace mqblk::device::nvme
