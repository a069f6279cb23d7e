// SPDX-License-Identifier: Apache-2.0
//
// CommandPort: all that the generations differ in beyond register addresses: how a command is written and posted, and
// how its answer is found and read. Fusion has request frames, descriptors and reply queues (fusion_port.h), its elders
// MFI frames, the queue port and one reply queue (mfi_port.h). What is above it is the same for both: start-up, lists,
// events, recovery, the driver's own commands and the requests' way.
#pragma once

#include "block/request.h"
#include "driver/megaraid/command_memory.h"
#include "driver/megaraid/firmware.h"
#include "driver/megaraid/reply_queue.h"
#include "driver/megaraid/route.h"
#include "driver/megaraid/sg_list.h"
#include "driver/megaraid/unit.h"
#include "pci/bar.h"
#include "pci/dma_space.h"
#include "pci/dma_transfer.h"
#include "wire/megaraid_mfi.h"
#include "wire/scsi.h"

#include <mqblk/error.h>

#include <cstdint>
#include <memory>

namespace mqblk::driver::megaraid {

/// Data of a command of the driver's own.
struct Transfer {
    std::uint64_t address = 0;
    std::uint32_t bytes = 0;
    bool to_firmware = false;
};

/// A request that goes to the firmware as command `smid`.
struct IoCommand {
    const block::Request& request;
    const Unit& unit;
    const Gathered& gathered;
    const pci::BouncePool* bounce;  ///< null: there is none
    std::uint16_t smid;
    std::uint8_t vector;  ///< the reply queue to answer in
    bool direct;          ///< the map may be followed
};

/// What the firmware said at a command's end. Read from its memory once.
struct Answered {
    std::uint8_t status = 0;       ///< MfiStatus, or TaskResponse
    std::uint8_t scsi_status = 0;  ///< of a SCSI command
    bool all = true;               ///< of a request: its data were moved as a whole
    bool ended = true;             ///< else the command is still the firmware's, whatever its reply queue says
};

/// The driver's own commands are the control reactor's; requests those of the thread whose queue they are of. Posting
/// is a register write that any thread may make at any time.
class CommandPort {
  public:
    /// `bar` outlives it.
    [[nodiscard]] static std::unique_ptr<CommandPort> create(const pci::Bar& bar,
                                                             wire::megaraid::Generation generation);
    virtual ~CommandPort() = default;
    CommandPort(const CommandPort&) = delete;
    CommandPort& operator=(const CommandPort&) = delete;

    // Control path; the queues stand still or are not there yet.

    /// Once: memory for commands of those limits, and for so many reply queues.
    [[nodiscard]] Result<> allocate(pci::DmaSpace& space, const Limits& limits, unsigned queues);
    [[nodiscard]] CommandMemory& memory() const noexcept { return *memory_; }
    [[nodiscard]] virtual ReplyQueue& replies(unsigned vector) noexcept = 0;
    /// Empties the reply queues and posts INIT, which init_status() tells of. `vectors`: of MSI-X, 0 for another kind.
    virtual void begin_init(const Limits& limits, unsigned vectors) noexcept = 0;
    [[nodiscard]] std::uint8_t init_status() const noexcept;

    // The driver's own commands.

    virtual void send_dcmd(std::uint16_t smid, std::uint32_t opcode, const wire::megaraid::Mailbox& mailbox,
                           const Transfer& data) noexcept = 0;
    /// A command to a disk that reads, if it has data.
    virtual void send_scsi(std::uint16_t smid, const Route& route, bool direct, const wire::scsi::Cdb& cdb,
                           const Transfer& data) noexcept = 0;
    /// Whether send_task() of that kind can be answered.
    [[nodiscard]] virtual bool has_task(const Route& route, wire::megaraid::TaskType type) const noexcept = 0;
    virtual void send_task(std::uint16_t smid, const Route& route, wire::megaraid::TaskType type,
                           std::uint16_t task_smid) noexcept = 0;
    [[nodiscard]] virtual Answered read_internal(std::uint16_t smid) noexcept = 0;

    // Requests.

    virtual void send(const IoCommand& command) noexcept = 0;
    [[nodiscard]] virtual Answered read(const block::Request& request, std::uint16_t smid) noexcept = 0;
    /// What was taken for no answer may have been one: the command is late.
    virtual void distrust(std::uint16_t) noexcept {}

  protected:
    explicit CommandPort(const pci::Bar& bar) noexcept : bar_(bar) {}
    [[nodiscard]] virtual CommandMemory::Sizes sizes(const Limits& limits) const noexcept = 0;
    [[nodiscard]] virtual Result<> allocate_replies(pci::DmaSpace& space, const Limits& limits, unsigned queues) = 0;

    // INIT and the message that it names.
    static constexpr std::size_t init_message_offset = 256;
    void write_init(const wire::megaraid::InitFrame& frame, const void* message, std::size_t bytes) noexcept;

    const pci::Bar& bar_;
    std::unique_ptr<CommandMemory> memory_;
    pci::DmaMemory init_memory_;
};

}  // namespace mqblk::driver::megaraid
