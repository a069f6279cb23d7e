// SPDX-License-Identifier: Apache-2.0
//
// Controller: a MegaRAID SAS controller of the Fusion generation as its driver sees it, with any Devices as its disks
// and volumes. Registers, firmware states and resets, request descriptors, reply queues, management frames, events,
// task management. What real firmware does where no source says so is the least surprising thing for the drivers that
// exist; src/wire/megaraid*.h have what is known.
//
// Registers are accessed by any thread, as drivers with several queues do: what they write goes into a queue or a word,
// and the firmware, on the reactor's thread, does the rest. Commands end in any order. A reset drops them without
// replies, and is over when none of them can touch the host's memory any more.
#pragma once

#include "device/megaraid/events.h"
#include "device/megaraid/fault.h"
#include "device/megaraid/interrupts.h"
#include "device/megaraid/raid_map.h"
#include "device/megaraid/reply_queue.h"
#include "device/megaraid/request_queue.h"
#include "device/megaraid/slot.h"
#include "device/megaraid/target.h"
#include "pci/model.h"
#include "reactor/reactor.h"
#include "wire/megaraid.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mqblk::device::megaraid {

struct Options {
    std::uint16_t device_id = wire::megaraid::pci_device::invader;
    std::string serial = "MQBLK0001";
    unsigned max_commands = 1008;       ///< that the firmware says it takes, 32 to 1008
    unsigned reply_queues = 16;         ///< MSI-X vectors, 1 to 128; Thunderbolt has no more than 16
    unsigned chain_frame_bytes = 4096;  ///< 1024 or 4096
    bool extended_maps = true;          ///< RAID maps for 256 volumes, for drivers that know them
    bool fast_path = true;              ///< … say that drivers may go to the disks themselves
    bool task_management = true;        ///< disks and volumes take aborts
    bool online_reset = true;           ///< the firmware lets drivers reset the controller
    bool foreign = false;               ///< disks of their own have another controller's marks: hosts get none
    Duration reset_time{};              ///< until the firmware is ready again
    std::vector<Fault> faults{};
};

class Controller final : public pci::Model, Poller {
  public:
    /// The error names the device or option and what is wrong with it.
    [[nodiscard]] static Result<std::unique_ptr<Controller>> create(std::vector<std::shared_ptr<Device>> disks,
                                                                    const std::vector<VolumeSpec>& volumes,
                                                                    Options options);
    explicit Controller(Options);  ///< for create()
    ~Controller() override;

    // pci::Model.
    [[nodiscard]] const pci::FunctionSpec& spec() const noexcept override { return spec_; }
    [[nodiscard]] Result<> attach(pci::Host& host) override;
    [[nodiscard]] std::uint64_t bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept override;
    void bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept override;
    void reset() noexcept override { power_on(); }
    [[nodiscard]] bool quiet() const noexcept override { return running_ == 0; }
    void interrupts_changed() noexcept override { interrupts_.type_changed(); }

    // For tests, simulations and who owns the disks, on the controller's thread.
    void inject(const Fault& fault) { faults_.add(fault); }
    /// A fault of a disk or volume that is not there would never strike.
    [[nodiscard]] Result<> check(const Fault& fault) const;
    void heal() noexcept { faults_.clear(); }
    /// The firmware goes to state FAULT; a reset helps unless it is `permanent`.
    void fault(bool permanent = false) noexcept;
    /// Pulls a disk of its own out, and puts it in again after `duration` if that is not zero.
    void pull_disk(unsigned device_id, Duration duration = {}) noexcept;
    void put_disk(unsigned device_id) noexcept;
    /// A new disk of its own; its device id.
    [[nodiscard]] Result<unsigned> add_disk(std::shared_ptr<Device> device);
    void set_volume_present(unsigned target_id, bool present) noexcept;

    struct Counters {
        std::uint64_t requests = 0;   ///< descriptors taken
        std::uint64_t taken = 0;      ///< of them, that got a slot
        std::uint64_t replies = 0;    ///< posted
        std::uint64_t dropped = 0;    ///< by resets and faults
        std::uint64_t fast_path = 0;  ///< I/O that came by a disk's handle
        std::uint64_t copied = 0;     ///< whose data was copied, as the disk could not work on the host's memory
        std::uint64_t aborted = 0;    ///< by task management
        std::uint64_t resets = 0;
        std::uint64_t breaches = 0;  ///< by a host that did what it may not
    };
    [[nodiscard]] const Counters& counters() const noexcept { return counters_; }
    [[nodiscard]] wire::megaraid::State state() const noexcept {
        return wire::megaraid::state_of(scratch_pad_.load(std::memory_order_relaxed));
    }
    [[nodiscard]] unsigned in_flight() const noexcept { return slots_.used(); }
    [[nodiscard]] const Topology& topology() const noexcept { return topology_; }

  private:
    /// What a host's thread asks of the firmware by a register.
    enum Ask : std::uint32_t { ask_ready = 1, ask_reset = 2, ask_stop = 4, ask_changes = 8 };

    // Poller.
    unsigned poll() noexcept override;
    bool prepare_sleep() noexcept override;
    void look_awake() noexcept;

    [[nodiscard]] Result<> open_target(Target& target);

    // registers.cpp; any thread.
    [[nodiscard]] std::uint32_t read_register(unsigned offset) const noexcept;
    void write_register(unsigned offset, std::uint32_t value) noexcept;
    void write_sequence(std::uint32_t key) noexcept;
    void write_reply_index(unsigned offset, std::uint32_t value) noexcept;
    void post_request(std::uint64_t descriptor) noexcept;
    void ask(std::uint32_t what) noexcept;

    // firmware.cpp: states and resets.
    void set_state(wire::megaraid::State state, std::uint32_t low = 0) noexcept;
    void power_on() noexcept;
    void restart(wire::megaraid::State meanwhile, Duration time) noexcept;
    unsigned take_asked() noexcept;
    unsigned advance_firmware() noexcept;
    void drop_all() noexcept;
    void fail_firmware(bool permanent) noexcept;
    /// The host does what it may not: no firmware goes on from there.
    void breach(const char* what) noexcept;
    void breach(Slot& slot, const char* what) noexcept;  ///< in this request, which cannot be answered
    void take_init(std::uint64_t address) noexcept;
    [[nodiscard]] wire::megaraid::MfiStatus initialize(std::uint64_t address) noexcept;

    // requests.cpp: from a descriptor to what it asks for.
    unsigned take_requests() noexcept;
    void take_request(std::uint64_t descriptor) noexcept;
    void strike_firmware_faults() noexcept;
    void dispatch(Slot& slot, const wire::megaraid::ScsiIoRequest& request) noexcept;

    // io.cpp: from a request to the disk.
    void take_io(Slot& slot, const wire::megaraid::ScsiIoRequest& request, bool fast) noexcept;
    [[nodiscard]] wire::megaraid::MfiStatus find_target(Slot& slot, const wire::megaraid::ScsiIoRequest& request,
                                                        bool fast) noexcept;
    [[nodiscard]] bool to_volume(Slot& slot, unsigned arm) noexcept;
    /// False: the command ends as the fault says.
    [[nodiscard]] bool meet_faults(Slot& slot) noexcept;
    void gather(Slot& slot, const wire::megaraid::ScsiIoRequest& request, const scsi::Plan& plan) noexcept;
    void gather_by_copy(Slot& slot) noexcept;
    void copy_memory_granted(Slot& slot) noexcept;
    void execute(Slot& slot) noexcept;
    void fail_with(Slot& slot, wire::megaraid::MfiStatus status) noexcept;
    void refuse(Slot& slot, wire::scsi::SenseKey key, std::uint16_t code) noexcept;

    // replies.cpp: from the disk to the reply queue.
    void finish(Slot& slot) noexcept;
    void tell(Slot& slot) noexcept;
    void tell_sense(const Slot& slot) noexcept;
    void post_reply(Slot& slot) noexcept;
    void post(std::uint8_t vector, std::uint16_t smid) noexcept;
    void tell_again(std::uint8_t vector, std::uint16_t smid, Duration later) noexcept;
    unsigned tell_echoes() noexcept;
    void release(Slot& slot) noexcept;
    unsigned tell_delayed() noexcept;
    void delay(Slot& slot) noexcept;

    // tasks.cpp: task management.
    void take_task(Slot& slot, const wire::megaraid::ScsiIoRequest& request) noexcept;
    void abort_command(Slot& slot) noexcept;
    void answer_task(Slot& slot, wire::megaraid::TaskResponse response) noexcept;
    void look_at_tasks() noexcept;

    // management.cpp: MFI frames.
    void take_management(Slot& slot, const wire::megaraid::ScsiIoRequest& request) noexcept;
    void execute_management(Slot& slot) noexcept;
    void execute_dcmd(Slot& slot) noexcept;
    void execute_abort(Slot& slot) noexcept;
    void answer(Slot& slot, wire::megaraid::MfiStatus status) noexcept;
    /// Answers with data, as much of it as there is room for.
    void answer_with(Slot& slot, std::span<const std::byte> data) noexcept;
    template <class T>
    void answer_struct(Slot& slot, const T& data) noexcept {
        answer_with(slot, std::as_bytes(std::span(&data, 1)));
    }
    [[nodiscard]] bool put_data(const Slot& slot, std::span<const std::byte> data) noexcept;
    void pend(Slot& slot) noexcept;
    void flush_disks(Slot& slot) noexcept;
    void start_flush() noexcept;
    void flushed() noexcept;

    // lists.cpp: what DCMDs tell.
    void tell_controller_info(Slot& slot) noexcept;
    void tell_pd_list(Slot& slot) noexcept;
    void tell_pd_info(Slot& slot) noexcept;
    void tell_ld_list(Slot& slot) noexcept;
    void tell_target_list(Slot& slot) noexcept;
    void tell_target_properties(Slot& slot) noexcept;
    void tell_map(Slot& slot) noexcept;
    void tell_pd_map(Slot& slot) noexcept;
    using MapBuilder = std::vector<std::byte> (*)(const Topology&, const MapOptions&);
    void tell_map(Slot& slot, bool pended, std::uint32_t& told, MapBuilder build) noexcept;
    void tell_events(Slot& slot) noexcept;

    // changes.cpp: disks that come, go and change.
    void look_for_changes() noexcept;
    void changed(Target& target, std::uint32_t code, const char* text) noexcept;
    void wake_pended() noexcept;
    void put_back() noexcept;

    const Options options_;
    const pci::FunctionSpec spec_;
    pci::Host* host_ = nullptr;

    // Written by the host's threads.
    RequestQueue requests_;
    std::atomic<bool> sleeping_{false};
    std::atomic<std::uint32_t> asked_{0};
    std::atomic<bool> overrun_{false};
    std::atomic<std::uint32_t> scratch_pad_{0};
    std::atomic<std::uint32_t> port_low_{0};  ///< of a descriptor written in halves
    std::atomic<std::uint32_t> diag_{0};      ///< HostDiag
    std::atomic<unsigned> keys_{0};           ///< how many of diag_keys have come in order
    std::atomic<bool> busy_{false};           ///< on the way back to ready
    Interrupts interrupts_;
    ReplyQueues replies_;

    // The data path's.
    std::uint64_t frames_ = 0;      ///< of SMID 0
    std::uint64_t sense_high_ = 0;  ///< in place
    bool extended_ = false;         ///< the driver knows maps for 256 volumes
    unsigned running_ = 0;
    unsigned tasks_waiting_ = 0;
    bool look_at_tasks_ = false;
    Topology topology_;
    SlotTable slots_;
    FaultList faults_;
    Counters counters_;
    DelayedSlots delayed_;
    Timer delay_timer_;
    static constexpr std::size_t max_echoes = 4096;  ///< more replies are not told twice
    struct Echo {
        Time due;
        std::uint8_t vector;
        std::uint16_t smid;
    };
    std::vector<Echo> echoes_;  ///< of replies that are told twice
    Timer echo_timer_;
    std::unique_ptr<memory::BufferPool> copy_pool_;

    // The firmware's.
    unsigned max_commands_;
    std::optional<unsigned> next_max_commands_;  ///< after a reset
    bool restarting_ = false;                    ///< will be ready when nothing runs and restart_time_ has come
    bool dead_ = false;                          ///< no reset helps
    Time restart_time_{};
    Timer restart_timer_;
    EventLog events_;
    std::uint32_t generation_ = 1;  ///< of the configuration
    std::uint32_t map_told_ = 0, pd_map_told_ = 0;
    struct Pulled {
        std::uint16_t disk;
        Time back;
    };
    std::vector<Pulled> pulled_;
    Timer put_back_timer_;

    struct Flush {
        scsi::Command command;
        Controller* controller;
    };
    std::vector<std::unique_ptr<Flush>> flushes_;  ///< one for each target
    unsigned flushing_ = 0;
    std::vector<std::uint16_t> flush_waiting_, flush_served_;  ///< SMIDs
};

}  // namespace mqblk::device::megaraid
