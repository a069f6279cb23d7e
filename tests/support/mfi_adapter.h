// SPDX-License-Identifier: Apache-2.0
//
// A scripted controller of the MFI generation, just enough of one for a driver: registers, INIT, one reply queue, the
// DCMDs of start-up and shutdown, volumes and disks in memory, ABORT, its own kinds of reset. As emulations of such
// cards do, it resets itself when all interrupts are masked. And what can go wrong with firmware, on demand. It checks
// its host too: what a frame says and how it was posted must fit.
//
// Its reactor's thread runs all of it; frames are posted from any thread.
#pragma once

#include "device/scsi/logical_unit.h"
#include "device/scsi/nexus.h"
#include "pci/model.h"
#include "reactor/reactor.h"
#include "wire/megaraid.h"
#include "wire/megaraid_info.h"
#include "wire/megaraid_mfi.h"
#include "wire/megaraid_mfi_queue.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace mqblk::test {

/// What the adapter does to an I/O command's answer, or instead of it.
enum class MfiFault : std::uint8_t {
    none,
    wrong_context,      ///< and later the right one
    wild_context,       ///< of no command at all, and later the right one
    twice,              ///< the same context two times
    producer_past_end,  ///< the index is beyond the ring
    status,             ///< `value` as the frame's status
    scsi_status,        ///< `value` as the SCSI status
    lost,               ///< nothing: it can be aborted
    dies,               ///< nothing, and nothing ever after, until a reset
    faults,             ///< the state is fault from now on, until a reset if there is one
};

struct MfiAdapterOptions {
    std::uint16_t device_id = wire::megaraid::pci_device::sas1078r;
    unsigned commands = 64;
    unsigned sges = 80;
    unsigned msix = 15;  ///< vectors; with any, lists may be IEEE ones
    bool msi = true;
    bool intx = true;
    wire::megaraid::State first_state = wire::megaraid::State::ready;  ///< it stays there if that is not ready
    std::uint8_t init_status = 0;
    bool answers_init = true;
    bool aborts = true;                 ///< else ABORT is refused
    bool resets = true;                 ///< else it never leaves its state
    std::set<std::uint32_t> silent{};   ///< DCMDs that are never answered
    std::set<std::uint32_t> refused{};  ///< and that it does not know
    std::vector<std::shared_ptr<Device>> volumes{}, disks{};
};

class MfiAdapter final : public pci::Model {
  public:
    explicit MfiAdapter(MfiAdapterOptions options);
    ~MfiAdapter() override;

    // On its thread.

    /// Strikes at the next I/O commands, `count` of them, after `skip` others.
    void inject(MfiFault fault, std::uint8_t value = 0, unsigned count = 1, unsigned skip = 0);
    /// The driver is told of something, as event `code`; if it listens.
    void tell_event(std::uint32_t code);
    void set_volumes(std::vector<std::shared_ptr<Device>> volumes);
    /// For what firmware may write: called before each answer, to DCMDs too. True: there is none any more.
    void set_hostile(std::function<bool(MfiAdapter&)> hostile) { hostile_ = std::move(hostile); }

    struct Counters {
        std::uint64_t ld_ios = 0, scsi_ios = 0, flushes = 0, aborts = 0, resets = 0, shutdowns = 0;
        std::uint64_t most_elements = 0;
    };
    [[nodiscard]] const Counters& counters() const noexcept { return counters_; }
    /// What the host did wrong; empty: nothing.
    [[nodiscard]] const std::string& complaint() const noexcept { return complaint_; }
    [[nodiscard]] wire::megaraid::State state() const noexcept { return state_.load(); }
    [[nodiscard]] bool pends_event() const noexcept { return event_frame_ != 0; }

    // For a hostile firmware.
    [[nodiscard]] pci::Host& host() noexcept { return *host_; }
    [[nodiscard]] std::uint64_t ring_address() const noexcept { return ring_.replies; }
    [[nodiscard]] std::uint64_t producer_address() const noexcept { return ring_.producer; }
    [[nodiscard]] unsigned entries() const noexcept { return options_.commands; }
    [[nodiscard]] std::uint64_t last_frame() const noexcept { return last_frame_; }
    void post_context(std::uint32_t context);
    void fault() noexcept { state_ = wire::megaraid::State::fault; }
    /// Something is wrong with the host.
    void complain(const char* what);

    const pci::FunctionSpec& spec() const noexcept override { return spec_; }
    Result<> attach(pci::Host& host) override;
    std::uint64_t bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept override;
    void bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept override;
    void reset() noexcept override;
    bool quiet() const noexcept override { return running_ == 0; }

  private:
    struct Running;
    struct Poll;
    struct Target {
        std::shared_ptr<device::scsi::LogicalUnit> unit;
        std::unique_ptr<device::scsi::Nexus> nexus;
    };

    [[nodiscard]] bool is_skinny() const noexcept;
    [[nodiscard]] std::uint32_t status_bit() const noexcept;
    void take_posted();
    void handle(std::uint32_t posted);
    void init(std::uint64_t address, const wire::megaraid::InitFrame& frame);
    void dcmd(std::uint64_t address, const wire::megaraid::DcmdFrame& frame);
    [[nodiscard]] wire::megaraid::MfiStatus answer_dcmd(const wire::megaraid::DcmdFrame& frame,
                                                        std::vector<std::byte>& data);
    void abort(std::uint64_t address, const wire::megaraid::AbortFrame& frame);
    void io(std::uint64_t address, const wire::megaraid::MfiHeader& header, std::uint32_t posted);
    void move_data(Running& running, bool to_host);
    void strike(MfiFault fault, std::uint8_t value, const Running& running, std::uint8_t status,
                std::uint8_t scsi_status);
    static void executed(device::scsi::Command& command) noexcept;
    void end_io(Running& running);
    void end(std::uint64_t address, std::uint8_t status, std::uint8_t scsi_status, std::uint32_t context);
    [[nodiscard]] std::vector<wire::megaraid::MfiRange> read_list(std::uint64_t address,
                                                                  const wire::megaraid::MfiHeader& header,
                                                                  std::size_t offset);
    [[nodiscard]] std::vector<Target> open_all(const std::vector<std::shared_ptr<Device>>& devices);
    void soft_reset();
    void update_pin() noexcept;

    const MfiAdapterOptions options_;
    pci::FunctionSpec spec_;
    pci::Host* host_ = nullptr;
    std::vector<Target> volumes_, disks_;
    std::unique_ptr<Poll> poll_;
    std::atomic<wire::megaraid::State> state_;
    std::atomic<std::uint32_t> mask_{~0u}, cause_{0};
    std::uint32_t diag_ = 0;
    unsigned keys_ = 0;
    wire::megaraid::MfiQueueInfo ring_{};
    std::uint32_t head_ = 0;
    std::uint32_t epoch_ = 0;  ///< grows with each reset: what was begun before is dropped
    unsigned running_ = 0;
    bool dead_ = false;
    std::uint64_t last_frame_ = 0;
    std::uint64_t event_frame_ = 0;
    wire::megaraid::DcmdFrame event_;
    std::uint32_t sequence_ = 100;
    std::deque<std::pair<MfiFault, std::uint8_t>> faults_;
    std::vector<std::pair<std::uint64_t, std::uint32_t>> lost_;  ///< frames that were never answered, with contexts
    std::function<bool(MfiAdapter&)> hostile_;
    std::mutex posted_mutex_;
    std::vector<std::uint32_t> posted_;
    Counters counters_;
    std::string complaint_;
    const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace mqblk::test

#include "support/mfi_adapter_commands.h"
#include "support/mfi_adapter_registers.h"
