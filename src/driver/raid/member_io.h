// SPDX-License-Identifier: Apache-2.0
//
// MemberIo: the members as the array's home thread uses them, for all that is not its users' I/O: superblocks, repair,
// rebuilding. Channels of the home reactor's own, and coroutines that wait for one I/O or for one on each member.
#pragma once

#include "base/task.h"
#include "driver/raid/parity.h"
#include "reactor/reactor.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace mqblk::driver::raid {

/// One piece of memory for each member, by its number.
using MemberMemory = std::array<std::byte*, max_members>;

/// Home thread.
class MemberIo {
  public:
    explicit MemberIo(Reactor& home) : home_(home) {}

    [[nodiscard]] Result<> open(unsigned member, std::shared_ptr<Device> device);
    void close(unsigned member) noexcept;
    [[nodiscard]] bool is_open(unsigned member) const noexcept { return channels_[member] != nullptr; }
    [[nodiscard]] const std::shared_ptr<Device>& device(unsigned member) const noexcept { return devices_[member]; }
    [[nodiscard]] Reactor& home() const noexcept { return home_; }

    /// Offset and bytes in bytes; `data` for reads and writes. `removed` where there is no such member.
    [[nodiscard]] Task<Status> io(unsigned member, Op op, std::uint64_t offset, std::byte* data, std::uint64_t bytes,
                                  std::uint8_t flags);
    /// The same on all of `members` at once, each with its own memory; returns those that failed.
    [[nodiscard]] Task<Mask> on_each(Mask members, Op op, std::uint64_t offset, MemberMemory data, std::uint64_t bytes,
                                     std::uint8_t flags);
    [[nodiscard]] Task<Mask> flush(Mask members);

  private:
    Reactor& home_;
    std::array<std::shared_ptr<Device>, max_members> devices_{};
    std::array<std::unique_ptr<Channel>, max_members> channels_{};
};

}  // namespace mqblk::driver::raid
