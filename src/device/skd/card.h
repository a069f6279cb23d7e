// SPDX-License-Identifier: Apache-2.0
//
// Card: an sTec S1120 as its driver sees it, with any Device as its flash. Registers and interrupts, the firmware's
// start-up handshake and states, FIT messages with their SCSI requests, the completion ring. One reactor's: everything
// runs on its thread. What real firmware does where no source says so is the least surprising thing for the drivers
// that exist; wire/skd.h has what is known.
//
// Commands end in any order. A soft reset drops them without completions, and is over when none of them can touch the
// host's memory any more.
#pragma once

#include "device/skd/completion_ring.h"
#include "device/skd/fault.h"
#include "device/skd/interrupts.h"
#include "device/skd/slot.h"
#include "device/skd/timing.h"
#include "pci/model.h"
#include "reactor/reactor.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mqblk::device::scsi {
class LogicalUnit;
class Nexus;
}  // namespace mqblk::device::scsi

namespace mqblk::device::skd {

struct Options {
    std::string serial;  ///< as check_serial() wants it; empty: the disk's own, or one made from its name
    Profile profile = Profile::none;
    std::uint16_t max_commands = 256;               ///< what the card says it takes; it takes 256 whatever it says
    std::uint8_t protocol = 0x10;                   ///< major and minor; drivers want major 1
    std::optional<Duration> boot_time, reset_time;  ///< instead of the profile's
    std::vector<Fault> faults;
};

/// Whether the card's field has room for it: up to 12 printable ASCII characters. The error is for who wrote it.
[[nodiscard]] Result<> check_serial(std::string_view serial);

class Card final : public pci::Model, Poller {
  public:
    /// The error names what is wrong with the disk or an option: blocks must be of 512 bytes, 2^32 at most, and
    /// writable; faults must be within them.
    [[nodiscard]] static Result<std::unique_ptr<Card>> create(std::shared_ptr<Device> disk, Options options);
    Card(std::shared_ptr<scsi::LogicalUnit>, Options);  ///< for create()
    ~Card() override;

    // pci::Model.
    [[nodiscard]] const pci::FunctionSpec& spec() const noexcept override { return spec_; }
    [[nodiscard]] Result<> attach(pci::Host& host) override;
    [[nodiscard]] std::uint64_t bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept override;
    void bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept override;
    /// Nothing is left to reset in a card that is out of its slot: it is powered on when it is put in.
    void reset() noexcept override {
        if (!out_) power_on();
    }
    [[nodiscard]] bool quiet() const noexcept override { return running_ == 0; }
    void interrupts_changed() noexcept override { interrupts_.type_changed(); }

    // For tests and simulations, on the card's thread.
    void inject(const Fault& fault) { faults_.add(fault); }
    void heal() noexcept { faults_.clear(); }
    /// Enters a state, tells the host, and for a `duration` other than zero goes online again after it. States without
    /// a working firmware (fault, offline, booting) drop what is outstanding. `soft_reset` is the firmware's own
    /// restart.
    void enter(wire::skd::DriveState state, Duration duration = {}) noexcept;
    /// Pulls the card out, and puts it in again after `duration` if that is not zero.
    void pull_out(Duration duration = {}) noexcept;
    void put_in() noexcept;

    struct Counters {
        std::uint64_t doorbells = 0, overruns = 0;
        std::uint64_t commands = 0;     ///< SCSI requests taken
        std::uint64_t completions = 0;  ///< entries posted
        std::uint64_t dropped = 0;      ///< by resets and states
        std::uint64_t copied = 0;       ///< whose data was copied, as the disk could not work on the host's memory
    };
    [[nodiscard]] const Counters& counters() const noexcept { return counters_; }
    [[nodiscard]] wire::skd::DriveState state() const noexcept { return state_; }
    [[nodiscard]] unsigned in_flight() const noexcept { return slots_.used(); }

  private:
    static constexpr unsigned fifo_entries = 256;

    // Poller.
    unsigned poll() noexcept override;
    bool prepare_sleep() noexcept override;

    // registers.cpp
    [[nodiscard]] std::uint32_t read_register(unsigned offset) const noexcept;
    void write_register(unsigned offset, std::uint32_t value) noexcept;
    void write_control(std::uint32_t value) noexcept;
    void ring_doorbell(std::uint64_t value) noexcept;

    // firmware.cpp: mailbox and states.
    void take_message(std::uint32_t word) noexcept;
    void answer(std::uint32_t word) noexcept;
    void power_on() noexcept;
    void soft_reset() noexcept;
    void set_state(wire::skd::DriveState state) noexcept;
    void restart_after(Duration time) noexcept;
    unsigned advance_firmware() noexcept;
    void alarm() noexcept;
    [[nodiscard]] bool firmware_listens() const noexcept;
    [[nodiscard]] bool takes_commands() const noexcept;
    void drop_all() noexcept;
    /// The host's memory is not what it said: no card goes on from there.
    void fatal(const char* what) noexcept;

    // commands.cpp: from a doorbell to the disk.
    [[nodiscard]] bool can_take() const noexcept;
    unsigned take_doorbells() noexcept;
    void take_fit_message(std::uint64_t doorbell) noexcept;
    void take_request(const wire::skd::ScsiRequest& request, bool malformed) noexcept;
    /// False: the command ends as the fault says.
    [[nodiscard]] bool meet_faults(Slot& slot) noexcept;
    void gather(Slot& slot, const wire::skd::ScsiRequest& request, const scsi::Plan& plan) noexcept;
    void gather_by_copy(Slot& slot) noexcept;
    void copy_memory_granted(Slot& slot) noexcept;
    void execute(Slot& slot) noexcept;
    void refuse(Slot& slot, wire::scsi::SenseKey key, std::uint16_t code) noexcept;

    // completions.cpp: from the disk to the ring.
    void finish(Slot& slot) noexcept;
    void tell(Slot& slot) noexcept;
    void tell_later(Slot& slot) noexcept;
    void release(Slot& slot) noexcept;
    unsigned tell_delayed() noexcept;
    void set_due(Slot& slot) noexcept;

    const std::shared_ptr<scsi::LogicalUnit> unit_;
    const Options options_;
    const pci::FunctionSpec spec_;
    pci::Host* host_ = nullptr;

    // The data path's.
    wire::skd::DriveState state_ = wire::skd::DriveState::fw_booting;
    bool posted_ = false;  ///< entries, and no interrupt yet
    unsigned running_ = 0;
    unsigned work_ = 0;  ///< of this pass: SG descriptors, and data in pages
    unsigned fifo_first_ = 0, fifo_count_ = 0;
    std::array<std::uint64_t, fifo_entries> fifo_{};
    CompletionRing ring_;
    Interrupts interrupts_;
    Timing timing_;
    FaultList faults_;
    std::optional<Fault> striking_;  ///< a fault of the whole card, when the message is taken
    Counters counters_;
    SlotTable slots_;
    DelayedSlots delayed_;
    Timer delay_timer_;
    std::unique_ptr<memory::BufferPool> copy_pool_;

    // The firmware's.
    std::uint32_t control_ = 0;  ///< without the bits that act at once
    std::uint32_t message_from_device_ = 0;
    std::uint32_t doorbell_low_ = 0;  ///< of a 64-bit register written in halves
    std::uint64_t argument_ = 0;
    bool restarting_ = false;  ///< will be in state init when nothing runs and restart_time_ has come
    bool arming_ = false;      ///< will be online in the next pass
    bool armed_ = false;       ///< the ring is in use
    bool out_ = false;         ///< of its slot
    Time restart_time_{};
    std::optional<wire::skd::DriveState> passing_state_;  ///< ends with alarm_
    Timer alarm_;

    std::unique_ptr<scsi::Nexus> nexus_;  ///< its end runs completions
};

}  // namespace mqblk::device::skd
