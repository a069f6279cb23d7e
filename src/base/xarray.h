// SPDX-License-Identifier: Apache-2.0
//
// XArray: pointers by 32-bit index, as a tree of nodes with 64 slots each; it is as deep as its largest index needs.
// Finding an entry is a few loads, however many there are and whatever is added or removed meanwhile: readers take no
// lock. The name and the idea are the Linux kernel's (Matthew Wilcox, Documentation/core-api/xarray.rst).
#pragma once

#include "base/rcu.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace mqblk {

namespace detail {

/// The tree without its type. See XArray for the contract.
class XArrayTree {
  public:
    XArrayTree() = default;
    ~XArrayTree();
    XArrayTree(const XArrayTree&) = delete;
    XArrayTree& operator=(const XArrayTree&) = delete;

    [[nodiscard]] void* load(std::uint32_t index) const noexcept {
        const Node* node = root_.load(std::memory_order_acquire);
        if (node == nullptr || (static_cast<std::uint64_t>(index) >> node->shift) >= slots_per_node) return nullptr;
        for (;;) {
            void* const entry = node->slots[slot_of(*node, index)].load(std::memory_order_acquire);
            if (node->shift == 0 || entry == nullptr) return entry;
            node = static_cast<const Node*>(entry);
        }
    }
    [[nodiscard]] bool insert(std::uint32_t index, void* value);
    void* erase(std::uint32_t index) noexcept;
    /// The first entry at `index` or after, whose index it puts there.
    [[nodiscard]] void* find(std::uint32_t& index) const noexcept;
    [[nodiscard]] std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }

  private:
    static constexpr unsigned bits_per_level = 6;
    static constexpr unsigned slots_per_node = 1u << bits_per_level;

    struct Node {
        explicit Node(std::uint8_t s) noexcept : shift(s) {}
        const std::uint8_t shift;  ///< an entry of this node covers 2^shift indexes; 0: its entries are the values
        std::uint8_t used = 0;     ///< slots in use; for writers
        std::array<std::atomic<void*>, slots_per_node> slots{};
    };

    [[nodiscard]] static unsigned slot_of(const Node& node, std::uint32_t index) noexcept {
        return (index >> node.shift) & (slots_per_node - 1);
    }
    static void free_tree(Node*) noexcept;
    void grow(std::uint32_t index);
    static void* find_in(const Node&, std::uint64_t& index) noexcept;

    std::atomic<Node*> root_{nullptr};
    std::atomic<std::size_t> size_{0};
};

}  // namespace detail

/// Does not own its values. Writers exclude each other (the owner's mutex); readers are in an rcu::ReadLock, for as
/// long as they use what they found, or hold that mutex. Whoever frees a value erases it, calls rcu::synchronize() and
/// then frees it.
template <class T>
class XArray {
  public:
    /// Writer. False, and nothing changed, if the index is taken.
    [[nodiscard]] bool insert(std::uint32_t index, T& value) { return tree_.insert(index, &value); }
    /// Writer. What was there, or null. May wait for a grace period to free nodes: not within an rcu::ReadLock.
    T* erase(std::uint32_t index) noexcept { return static_cast<T*>(tree_.erase(index)); }

    /// Reader. Null if there is none.
    [[nodiscard]] T* load(std::uint32_t index) const noexcept { return static_cast<T*>(tree_.load(index)); }

    /// Reader. Runs fn(index, value) for each entry from `start` on, in order of index; ends early when fn returns
    /// false. Entries that come or go meanwhile may be seen or not; all others are seen, once.
    template <class Fn>
    void for_each(std::uint32_t start, Fn&& fn) const {
        for (std::uint32_t index = start; void* const value = tree_.find(index); ++index) {
            if (!fn(index, *static_cast<T*>(value)) || index == UINT32_MAX) return;
        }
    }

    [[nodiscard]] bool empty() const noexcept { return size() == 0; }
    [[nodiscard]] std::size_t size() const noexcept { return tree_.size(); }  ///< exact for writers

  private:
    detail::XArrayTree tree_;
};

}  // namespace mqblk
