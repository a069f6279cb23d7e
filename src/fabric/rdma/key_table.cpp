// SPDX-License-Identifier: Apache-2.0
#include "fabric/rdma/key_table.h"

#include <algorithm>
#include <bit>

namespace mqblk::fabric::rdma {

std::uint32_t KeyTable::take_index() {
    std::uint32_t index = first_free_;
    if (index != 0) {
        first_free_ = entries_[index].next_free;
    } else {
        if (entries_.size() >= most_entries) return 0;
        index = static_cast<std::uint32_t>(entries_.size());
        entries_.emplace_back();
    }
    entries_[index].used = true;
    ++in_use_;
    return index;
}

KeyTable::Entry* KeyTable::find(std::uint32_t key) noexcept {
    const std::uint32_t index = key >> 8;
    if (index == 0 || index >= entries_.size()) return nullptr;
    Entry& entry = entries_[index];
    return entry.used && entry.variant == (key & 0xff) ? &entry : nullptr;
}

std::uint32_t KeyTable::add_range(std::byte* data, std::size_t bytes, std::uint8_t access) noexcept {
    if (bytes == 0) return 0;
    const std::uint32_t index = take_index();
    if (index == 0) return 0;
    Entry& entry = entries_[index];
    entry.address = reinterpret_cast<std::uintptr_t>(data);
    entry.bytes = bytes;
    entry.data = data;
    entry.access = access;
    ++entry.variant;
    entry.valid = true;
    return key_of(index, entry);
}

std::uint32_t KeyTable::add_region(std::uint32_t max_pages) {
    if (max_pages == 0 || max_pages > limits_.max_pages || regions_ >= limits_.max_regions) return 0;
    auto pages = std::make_unique_for_overwrite<std::uint64_t[]>(max_pages);
    const std::uint32_t index = take_index();
    if (index == 0) return 0;
    ++regions_;
    Entry& entry = entries_[index];
    entry.pages = std::move(pages);
    entry.max_pages = max_pages;
    return key_of(index, entry);
}

bool KeyTable::is_sound(const Entry& entry, const PageList& list) const noexcept {
    if (list.bytes == 0 || list.pages.empty() || list.pages.size() > entry.max_pages) return false;
    if (!std::has_single_bit(list.page_bytes) || list.page_bytes < limits_.page_bytes) return false;
    if (list.first_byte_offset >= list.page_bytes) return false;
    if (list.first_byte_offset != 0 && !limits_.first_byte_offset) return false;
    const std::uint64_t room = std::uint64_t{list.page_bytes} * list.pages.size() - list.first_byte_offset;
    return list.bytes <= room && list.address + list.bytes >= list.address;
}

std::uint32_t KeyTable::map(std::uint32_t last_key, const PageList& list, std::uint8_t access) noexcept {
    Entry* const entry = find(last_key);
    if (entry == nullptr || entry->pages == nullptr || entry->valid || !is_sound(*entry, list)) return 0;
    std::copy(list.pages.begin(), list.pages.end(), entry->pages.get());
    entry->address = list.address;
    entry->bytes = list.bytes;
    entry->page_bytes = list.page_bytes;
    entry->first_byte_offset = list.first_byte_offset;
    entry->access = access;
    entry->valid = true;
    ++entry->variant;
    return (last_key & ~0xffu) | entry->variant;
}

bool KeyTable::invalidate(std::uint32_t key) noexcept {
    Entry* const entry = find(key);
    if (entry == nullptr || !entry->valid || entry->pages == nullptr) return false;
    entry->valid = false;
    return true;
}

void KeyTable::remove(std::uint32_t key) noexcept {
    Entry* const entry = find(key);
    if (entry == nullptr) return;
    if (entry->pages != nullptr) --regions_;
    entry->pages.reset();
    entry->data = nullptr;
    entry->used = entry->valid = false;
    entry->next_free = first_free_;
    first_free_ = key >> 8;
    --in_use_;
}

bool KeyTable::resolve(std::uint32_t key, std::uint64_t address, std::uint64_t bytes, std::uint8_t access,
                       std::vector<Segment>& to) const {
    const std::uint32_t index = key >> 8;
    if (index == 0 || index >= entries_.size()) return false;
    const Entry& entry = entries_[index];
    if (!entry.valid || entry.variant != (key & 0xff) || (entry.access & access) != access) return false;
    if (address < entry.address || address - entry.address > entry.bytes ||
        bytes > entry.bytes - (address - entry.address))
        return false;
    std::uint64_t offset = address - entry.address;
    if (entry.pages == nullptr) {
        to.push_back({entry.data + offset, static_cast<std::size_t>(bytes)});
        return true;
    }
    offset += entry.first_byte_offset;
    const unsigned shift = static_cast<unsigned>(std::countr_zero(entry.page_bytes));
    while (bytes > 0) {
        const std::uint64_t in_page = offset & (entry.page_bytes - 1);
        const std::uint64_t piece = std::min<std::uint64_t>(bytes, entry.page_bytes - in_page);
        // NOLINTNEXTLINE: an address as the page list has it
        to.push_back(
            {reinterpret_cast<std::byte*>(entry.pages[offset >> shift] + in_page), static_cast<std::size_t>(piece)});
        offset += piece;
        bytes -= piece;
    }
    return true;
}

}  // namespace mqblk::fabric::rdma
