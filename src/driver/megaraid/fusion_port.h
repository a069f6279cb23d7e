// SPDX-License-Identifier: Apache-2.0
//
// The Fusion generation's way: a request frame by SMID, a descriptor written to the request port, and reply queues,
// one for each vector. The driver's own MFI frames travel in requests of function passthrough.
#pragma once

#include "driver/megaraid/command_port.h"
#include "driver/megaraid/reply_ring.h"
#include "wire/megaraid_mpi.h"

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
    [[nodiscard]] Answered read_internal(std::uint16_t smid) const noexcept override;

    void send(const IoCommand& command) noexcept override;
    [[nodiscard]] Answered read(const block::Request& request, std::uint16_t smid) const noexcept override;

  private:
    [[nodiscard]] CommandMemory::Sizes sizes(const Limits& limits) const noexcept override;
    [[nodiscard]] Result<> allocate_replies(pci::DmaSpace& space, const Limits& limits, unsigned queues) override;
    void post(std::uint16_t smid, wire::megaraid::RequestType type, std::uint8_t vector,
              std::uint16_t dev_handle) noexcept;

    const wire::megaraid::Generation generation_;
    pci::DmaMemory reply_memory_;
    std::vector<ReplyRing> rings_;
};

}  // namespace mqblk::driver::megaraid
