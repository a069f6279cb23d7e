// SPDX-License-Identifier: Apache-2.0
//
// Flush sequencing (the rules of Linux's blk-flush): a bio with preflush is a flush and then its data; with FUA, on a
// device that does not honour FUA by itself, its data and then a flush. One flush is in flight at a time per channel;
// those that come meanwhile share the next one, which begins after they came.
#pragma once

#include "block/bio_list.h"

#include <mqblk/limits.h>

namespace mqblk::block {

/// Where a bio with such flags stands (Bio::Progress::stage).
enum class Stage : std::uint8_t {
    plain,            ///< no flush before or after what is being done now
    preflush,         ///< waits for a flush; data follow
    data_then_flush,  ///< data are being written; a flush follows
    flush,            ///< waits for the flush that ends it
};

/// What a bio must go through first. Only where the device has a volatile write cache.
[[nodiscard]] inline Stage first_stage(const QueueLimits& limits, const Bio& bio) noexcept {
    if (!limits.write_cache) return Stage::plain;
    if (bio.op == Op::flush) return Stage::flush;
    if ((bio.flags & bio_preflush) != 0) return Stage::preflush;
    return (bio.flags & bio_fua) != 0 && !limits.fua && changes_data(bio.op) ? Stage::data_then_flush : Stage::plain;
}

/// What follows a preflush.
[[nodiscard]] inline Stage stage_of_data(const QueueLimits& limits, const Bio& bio) noexcept {
    return (bio.flags & bio_fua) != 0 && !limits.fua && changes_data(bio.op) ? Stage::data_then_flush : Stage::plain;
}

class FlushQueue {
  public:
    void add(Bio& bio, Stage stage) noexcept {
        bio.progress.stage = static_cast<std::uint8_t>(stage);
        pending_.push_back(bio);
    }
    /// A flush request is to be sent.
    [[nodiscard]] bool wanted() const noexcept { return !in_flight_ && !pending_.empty(); }
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
    bool in_flight_ = false;
};

}  // namespace mqblk::block
