// SPDX-License-Identifier: Apache-2.0
//
// The writers' side of XArray. A node is made whole before it is published, and one that was unpublished is freed only
// after a grace period; in between readers may see the old tree or the new one, and both answer rightly.
#include "base/xarray.h"

#include <memory>

namespace mqblk::detail {

XArrayTree::~XArrayTree() {
    free_tree(root_.load(std::memory_order_relaxed));
}

void XArrayTree::free_tree(Node* node) noexcept {
    if (node == nullptr) return;
    if (node->shift > 0) {
        for (auto& slot : node->slots) free_tree(static_cast<Node*>(slot.load(std::memory_order_relaxed)));
    }
    delete node;
}

/// Makes the tree deep enough for `index`.
void XArrayTree::grow(std::uint32_t index) {
    Node* root = root_.load(std::memory_order_relaxed);
    if (root == nullptr) {
        std::uint8_t shift = 0;
        while ((static_cast<std::uint64_t>(index) >> shift) >= slots_per_node) shift += bits_per_level;
        root_.store(new Node(shift), std::memory_order_release);
        return;
    }
    while ((static_cast<std::uint64_t>(index) >> root->shift) >= slots_per_node) {
        auto* const above = new Node(static_cast<std::uint8_t>(root->shift + bits_per_level));
        above->slots[0].store(root, std::memory_order_relaxed);
        above->used = 1;
        root_.store(above, std::memory_order_release);
        root = above;
    }
}

bool XArrayTree::insert(std::uint32_t index, void* value) {
    if (load(index) != nullptr) return false;
    grow(index);
    Node* node = root_.load(std::memory_order_relaxed);
    while (node->shift > 0) {
        auto& slot = node->slots[slot_of(*node, index)];
        auto* below = static_cast<Node*>(slot.load(std::memory_order_relaxed));
        if (below == nullptr) {
            below = new Node(static_cast<std::uint8_t>(node->shift - bits_per_level));
            slot.store(below, std::memory_order_release);
            ++node->used;
        }
        node = below;
    }
    node->slots[slot_of(*node, index)].store(value, std::memory_order_release);
    ++node->used;
    size_.store(size() + 1, std::memory_order_relaxed);
    return true;
}

void* XArrayTree::erase(std::uint32_t index) noexcept {
    void* const value = load(index);
    if (value == nullptr) return nullptr;
    constexpr unsigned most_levels = (32 + bits_per_level - 1) / bits_per_level;
    std::array<Node*, 2 * most_levels> retired{};
    std::size_t retired_count = 0;

    std::array<Node*, most_levels> path{};
    std::size_t depth = 0;
    for (Node* node = root_.load(std::memory_order_relaxed);; ++depth) {
        path[depth] = node;
        if (node->shift == 0) break;
        node = static_cast<Node*>(node->slots[slot_of(*node, index)].load(std::memory_order_relaxed));
    }
    // Takes the entry out of its node, a node that has become empty out of the one above, and so on.
    for (std::size_t level = depth + 1; level-- > 0;) {
        Node& node = *path[level];
        node.slots[slot_of(node, index)].store(nullptr, std::memory_order_release);
        if (--node.used > 0) break;
        retired[retired_count++] = &node;
        if (level == 0) root_.store(nullptr, std::memory_order_release);
    }
    // A root that leads to its first slot only is one level too many.
    for (Node* root = root_.load(std::memory_order_relaxed); root != nullptr && root->shift > 0 && root->used == 1;) {
        auto* const below = static_cast<Node*>(root->slots[0].load(std::memory_order_relaxed));
        if (below == nullptr) break;
        root_.store(below, std::memory_order_release);
        retired[retired_count++] = root;
        root = below;
    }
    size_.store(size() - 1, std::memory_order_relaxed);

    if (retired_count > 0) rcu::synchronize();
    for (std::size_t i = 0; i < retired_count; ++i) delete retired[i];
    return value;
}

/// The first value in this node at `index` or after (index is relative to nothing: the whole one). Leaves `index` at
/// the value found or, if there is none, just behind what the node covers.
void* XArrayTree::find_in(const Node& node, std::uint64_t& index) noexcept {
    const std::uint64_t span = 1ull << node.shift;
    for (auto slot = static_cast<unsigned>((index >> node.shift) % slots_per_node); slot < slots_per_node; ++slot) {
        void* const entry = node.slots[slot].load(std::memory_order_acquire);
        if (entry != nullptr && node.shift == 0) return entry;
        if (entry != nullptr) {
            if (void* const found = find_in(*static_cast<const Node*>(entry), index)) return found;
        } else {
            index = (index / span + 1) * span;
        }
    }
    return nullptr;
}

void* XArrayTree::find(std::uint32_t& index) const noexcept {
    const Node* const root = root_.load(std::memory_order_acquire);
    if (root == nullptr || (static_cast<std::uint64_t>(index) >> root->shift) >= slots_per_node) return nullptr;
    std::uint64_t at = index;
    void* const found = find_in(*root, at);
    if (found != nullptr) index = static_cast<std::uint32_t>(at);
    return found;
}

}  // namespace mqblk::detail
