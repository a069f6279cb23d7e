// SPDX-License-Identifier: Apache-2.0
//
// Flush sequencing (the rules of Linux's blk-flush): a bio with preflush is a flush and then its data; with FUA, on a
// device that does not honour FUA by itself, its data and then a flush. Per channel:
//   C1  one flush is in flight at a time; those that come meanwhile share the next one, which begins after they came;
//   C2  none begins while data of such a bio are on their way, so that the flushes that follow them are one;
//   C3  unless one has waited for 5 s: a stream of such data does not hold it back for ever.
// The rules are looked at whenever something is submitted or ends; that is when they can change.
#pragma once

#include "base/clock.h"
#include "block/bio_list.h"

#include <mqblk/limits.h>

#include <cassert>

namespace mqblk::block {

/// Where a bio with such flags stands (Bio::Progress::stage).
enum class Stage : std::uint8_t {
    plain,            ///< not part of a sequence
    preflush,         ///< waits for a flush; data follow
    data,             ///< data are on their way, after a flush; nothing follows
    data_then_flush,  ///< data are on their way; a flush follows
    flush,            ///< waits for the flush that ends it
};

/// Not honoured by the device itself: its data are followed by a flush.
[[nodiscard]] inline bool flush_follows(const QueueLimits& limits, const Bio& bio) noexcept {
    return (bio.flags & bio_fua) != 0 && !limits.fua && changes_data(bio.op);
}

/// What a bio must go through first. Only where the device has a volatile write cache.
[[nodiscard]] inline Stage first_stage(const QueueLimits& limits, const Bio& bio) noexcept {
    if (!limits.write_cache) return Stage::plain;
    if (bio.op == Op::flush) return Stage::flush;
    if ((bio.flags & bio_preflush) != 0) return Stage::preflush;
    return flush_follows(limits, bio) ? Stage::data_then_flush : Stage::plain;
}

class FlushQueue {
  public:
    static constexpr Duration longest_wait = std::chrono::seconds(5);

    /// `bio` waits for a flush that begins from now on.
    void add(Bio& bio, Stage stage, Time now) noexcept {
        bio.progress.stage = static_cast<std::uint8_t>(stage);
        if (pending_.empty()) pending_since_ = now;
        pending_.push_back(bio);
    }
    /// Data of a sequence set out, and have ended (or were given up).
    void begin_data(Bio& bio, Stage stage) noexcept {
        bio.progress.stage = static_cast<std::uint8_t>(stage);
        ++data_;
    }
    void end_data() noexcept {
        assert(data_ > 0);
        --data_;
    }

    [[nodiscard]] bool pending() const noexcept { return !pending_.empty(); }
    /// A flush request is to be sent.
    [[nodiscard]] bool wanted(Time now) const noexcept {
        return pending() && !in_flight_ && (data_ == 0 || now - pending_since_ >= longest_wait);
    }
    void begin() noexcept {
        running_ = pending_;
        pending_ = {};
        in_flight_ = true;
    }
    /// The flush has ended: who waited for it.
    [[nodiscard]] BioList end() noexcept {
        const BioList waited = running_;
        running_ = {};
        in_flight_ = false;
        return waited;
    }
    /// Gives up what no flush was sent for.
    [[nodiscard]] BioList cancel() noexcept {
        const BioList given_up = pending_;
        pending_ = {};
        return given_up;
    }

  private:
    BioList pending_, running_;
    Time pending_since_{};    // of the oldest in `pending_`
    std::uint32_t data_ = 0;  // bios in the stages data and data_then_flush
    bool in_flight_ = false;
};

}  // namespace mqblk::block
