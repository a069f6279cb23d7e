// SPDX-License-Identifier: Apache-2.0
//
// Keeper: changes who the members of an array are, and writes down what must be on media before the data path may go
// on. One coroutine on the home thread does both, one thing after another, so superblocks and write-intent blocks are
// never written by two at once. Rebuilding and scrubbing run beside it (maintenance.cpp).
#pragma once

#include "base/task.h"
#include "driver/raid/array.h"
#include "driver/raid/member_io.h"
#include "reactor/signal.h"

#include <mqblk/error.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace mqblk::driver::raid {

/// How far something in the background is. Any thread reads.
struct Progress {
    std::atomic<bool> running{false};
    std::atomic<std::uint64_t> done{0}, all{0};  ///< stripes
    std::atomic<std::uint64_t> repaired{0};      ///< blocks of 512 bytes put right
    std::atomic<std::uint64_t> failed{0};        ///< stripes that could not be
};

/// Home thread, but for what says otherwise.
class Keeper {
  public:
    /// Without anything written for so long, a region's write-intent bit is taken back.
    static constexpr Duration idle_time = std::chrono::seconds(5);

    /// `io` has the members open.
    Keeper(std::shared_ptr<Array> array, std::unique_ptr<MemberIo> io, const Superblock& superblock,
           std::uint64_t intent_sequence, std::string name);
    ~Keeper();
    Keeper(const Keeper&) = delete;
    Keeper& operator=(const Keeper&) = delete;

    /// Writes the first configuration down and opens the array; then keeps it until stop().
    [[nodiscard]] Task<Result<>> start(std::unique_ptr<Config> first);
    /// Ends what runs in the background, then leaves all members as clean as they can be; false: ask again later, once
    /// the reactor has been turned.
    [[nodiscard]] bool stop();

    /// There may be something to do.
    void look() noexcept { wake_.notify(); }
    /// `device` takes the place of a member, which is rebuilt onto it.
    void replace(unsigned member, std::shared_ptr<Device> device);
    /// Checks all stripes. No effect if that goes on already.
    void scrub();
    [[nodiscard]] bool journal_always() const noexcept { return journal_always_; }

    // Any thread.
    Progress rebuild_progress, scrub_progress;

  private:
    class HomeParticipant final : public Array::Participant {
      public:
        explicit HomeParticipant(Keeper& keeper) : keeper_(keeper) {}
        void look_again() noexcept override { keeper_.array_->call_keeper(); }

      private:
        Keeper& keeper_;
    };
    friend class StripeHold;

    Task<void> run();
    Task<void> reconfigure();
    struct Replacement {
        unsigned member;
        std::shared_ptr<Device> device;
    };
    [[nodiscard]] Config changed(const std::vector<Replacement>& replaced, Mask rebuilt) const;
    [[nodiscard]] Task<Mask> write_superblocks(const Config& config, Mask members);
    [[nodiscard]] Task<Mask> clear_superblocks(Mask members, unsigned place);
    Task<void> set_wanted_regions();
    Task<void> clear_idle_regions();
    [[nodiscard]] Task<Mask> write_intent();
    [[nodiscard]] bool wants_reconfiguring() const noexcept;
    void announce(const Config& before, const Config& after) const;
    Task<void> leave_clean();
    void wake_held();

    // maintenance.cpp
    void start_rebuilding();
    Task<void> rebuild(Mask members);
    Task<void> rebuild_some(Mask members, bool& failed);
    Task<bool> rebuild_stripe(std::uint64_t stripe, Mask members, std::byte* memory);
    Task<void> scrub_all();
    Task<void> scrub_stripe(std::uint64_t stripe, std::byte* memory);
    Task<void> repair_stripe(std::uint64_t stripe, std::byte* memory);
    Task<void> hold(StripeLock& lock, std::uint64_t stripe);
    Task<void> enter();
    void let_go(StripeLock& lock);
    void begin_task() noexcept { ++tasks_; }
    void end_task() noexcept {
        --tasks_;
        wake_.notify();
    }

    const std::shared_ptr<Array> array_;
    const std::unique_ptr<MemberIo> io_;
    Reactor& home_;
    const std::string name_;
    Superblock superblock_;  // what does not change with the configuration
    const bool journal_always_;
    IntentBlock intent_;
    memory::Buffer blocks_;  // one for each member
    Signal wake_;
    HomeParticipant self_;
    std::vector<Promise<bool>*> held_;  // at the gate
    std::vector<Replacement> replacements_;
    Mask rebuilt_ = 0;  // to be counted in
    std::uint64_t rebuild_cursor_ = 0;
    std::uint32_t rebuild_round_ = 0;  // grows when a member is replaced: what was rebuilt so far is not what is there
    bool rebuild_again_ = false;
    Time next_clearing_ = never;
    unsigned tasks_ = 0;
    bool stopping_ = false, stopped_ = false;
    bool first_ = true;
};

}  // namespace mqblk::driver::raid
