// SPDX-License-Identifier: Apache-2.0
//
// The completion ring as its consumer. The card may write to it at any time, so an entry is read once, in one piece,
// and an error entry is copied; an entry is there when its cycle is the one expected. The memory is the driver's for as
// long as the card is open.
#pragma once

#include "wire/skd.h"

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mqblk::driver::skd {

struct Completion {
    std::uint16_t id;
    std::uint8_t status;  ///< wire::scsi::Status
    std::uint32_t returned_bytes;
};

class CompletionReader {
  public:
    void use(std::byte* memory) noexcept { memory_ = memory; }

    /// Empty, from the beginning: the card has been told where it is and is not armed yet.
    void reset() noexcept {
        std::memset(memory_, 0, wire::skd::completion_ring_bytes());
        position_ = {};
    }

    [[nodiscard]] bool pending() const noexcept { return next().cycle == position_.cycle; }

    /// Calls fn(const Completion&, const wire::skd::ErrorEntry&) for what is there, at most a ring of it at a time.
    /// The error is zero unless there is one.
    template <class Fn>
    unsigned drain(Fn&& fn) noexcept {
        unsigned seen = 0;
        for (; seen < wire::skd::completion_depth; ++seen) {
            const wire::skd::CompletionEntry entry = next();
            if (entry.cycle != position_.cycle) break;
            wire::skd::ErrorEntry error;
            if (entry.status == static_cast<std::uint8_t>(wire::scsi::Status::check_condition)) [[unlikely]]
                std::memcpy(&error, memory_ + wire::skd::error_offset(position_.index), sizeof error);
            position_.advance();
            fn(Completion{entry.tag, entry.status, entry.returned_bytes}, error);
        }
        return seen;
    }

  private:
    [[nodiscard]] wire::skd::CompletionEntry next() const noexcept {
        auto* const place = reinterpret_cast<std::uint64_t*>(memory_ + wire::skd::completion_offset(position_.index));
        return std::bit_cast<wire::skd::CompletionEntry>(
            std::atomic_ref<std::uint64_t>(*place).load(std::memory_order_acquire));
    }

    std::byte* memory_ = nullptr;
    wire::skd::RingPosition position_;
};

}  // namespace mqblk::driver::skd
