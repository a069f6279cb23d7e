// SPDX-License-Identifier: Apache-2.0
//
// Controller: what goes on between the driver and a MegaRAID SAS controller besides requests, the same for all
// generations (command_port.h has what differs): the firmware's start-up, INIT, what it tells of itself, its disks,
// volumes and maps, its events, and recovery. All of that is one coroutine at a time in the control reactor. The
// hardware queues, each on its own thread, come and go; when the control path changes what they read, it closes their
// gates first (hold, release).
#pragma once

#include "base/task.h"
#include "driver/megaraid/command_index.h"
#include "driver/megaraid/command_port.h"
#include "driver/megaraid/firmware.h"
#include "driver/megaraid/internal_commands.h"
#include "driver/megaraid/options.h"
#include "driver/megaraid/registers.h"
#include "driver/megaraid/shared_replies.h"
#include "driver/megaraid/unit.h"
#include "pci/function.h"
#include "reactor/reactor.h"
#include "wire/megaraid_info.h"

#include <mqblk/error.h>
#include <mqblk/status.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace mqblk::driver::megaraid {

class IoQueue;

/// A command that was not answered in time.
struct LateCommand {
    std::uint16_t smid = 0;
    std::uint32_t use = 0;  ///< CommandMemory::use: it has ended when that has changed
    Route route{};
};

class Controller {
  public:
    /// Registers; the firmware is left alone. The error names the function and the remedy. In the control reactor.
    [[nodiscard]] static Result<std::unique_ptr<Controller>> create(std::unique_ptr<pci::Function> function,
                                                                    Reactor& control, const Options& options);
    ~Controller();  ///< stop() has ended; there is no queue
    Controller(const Controller&) = delete;
    Controller& operator=(const Controller&) = delete;

    // In the control reactor. Both are bounded by the options.

    /// Until the disks and volumes are known.
    [[nodiscard]] Task<Result<>> start();
    /// Caches are written, nothing touches memory any more. There is no queue.
    [[nodiscard]] Task<void> stop();

    // The queues', any thread.

    void attach(IoQueue& queue);
    void detach(IoQueue& queue, std::unique_ptr<pci::Interrupt> interrupt) noexcept;
    [[nodiscard]] Result<std::unique_ptr<pci::Interrupt>> make_interrupt(unsigned vector, Reactor& reactor,
                                                                         std::function<void()> raised);
    [[nodiscard]] CommandPort& port() const noexcept { return *port_; }
    [[nodiscard]] CommandMemory& memory() const noexcept { return port_->memory(); }
    /// The one reply queue, where there is one for everything; else null.
    [[nodiscard]] SharedReplies* shared() const noexcept { return shared_.get(); }
    /// The queue on the shared reply queue polls no more: the interrupt is armed.
    void listen();
    /// It has found an answer of the control path's.
    void found_internal(std::uint16_t smid) noexcept;
    [[nodiscard]] const pci::Bar& bar() const noexcept { return bar_; }
    [[nodiscard]] const Options& options() const noexcept { return options_; }
    void late(const LateCommand& command) noexcept;
    void note_mismatch() noexcept;
    void note_sent_again() noexcept { counters_.sent_again.fetch_add(1, std::memory_order_relaxed); }
    // Within a queue's gate:
    /// Grows with each reset.
    [[nodiscard]] std::uint32_t epoch() const noexcept { return epoch_.load(std::memory_order_relaxed); }
    [[nodiscard]] const std::shared_ptr<FewerCommands>& fewer() const noexcept { return fewer_; }
    /// Nothing is sent any more; requests end with failure().
    [[nodiscard]] bool given_up() const noexcept { return given_up_.load(std::memory_order_relaxed); }
    [[nodiscard]] Status failure() const noexcept { return failure_.load(std::memory_order_relaxed); }

    // After start(); any thread.

    [[nodiscard]] unsigned queues() const noexcept { return queues_wanted_; }
    [[nodiscard]] unsigned max_sges() const noexcept { return limits_.sges; }
    [[nodiscard]] std::uint32_t max_bytes() const noexcept { return max_bytes_; }
    /// A disk or volume that is there: fn(Unit&) under the lock. False: there is none of that name.
    template <class Fn>
    bool with_unit(Kind kind, unsigned id, Fn&& fn) {
        const std::lock_guard lock(mutex_);
        Unit* const unit = find_unit(kind, id);
        if (unit == nullptr || !unit->present) return false;
        fn(*unit);
        return true;
    }
    template <class Fn>
    void for_each_present(Fn&& fn) {
        const std::lock_guard lock(mutex_);
        for (const auto& unit : units_)
            if (unit->present) fn(*unit);
    }
    [[nodiscard]] std::vector<std::pair<std::string, std::string>> details() const;
    /// Why there is nothing, where there is nothing; and the remedy.
    [[nodiscard]] const char* why_empty() const;
    [[nodiscard]] const std::string& name() const noexcept { return function_->name(); }

    struct Counters {
        std::atomic<std::uint64_t> resets{0}, aborts{0}, target_resets{0}, mismatches{0}, sent_again{0}, events{0};
    };
    [[nodiscard]] const Counters& counters() const noexcept { return counters_; }

  private:
    Controller(std::unique_ptr<pci::Function> function, pci::Bar bar, Reactor& control, const Options& options,
               wire::megaraid::Generation generation);

    // controller_start.cpp: from any state to an initialized firmware.
    [[nodiscard]] Task<Result<>> bring_to_ready(bool resetting);
    [[nodiscard]] Task<Result<>> wait_until_idle();
    [[nodiscard]] Result<> prepare_memory();
    [[nodiscard]] Task<Result<>> initialize();
    void mask_interrupts(bool masked) noexcept { registers_.mask_interrupts(bar_, masked); }
    [[nodiscard]] Task<void> sleep(Duration duration);

    // controller_interrupts.cpp: which kind, and who looks for answers.
    [[nodiscard]] Result<> choose_interrupts();
    [[nodiscard]] Result<> enable_interrupts();
    void raised();
    void arm();
    void listen_again();
    [[nodiscard]] bool queue_is_idle() noexcept;
    void drain();
    void drain_shared();

    // controller_scan.cpp: what it tells.
    [[nodiscard]] Task<Result<>> read_controller_info();
    [[nodiscard]] Task<Result<>> read_maps();
    [[nodiscard]] Task<Result<>> scan();
    [[nodiscard]] Task<Result<std::vector<std::uint16_t>>> list_disks(wire::megaraid::PdQuery query);
    [[nodiscard]] Task<bool> find_foreign();
    [[nodiscard]] Task<Result<std::vector<std::uint16_t>>> list_volumes();
    [[nodiscard]] Task<Result<std::vector<std::uint16_t>>> list_volumes_with_states();
    [[nodiscard]] Task<Result<Outcome>> ask(const char* what, std::uint32_t opcode, wire::megaraid::Mailbox mailbox,
                                            std::uint32_t bytes);
    [[nodiscard]] Task<void> take_present(Kind kind, std::vector<std::uint16_t> ids);
    enum class Asked : std::uint8_t { usable, unusable, another };
    [[nodiscard]] Task<Asked> ask_unit(Unit& unit);
    [[nodiscard]] Task<bool> ask_identity(const Unit& unit);
    [[nodiscard]] Task<void> check_taken();
    void remove_unit(Unit& unit);
    [[nodiscard]] Task<void> ask_pages(const Unit& unit, UnitFacts& facts);
    [[nodiscard]] Task<Outcome> ask_scsi(const Unit& unit, wire::scsi::Cdb cdb, std::uint32_t bytes);
    void update_device(Unit& unit);
    void let_go(std::vector<std::shared_ptr<Device>> devices);
    Unit& unit_for(Kind kind, std::uint16_t id);
    [[nodiscard]] Unit* find_unit(Kind kind, unsigned id) const noexcept;
    void set_routes();
    void take_ld_map(std::span<const std::byte> bytes);
    void take_pd_map(std::span<const std::byte> bytes);

    // controller_watch.cpp: what happens while it is in use.
    [[nodiscard]] Task<void> watch();
    [[nodiscard]] Task<void> wait_for_work();
    void signal() noexcept;
    void tick();
    [[nodiscard]] Task<void> start_events();
    void wait_for_event();
    void wait_for_maps();
    [[nodiscard]] Task<void> take_event(std::uint8_t status);
    [[nodiscard]] Task<void> recover_command(const LateCommand& command);
    [[nodiscard]] bool take_late();
    [[nodiscard]] Task<bool> end_by_task(const LateCommand& command, wire::megaraid::TaskType type);
    [[nodiscard]] bool is_late(const LateCommand& command) const noexcept;

    // controller_reset.cpp.
    void want_reset(const char* why) noexcept;
    [[nodiscard]] Task<void> reset_controller();
    [[nodiscard]] Task<Result<>> try_reset();
    [[nodiscard]] bool reset_permitted() const noexcept;
    [[nodiscard]] Task<Result<>> reset_by_diagnostic();
    [[nodiscard]] Result<> take_limits(const Limits& limits);
    [[nodiscard]] Task<void> give_up(std::string why);
    void hold() noexcept;  ///< nests
    void release();

    const Options options_;
    Reactor& reactor_;
    const std::unique_ptr<pci::Function> function_;
    const pci::Bar bar_;
    const Registers registers_;
    const std::unique_ptr<CommandPort> port_;
    Limits limits_;
    unsigned queues_wanted_ = 1;
    unsigned vectors_ = 1;  ///< and reply queues; 0 is the control path's, or everybody's
    std::uint32_t max_bytes_ = 0;
    const wire::megaraid::Generation generation_;
    pci::InterruptType interrupt_type_ = pci::InterruptType::none;
    bool vectors_enabled_ = false;
    pci::DmaMemory work_, ld_map_, pd_map_, event_;
    InternalCommands internal_;
    std::unique_ptr<SharedReplies> shared_;  ///< null: each queue has a reply queue
    std::unique_ptr<pci::Interrupt> interrupt_;

    // What the queues read within their gates.
    std::atomic<std::uint32_t> epoch_{1};
    std::atomic<bool> given_up_{false};
    std::atomic<Status> failure_{Status::io_error};
    std::shared_ptr<FewerCommands> fewer_;

    std::mutex queues_mutex_;  ///< queues_, holds_
    std::vector<IoQueue*> queues_;
    unsigned holds_ = 0;  ///< the gates are closed while there are any
    std::mutex interrupts_mutex_;

    mutable std::mutex mutex_;  ///< units_, info_
    std::vector<std::unique_ptr<Unit>> units_;
    wire::megaraid::ControllerInfo info_{};
    bool foreign_ = false;                              ///< nothing is there but disks of another controller
    bool extended_ = false;                             ///< 256 volumes, and maps for them
    std::vector<std::byte> ld_map_copy_, pd_map_copy_;  ///< the latest that were valid; empty: none
    bool ld_map_wanted_ = false, pd_map_wanted_ = false;

    // The watch's.
    bool watching_ = false;                    ///< the tick looks at the firmware
    bool stopping_ = false, running_ = false;  ///< the watch is to end; has not ended
    bool operational_ = false;                 ///< the firmware takes commands
    bool collected_ = false;                   ///< the queues have their answers of before a reset, and sent none since
    const char* reset_why_ = nullptr;          ///< a reset is wanted
    std::mutex late_mutex_;
    std::deque<LateCommand> late_;
    LateCommand recovering_;
    Promise<bool>* idle_ = nullptr;
    bool signalled_ = false;
    std::uint32_t next_event_ = 0;
    bool events_known_ = false;
    Timer tick_;
    Counters counters_;
    const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< for what was posted
};

}  // namespace mqblk::driver::megaraid
