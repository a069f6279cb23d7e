// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/pattern.h"

#include "base/endian.h"
#include "base/random.h"

#include <fmt/format.h>

#include <cstring>

namespace mqblk::cli {

namespace {

struct BlockHeader {
    le64 magic;
    le64 lba;
    le64 run;
    le64 generation;
    le64 checksum;  ///< over the whole block with this field zero
};
static_assert(sizeof(BlockHeader) == 40);

constexpr std::uint64_t block_magic = 0x31766b6c62716d5bull;  // "[mqblkv1"

std::uint64_t mix(std::uint64_t z) noexcept {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/// Every bit of the block counts, and so does the order of its words.
std::uint64_t checksum_words(std::span<const std::byte> data, std::uint64_t sum) noexcept {
    for (std::size_t at = 0; at + 8 <= data.size(); at += 8) {
        std::uint64_t word;
        std::memcpy(&word, data.data() + at, 8);
        sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
        sum ^= sum >> 29;
    }
    return sum;
}

std::uint64_t checksum_block(std::span<const std::byte> block) noexcept {
    const auto head = block.first(offsetof(BlockHeader, checksum));
    return checksum_words(block.subspan(sizeof(BlockHeader)), checksum_words(head, block.size()));
}

void fill_block(std::span<std::byte> block, const BlockStamp& stamp) noexcept {
    std::uint64_t key = mix(stamp.lba + mix(stamp.run + mix(stamp.generation)));
    for (std::size_t at = sizeof(BlockHeader); at + 8 <= block.size(); at += 8) {
        key += 0x9e3779b97f4a7c15u;
        const std::uint64_t word = key ^ (key >> 31);
        std::memcpy(block.data() + at, &word, 8);
    }
    BlockHeader header{block_magic, stamp.lba, stamp.run, stamp.generation, 0};
    std::memcpy(block.data(), &header, sizeof header);
    header.checksum = checksum_block(block);
    std::memcpy(block.data(), &header, sizeof header);
}

std::optional<std::string> check_block(std::span<const std::byte> block, const BlockStamp& expected) {
    BlockHeader found;
    std::memcpy(&found, block.data(), sizeof found);
    if (found.magic != block_magic) {
        return fmt::format("LBA {}: begins with {:#018x}, expected {:#018x} of a block written by bench --verify",
                           expected.lba, found.magic.value(), block_magic);
    }
    if (const auto sum = checksum_block(block); sum != found.checksum) {
        return fmt::format("LBA {}: torn or damaged: its bytes sum to {:#018x}, expected {:#018x}", expected.lba, sum,
                           found.checksum.value());
    }
    if (found.lba != expected.lba) {
        return fmt::format("LBA {}: misplaced: holds the block of LBA {}, expected {}", expected.lba, found.lba.value(),
                           expected.lba);
    }
    if (expected.generation == 0) return std::nullopt;
    if (found.run != expected.run) {
        return fmt::format("LBA {}: stale: holds data of run {:#x}, expected run {:#x}", expected.lba,
                           found.run.value(), expected.run);
    }
    if (found.generation != expected.generation) {
        return fmt::format("LBA {}: stale: holds generation {}, expected {}", expected.lba, found.generation.value(),
                           expected.generation);
    }
    return std::nullopt;
}

}  // namespace

void fill_blocks(std::span<std::byte> data, std::size_t block_bytes, BlockStamp first) noexcept {
    for (; data.size() >= block_bytes; data = data.subspan(block_bytes), ++first.lba) {
        fill_block(data.first(block_bytes), first);
    }
}

std::optional<std::string> check_blocks(std::span<const std::byte> data, std::size_t block_bytes, BlockStamp first) {
    for (; data.size() >= block_bytes; data = data.subspan(block_bytes), ++first.lba) {
        if (auto wrong = check_block(data.first(block_bytes), first)) return wrong;
    }
    return std::nullopt;
}

void fill_random(std::span<std::byte> data, std::uint64_t seed) noexcept {
    SeededRandom random(seed);
    for (std::size_t at = 0; at + 8 <= data.size(); at += 8) {
        const std::uint64_t word = random.next();
        std::memcpy(data.data() + at, &word, 8);
    }
}

}  // namespace mqblk::cli
