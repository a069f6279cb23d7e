// SPDX-License-Identifier: Apache-2.0
//
// KeyTable: the registrations of a domain in this process, as an adapter keeps them: which memory is behind a key, and
// what may be done with it. A key is an index and, in its low 8 bits, a number that changes with each use of the index,
// so that a key that was given back fits nothing. What a peer says is checked here and nowhere else. One thread.
#pragma once

#include "fabric/rdma/domain.h"

#include <mqblk/bio.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace mqblk::fabric::rdma {

class KeyTable {
  public:
    explicit KeyTable(const Limits& limits) : limits_(limits) {
        entries_.reserve(1024);
        entries_.resize(1);
    }

    /// 0: there are no more keys.
    [[nodiscard]] std::uint32_t add_range(std::byte* data, std::size_t bytes, std::uint8_t access) noexcept;
    /// A key that is not valid, for map(); 0: there are no more regions.
    [[nodiscard]] std::uint32_t add_region(std::uint32_t max_pages);
    /// The new key; 0: `last_key` is not the last one of a region, it is valid still, or the list is not sound.
    [[nodiscard]] std::uint32_t map(std::uint32_t last_key, const PageList&, std::uint8_t access) noexcept;
    /// False: it was not valid, or no region's.
    bool invalidate(std::uint32_t key) noexcept;
    void remove(std::uint32_t key) noexcept;

    /// Appends the memory behind [address, address + bytes) to `to`. False: the key is not valid, does not cover it or
    /// does not allow it; `to` is then as before.
    [[nodiscard]] bool resolve(std::uint32_t key, std::uint64_t address, std::uint64_t bytes, std::uint8_t access,
                               std::vector<Segment>& to) const;

    [[nodiscard]] unsigned in_use() const noexcept { return in_use_; }  ///< ranges and regions

  private:
    struct Entry {
        std::uint64_t address = 0, bytes = 0;
        std::byte* data = nullptr;                 ///< of a range
        std::unique_ptr<std::uint64_t[]> pages{};  ///< of a region
        std::uint32_t max_pages = 0;
        std::uint32_t first_byte_offset = 0;
        std::uint32_t page_bytes = 0;
        std::uint32_t next_free = 0;
        std::uint8_t access = 0, variant = 0;
        bool used = false, valid = false;
    };
    static constexpr std::uint32_t most_entries = 1u << 20;

    [[nodiscard]] static std::uint32_t key_of(std::uint32_t index, const Entry& entry) noexcept {
        return index << 8 | entry.variant;
    }
    [[nodiscard]] std::uint32_t take_index();
    [[nodiscard]] Entry* find(std::uint32_t key) noexcept;
    [[nodiscard]] bool is_sound(const Entry&, const PageList&) const noexcept;

    const Limits limits_;
    std::vector<Entry> entries_;  ///< 0 is nobody's
    std::uint32_t first_free_ = 0;
    unsigned in_use_ = 0, regions_ = 0;
};

}  // namespace mqblk::fabric::rdma
