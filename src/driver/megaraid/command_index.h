// SPDX-License-Identifier: Apache-2.0
//
// How a command of a hardware queue gets its SMID: the block layer's tag and one, nothing else, as long as the firmware
// takes as many commands as there are tags. When it takes fewer after a controller reset, the SMIDs that are left are
// given out from a set without a lock, and a command may have to wait. This is the only place that knows.
#pragma once

#include "block/tag_set.h"
#include "driver/megaraid/command_memory.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace mqblk::driver::megaraid {

/// The SMIDs that are left, shared by all queues.
struct FewerCommands {
    explicit FewerCommands(unsigned commands) : smids(commands - reserved_tags), tags(commands + 1) {
        for (auto& tag : tags) tag.store(block::TagSet::none, std::memory_order_relaxed);
    }
    block::TagSet smids;                           ///< + reserved_tags, + 1
    std::vector<std::atomic<std::uint32_t>> tags;  ///< by SMID: whose it is; read for any that the firmware may name
};

/// Of one queue, on its thread.
class CommandIndex {
  public:
    /// All SMIDs are back.
    void use(std::shared_ptr<FewerCommands> fewer) {
        user_.reset();
        fewer_ = std::move(fewer);
        if (fewer_ != nullptr) user_.emplace(fewer_->smids);
    }

    /// 0: none is left now.
    [[nodiscard]] std::uint16_t take(std::uint32_t tag) noexcept {
        if (fewer_ == nullptr) [[likely]]
            return smid_of(tag);
        const std::uint32_t got = user_->get();
        if (got == block::TagSet::none) return 0;
        const std::uint16_t smid = smid_of(got + reserved_tags);
        fewer_->tags[smid].store(tag, std::memory_order_relaxed);
        return smid;
    }
    void put(std::uint16_t smid) noexcept {
        if (fewer_ != nullptr) [[unlikely]]
            user_->put(tag_of(smid) - reserved_tags);
    }
    /// Whose SMID it is; for any SMID that the firmware may name.
    [[nodiscard]] std::uint32_t tag(std::uint16_t smid) const noexcept {
        if (fewer_ == nullptr) [[likely]]
            return tag_of(smid);
        return smid < fewer_->tags.size() ? fewer_->tags[smid].load(std::memory_order_relaxed) : block::TagSet::none;
    }

    /// After take() gave none: `wake` runs once, on any thread, when one comes free. False: one has come free.
    bool wait(void (*wake)(void*) noexcept, void* context) noexcept {
        return user_.has_value() && user_->wait(wake, context);
    }
    void cancel_wait() noexcept {
        if (user_) user_->cancel_wait();
    }

  private:
    std::shared_ptr<FewerCommands> fewer_;
    std::optional<block::TagSet::User> user_;
};

}  // namespace mqblk::driver::megaraid
