// SPDX-License-Identifier: Apache-2.0
//
// ElementMapper: a scatter-gather list, piece by piece, becomes as few descriptors as pages and registrations allow.
// Neighbouring pieces are joined; pieces that meet at page boundaries share a registration; what does not fit one
// (longer than a registration, begins within a page where that cannot be) gets a descriptor of its own. When a
// registration fails the rest of the list goes piece by piece, from the first byte that no descriptor covers. There are
// never more descriptors than pieces. No allocation. One thread.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mqblk::driver::srp {

struct MapRules {
    static constexpr std::uint32_t most_pages = 512;

    std::uint32_t page_bytes = 4096;
    std::uint32_t max_pages = 0;    ///< of one registration, up to most_pages; 0: no page lists
    bool first_byte_offset = true;  ///< a registration may begin within its first page
    bool single_as_range = true;    ///< what is one piece needs no page list
};

/// Pages that share a registration.
struct PageRun {
    std::span<const std::uint64_t> pages{};
    std::uint32_t first_byte_offset = 0;
    std::uint64_t bytes = 0;
};

/// Sink: bool add_region(const PageRun&) and bool add_range(std::byte*, std::size_t); false: it failed.
template <class Sink>
class ElementMapper {
  public:
    ElementMapper(const MapRules& rules, Sink& sink) noexcept
        : sink_(sink),
          max_pages_(rules.max_pages),
          shift_(static_cast<unsigned>(std::countr_zero(rules.page_bytes))),
          mask_(rules.page_bytes - 1),
          first_byte_offset_(rules.first_byte_offset),
          single_as_range_(rules.single_as_range) {}

    void add(std::byte* data, std::size_t bytes) noexcept {
        if (data == last_ + last_bytes_) {
            last_bytes_ += bytes;
            return;
        }
        if (last_bytes_ != 0) map(last_, last_bytes_);
        last_ = data;
        last_bytes_ = bytes;
    }
    /// False: a piece could not be registered at all.
    [[nodiscard]] bool finish() noexcept {
        if (last_bytes_ != 0) map(last_, last_bytes_);
        close();
        return !failed_;
    }
    /// A registration failed, and the rest went piece by piece.
    [[nodiscard]] bool fell_back() const noexcept { return piecewise_; }

  private:
    struct Piece {
        std::byte* data;
        std::size_t bytes;
    };

    void map(std::byte* data, std::size_t bytes) noexcept {
        const std::uint64_t address = reinterpret_cast<std::uintptr_t>(data);
        std::uint64_t offset = address & mask_;
        if (piecewise_ || (offset + bytes + mask_) >> shift_ > max_pages_ || (offset != 0 && !first_byte_offset_)) {
            close();
            return put_range(data, bytes);
        }
        if (offset != 0) close();
        const bool ends_within_page = ((address + bytes) & mask_) != 0;
        while (bytes != 0) {
            if (page_count_ == max_pages_) close();
            if (piecewise_) return put_range(data, bytes);
            const std::size_t room = (static_cast<std::size_t>(max_pages_ - page_count_) << shift_) - offset;
            const std::size_t taken = bytes < room ? bytes : room;
            append(data, taken, offset);
            data += taken;
            bytes -= taken;
            offset = 0;
        }
        if (ends_within_page) close();
    }

    void append(std::byte* data, std::size_t bytes, std::uint64_t offset) noexcept {
        if (page_count_ == 0) first_offset_ = static_cast<std::uint32_t>(offset);
        pieces_[piece_count_++] = {data, bytes};
        run_bytes_ += bytes;
        std::uint64_t page = reinterpret_cast<std::uintptr_t>(data) - offset;
        for (std::uint64_t left = offset + bytes;; left -= mask_ + 1) {
            pages_[page_count_++] = page;
            if (left <= mask_ + 1) break;
            page += mask_ + 1;
        }
    }

    void close() noexcept {
        if (page_count_ == 0) return;
        const PageRun run{.pages = std::span<const std::uint64_t>(pages_).first(page_count_),
                          .first_byte_offset = first_offset_,
                          .bytes = run_bytes_};
        const unsigned count = piece_count_;
        page_count_ = piece_count_ = 0;
        run_bytes_ = 0;
        if ((count != 1 || !single_as_range_) && !failed_) {
            if (sink_.add_region(run)) return;
            piecewise_ = true;
        }
        for (unsigned i = 0; i < count; ++i) put_range(pieces_[i].data, pieces_[i].bytes);
    }

    void put_range(std::byte* data, std::size_t bytes) noexcept {
        if (!failed_) failed_ = !sink_.add_range(data, bytes);
    }

    Sink& sink_;
    const std::uint32_t max_pages_;
    const unsigned shift_;
    const std::uint64_t mask_;
    const bool first_byte_offset_, single_as_range_;
    bool piecewise_ = false, failed_ = false;
    std::byte* last_ = nullptr;  // the piece that the next may continue
    std::size_t last_bytes_ = 0;
    // The run that is open.
    std::uint32_t page_count_ = 0, piece_count_ = 0, first_offset_ = 0;
    std::uint64_t run_bytes_ = 0;
    std::array<std::uint64_t, MapRules::most_pages> pages_;  // NOLINT: as many as counted are set
    std::array<Piece, MapRules::most_pages> pieces_;         // NOLINT
};

}  // namespace mqblk::driver::srp
