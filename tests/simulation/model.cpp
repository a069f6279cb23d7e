// SPDX-License-Identifier: Apache-2.0
//
// A block's content: its version and number in the first word, then words that follow from both.
#include "simulation/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

namespace mqblk::simulation {

namespace {

std::uint64_t head_of(std::uint64_t number, Model::Version version) {
    return std::uint64_t{version} << 32 | (number & 0xffffffff);
}

std::uint64_t word_of(std::uint64_t head, std::size_t index) {
    return index == 0 ? head : (head ^ index << 48) * 0x9e3779b97f4a7c15u + index;
}

std::uint64_t load(std::span<const std::byte> data, std::size_t index) {
    std::uint64_t word = 0;
    std::memcpy(&word, data.data() + index * sizeof(word), sizeof(word));
    return word;
}

void add(std::vector<Model::Version>& set, Model::Version version) {
    if (std::ranges::find(set, version) == set.end()) set.push_back(version);
}

}  // namespace

bool Model::lock(std::uint64_t first, std::uint64_t count, bool exclusive) {
    for (std::uint64_t i = first; i < first + count; ++i) {
        if (blocks_[i].writer || (exclusive && blocks_[i].readers > 0)) return false;
    }
    for (std::uint64_t i = first; i < first + count; ++i) {
        blocks_[i].writer = exclusive;
        blocks_[i].readers += exclusive ? 0 : 1;
    }
    return true;
}

void Model::unlock(std::uint64_t first, std::uint64_t count, bool exclusive) {
    for (std::uint64_t i = first; i < first + count; ++i) {
        if (exclusive) {
            blocks_[i].writer = false;
        } else {
            --blocks_[i].readers;
        }
    }
}

void Model::fill(std::span<std::byte> data, std::uint64_t first, Version version) const {
    for (std::size_t at = 0; at < data.size(); at += block_bytes_, ++first) {
        for (std::size_t index = 0; index < block_bytes_ / sizeof(std::uint64_t); ++index) {
            const std::uint64_t word = version == 0 ? 0 : word_of(head_of(first, version), index);
            std::memcpy(data.data() + at + index * sizeof(word), &word, sizeof(word));
        }
    }
}

void Model::begin(std::uint64_t first, std::uint64_t count, Version version) {
    ++clock_;
    for (std::uint64_t i = first; i < first + count; ++i) {
        add(blocks_[i].visible, version);
        add(blocks_[i].durable, version);
        blocks_[i].changed = clock_;
    }
}

void Model::acknowledge(std::uint64_t first, std::uint64_t count, Version version, bool durable, std::uint64_t began) {
    ++clock_;
    for (std::uint64_t i = first; i < first + count; ++i) {
        Block& block = blocks_[i];
        if (!durable && began < last_cut_) continue;  // it may have been carried out before
        block.visible = {version};
        if (durable) block.durable = {version};
        block.changed = clock_;
        block.in_doubt = false;
    }
}

void Model::doubt(std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t i = first; i < first + count; ++i) blocks_[i].in_doubt = true;
}

void Model::flushed(std::uint64_t began) {
    if (began < last_cut_) return;
    for (Block& block : blocks_) {
        if (!block.writer && block.changed < began) block.durable = block.visible;
    }
}

void Model::power_cut() {
    last_cut_ = ++clock_;
    for (Block& block : blocks_) {
        block.visible = block.durable;
        block.changed = clock_;
    }
}

std::string Model::check(std::span<const std::byte> data, std::uint64_t first, std::uint64_t began) {
    for (std::size_t at = 0; at < data.size(); at += block_bytes_, ++first) {
        if (auto wrong = check_block(data.subspan(at, block_bytes_), first, began); !wrong.empty()) return wrong;
    }
    return {};
}

std::string Model::check_block(std::span<const std::byte> data, std::uint64_t number, std::uint64_t began) {
    const std::uint64_t head = load(data, 0);
    const auto version = static_cast<Version>(head >> 32);
    for (std::size_t index = 0; index < block_bytes_ / sizeof(std::uint64_t); ++index) {
        const std::uint64_t expected = version == 0 ? 0 : word_of(head, index);
        if (load(data, index) == expected) continue;
        return fmt::format("block {} is torn: it begins as version {} of block {}, but word {} of it is {:#x}", number,
                           version, head & 0xffffffff, index, load(data, index));
    }
    if (version != 0 && head != head_of(number, version))
        return fmt::format("block {} holds version {} of block {}", number, version, head & 0xffffffff);
    Block& block = blocks_[number];
    if (std::ranges::find(block.visible, version) == block.visible.end())
        return fmt::format("block {} holds version {}; allowed are {}", number, version,
                           fmt::join(block.visible, ", "));
    if (began > last_cut_ && !block.in_doubt && !block.writer && block.visible.size() > 1) {
        block.visible = {version};
        block.changed = ++clock_;
    }
    return {};
}

}  // namespace mqblk::simulation
