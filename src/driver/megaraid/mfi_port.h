// SPDX-License-Identifier: Apache-2.0
//
// The MFI generation's way: every command is an MFI frame with its list behind it, by SMID, whose address goes to the
// queue port; the firmware answers in the frame and puts its context, the SMID, into the one reply queue. Frames lie
// below 4 GiB.
#pragma once

#include "driver/megaraid/command_port.h"
#include "driver/megaraid/mfi_replies.h"

namespace mqblk::driver::megaraid {

class MfiPort final : public CommandPort {
  public:
    MfiPort(const pci::Bar& bar, wire::megaraid::Generation generation) noexcept
        : CommandPort(bar), generation_(generation) {}

    [[nodiscard]] ReplyQueue& replies(unsigned) noexcept override { return replies_; }
    void begin_init(const Limits& limits, unsigned vectors) noexcept override;

    void send_dcmd(std::uint16_t smid, std::uint32_t opcode, const wire::megaraid::Mailbox& mailbox,
                   const Transfer& data) noexcept override;
    void send_scsi(std::uint16_t smid, const Route& route, bool direct, const wire::scsi::Cdb& cdb,
                   const Transfer& data) noexcept override;
    /// ABORT is all there is.
    [[nodiscard]] bool has_task(const Route&, wire::megaraid::TaskType type) const noexcept override {
        return type == wire::megaraid::TaskType::abort_task;
    }
    void send_task(std::uint16_t smid, const Route& route, wire::megaraid::TaskType type,
                   std::uint16_t task_smid) noexcept override;
    [[nodiscard]] Answered read_internal(std::uint16_t smid) noexcept override;

    void send(const IoCommand& command) noexcept override;
    [[nodiscard]] Answered read(const block::Request&, std::uint16_t smid) noexcept override {
        return read_internal(smid);
    }

  private:
    [[nodiscard]] CommandMemory::Sizes sizes(const Limits& limits) const noexcept override;
    [[nodiscard]] Result<> allocate_replies(pci::DmaSpace& space, const Limits& limits, unsigned queues) override;
    /// What all frames begin with.
    [[nodiscard]] wire::megaraid::MfiHeader header(wire::megaraid::MfiCommand command, std::uint16_t smid,
                                                   unsigned direction = 0) const noexcept;
    void write_io(const IoCommand& command) noexcept;
    void write_scsi(const IoCommand& command) noexcept;
    void write_flush(std::uint16_t smid) noexcept;
    void post(std::uint16_t smid, std::size_t frame_bytes) noexcept;
    void post_at(std::uint64_t address, std::size_t frame_bytes) noexcept;

    const wire::megaraid::Generation generation_;
    bool ieee_ = false;
    unsigned room_ = 0;  ///< entries that there is memory for
    pci::DmaMemory reply_memory_;
    MfiReplies replies_;
};

}  // namespace mqblk::driver::megaraid
