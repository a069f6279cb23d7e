// SPDX-License-Identifier: Apache-2.0
//
// CheckBuffers: memory of one reactor for commands that read without sending (Compare, Verify). A bounded number of
// them have some at once, each as much as it can use up to a bound; the others wait in order. The memory is given back
// when it has not been wanted for a while. The reactor's thread only.
#pragma once

#include "block/pool_trimmer.h"
#include "device/nvme/target_queue.h"
#include "memory/buffer_pool.h"

#include <cstdint>
#include <memory>
#include <optional>

namespace mqblk::device::nvme {

class CheckBuffers {
  public:
    static constexpr unsigned most_commands = 8;
    static constexpr std::size_t most_bytes = 256 * 1024;  ///< for each

    explicit CheckBuffers(Reactor& reactor) : reactor_(reactor) {}

    enum class Claim : std::uint8_t { granted, waiting, failed };
    /// Memory for a command that looks at `total` bytes. granted: command.piece.data is that of piece_bytes(total);
    /// waiting: command.step is called when it is; failed: the system has none.
    [[nodiscard]] Claim claim(TargetCommand& command, std::uint64_t total) noexcept;
    void give_back(TargetCommand& command, std::uint64_t total) noexcept;
    /// Takes the command out that waits with this identifier; null: none does.
    [[nodiscard]] TargetCommand* take_waiting(const QueueCore&, std::uint16_t command_id) noexcept;

    [[nodiscard]] unsigned in_use() const noexcept { return in_use_; }

  private:
    [[nodiscard]] bool grant(TargetCommand&, std::uint64_t total) noexcept;

    Reactor& reactor_;
    std::unique_ptr<memory::BufferPool> pool_;  // at the first use
    std::optional<block::PoolTrimmer> trimmer_;
    unsigned in_use_ = 0;
    TargetCommand* first_ = nullptr;  // who waits
    TargetCommand** last_ = &first_;
};

}  // namespace mqblk::device::nvme
