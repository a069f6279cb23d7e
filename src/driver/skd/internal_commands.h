// SPDX-License-Identifier: Apache-2.0
//
// The driver's own commands, one at a time, under an id that no request can have: at the start TEST UNIT READY, WRITE
// and READ BUFFER of a pattern, READ CAPACITY, INQUIRY for the serial number, each begun by the end of the one before;
// SYNCHRONIZE CACHE at the end. A command that fails begins the start-up again after a pause; the state machine bounds
// how long that goes on.
#pragma once

#include "base/clock.h"
#include "driver/skd/completions.h"
#include "driver/skd/request_id.h"
#include "pci/dma_space.h"
#include "wire/skd.h"

#include <mqblk/error.h>

#include <cstdint>
#include <string>

namespace mqblk::driver::skd {

/// What the card said of its disk.
struct DiskFacts {
    std::uint64_t sectors = 0;  ///< 0: it could not say
    std::uint32_t block_bytes = 0;
    std::string serial;  ///< empty: it could not say
};

class InternalCommands {
  public:
    static constexpr std::size_t pattern_bytes = 512;
    static constexpr Duration retry_pause = std::chrono::milliseconds(10);

    enum class Next : std::uint8_t {
        send,    ///< ring for message()
        pause,   ///< the same, after retry_pause
        reset,   ///< the card did not give back what it was given
        ready,   ///< all that the start-up needs is known
        synced,  ///< the cache is written, or cannot be
    };

    [[nodiscard]] Result<> prepare(pci::DmaSpace& space);

    [[nodiscard]] bool pending() const noexcept { return step_ != Step::none; }
    /// From the beginning; ring for message().
    void begin() noexcept { write(Step::test_unit_ready); }
    /// At the end; nothing is pending.
    void begin_sync() noexcept { write(Step::synchronize_cache); }
    /// What is pending will not end: the card was reset, or is gone.
    void forget() noexcept { step_ = Step::none; }

    /// The doorbell's value for the command that is pending.
    [[nodiscard]] std::uint64_t message() const noexcept;
    [[nodiscard]] bool owns(std::uint16_t id) const noexcept { return pending() && id == id_; }
    /// The command has ended. Where more is to be sent it is written already.
    [[nodiscard]] Next completed(const Completion& completion, const wire::skd::ErrorEntry& error);

    [[nodiscard]] const DiskFacts& facts() const noexcept { return facts_; }
    [[nodiscard]] bool sync_failed() const noexcept { return sync_failed_; }

  private:
    enum class Step : std::uint8_t {
        none,
        test_unit_ready,
        write_buffer,
        read_buffer,
        read_capacity,
        inquiry,
        synchronize_cache,
    };
    void write(Step step) noexcept;
    [[nodiscard]] Next go_on(Step step) noexcept;
    [[nodiscard]] Next check_pattern(std::uint32_t returned) noexcept;
    void take_capacity(bool known) noexcept;
    void take_serial(std::uint32_t returned);
    [[nodiscard]] std::byte* data() const noexcept;

    pci::DmaMemory memory_;  ///< message, descriptor, data
    Step step_ = Step::none;
    std::uint16_t id_ = first_id(IdTable::internal, 0);
    bool sync_failed_ = false;
    DiskFacts facts_;
};

}  // namespace mqblk::driver::skd
