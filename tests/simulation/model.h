// SPDX-License-Identifier: Apache-2.0
//
// Model: what each block of a disk may hold. A block's content names the block and the version written to it, so that
// whatever a read returns can be told: which write it is, whether it is whole, whether it belongs here. A block whose
// last write was acknowledged has one allowed version; one whose writes failed or are under way has several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mqblk::simulation {

class Model {
  public:
    using Version = std::uint32_t;  ///< 0: zeroes

    Model(std::uint64_t blocks, unsigned block_bytes) : block_bytes_(block_bytes), blocks_(blocks) {}

    [[nodiscard]] std::uint64_t blocks() const noexcept { return blocks_.size(); }
    [[nodiscard]] unsigned block_bytes() const noexcept { return block_bytes_; }

    // Whoever changes blocks has them for himself until he knows the outcome; readers share.
    [[nodiscard]] bool lock(std::uint64_t first, std::uint64_t count, bool exclusive);
    void unlock(std::uint64_t first, std::uint64_t count, bool exclusive);

    [[nodiscard]] Version new_version() noexcept { return ++last_version_; }
    /// The content of blocks from `first` on at a version.
    void fill(std::span<std::byte> data, std::uint64_t first, Version) const;

    /// To be asked for when an operation begins: what it says of volatile data holds unless the power failed since.
    [[nodiscard]] std::uint64_t stamp() noexcept { return ++clock_; }
    /// From now on the blocks may hold `version` too.
    void begin(std::uint64_t first, std::uint64_t count, Version);
    /// They hold it, and on stable media if `durable`.
    void acknowledge(std::uint64_t first, std::uint64_t count, Version, bool durable, std::uint64_t began);
    /// It failed: they may hold it or not, now or later.
    void doubt(std::uint64_t first, std::uint64_t count);

    /// A flush that began then was acknowledged: what was acknowledged before is on stable media.
    void flushed(std::uint64_t began);
    /// What was only cached may be lost.
    void power_cut();

    /// Empty, or what is wrong with what a read of blocks from `first` on returned. Where it tells which of several
    /// versions a block holds, that is the one from now on.
    [[nodiscard]] std::string check(std::span<const std::byte> data, std::uint64_t first, std::uint64_t began);

  private:
    struct Block {
        std::vector<Version> visible{0}, durable{0};
        std::uint64_t changed = 0;  // when its last change was acknowledged or began
        unsigned readers = 0;
        bool writer = false;
        bool in_doubt = false;  // a failed change may still come to be
    };
    [[nodiscard]] std::string check_block(std::span<const std::byte> data, std::uint64_t number, std::uint64_t began);

    const unsigned block_bytes_;
    std::vector<Block> blocks_;
    Version last_version_ = 0;
    std::uint64_t clock_ = 0, last_cut_ = 0;
};

}  // namespace mqblk::simulation
