// SPDX-License-Identifier: Apache-2.0
//
// The Fusion generation's way: a request frame by SMID, a descriptor written to the request port, and reply queues,
// one for each vector. The driver's own MFI frames travel in requests of function passthrough.
#pragma once

#include "driver/megaraid/command_port.h"
#include "driver/megaraid/reply_ring.h"
#include "wire/megaraid_mpi.h"

#include <array>
#include <atomic>
#include <vector>

namespace mqblk::driver::megaraid {

class FusionPort final : public CommandPort {
  public:
    FusionPort(const pci::Bar& bar, wire::megaraid::Generation generation) noexcept
        : CommandPort(bar), generation_(generation) {}

    [[nodiscard]] ReplyQueue& replies(unsigned vector) noexcept override { return rings_[vector]; }
    void begin_init(const Limits& limits, unsigned vectors) noexcept override;

    void send_dcmd(std::uint16_t smid, std::uint32_t opcode, const wire::megaraid::Mailbox& mailbox,
                   const Transfer& data) noexcept override;
    void send_scsi(std::uint16_t smid, const Route& route, bool direct, const wire::scsi::Cdb& cdb,
                   const Transfer& data) noexcept override;
    [[nodiscard]] bool has_task(const Route& route, wire::megaraid::TaskType type) const noexcept override;
    void send_task(std::uint16_t smid, const Route& route, wire::megaraid::TaskType type,
                   std::uint16_t task_smid) noexcept override;
    [[nodiscard]] Answered read_internal(std::uint16_t smid) noexcept override;

    void send(const IoCommand& command) noexcept override;
    [[nodiscard]] Answered read(const block::Request& request, std::uint16_t smid) noexcept override;
    void distrust(std::uint16_t smid) noexcept override;

  private:
    /// Whether the firmware writes the status of a command that went well, for each way there. Where it does, a command
    /// goes out with the status `pending`, and a reply that finds that is a late second one of the SMID's last user. It
    /// costs nothing; no source says that all firmware does, and the hardware that serves the fast path need not.
    enum class Writes : std::uint8_t { unknown, yes, no };
    [[nodiscard]] static bool is_fast(const wire::megaraid::ScsiIoRequest& frame) noexcept {
        return frame.function == static_cast<std::uint8_t>(wire::megaraid::Function::scsi_io);
    }
    /// What it presets.
    [[nodiscard]] std::uint8_t status_before(bool fast) const noexcept {
        return writes_[fast].load(std::memory_order_relaxed) == Writes::no
                   ? std::uint8_t{0}
                   : static_cast<std::uint8_t>(wire::megaraid::MfiStatus::pending);
    }
    /// What was found, and learns from it.
    struct Statuses {
        std::uint8_t scsi, mfi;
    };
    [[nodiscard]] Statuses read_statuses(wire::megaraid::ScsiIoRequest& frame) noexcept;

    [[nodiscard]] CommandMemory::Sizes sizes(const Limits& limits) const noexcept override;
    [[nodiscard]] Result<> allocate_replies(pci::DmaSpace& space, const Limits& limits, unsigned queues) override;
    void post(std::uint16_t smid, wire::megaraid::RequestType type, std::uint8_t vector,
              std::uint16_t dev_handle) noexcept;

    const wire::megaraid::Generation generation_;
    pci::DmaMemory reply_memory_;
    std::vector<ReplyRing> rings_;
    std::array<std::atomic<Writes>, 2> writes_{};  ///< through the firmware, fast
};

}  // namespace mqblk::driver::megaraid
