// SPDX-License-Identifier: Apache-2.0
//
// ReservationKeeper: a unit's persistent reservations, for all its initiators. Those on the data path look at a number
// that changes with every change, and ask again only then. Thread-safe. SPC-4 5.13.
#pragma once

#include "device/scsi/reservations.h"

#include <mqblk/error.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

namespace mqblk::device::scsi {

class ReservationKeeper {
  public:
    /// `file`: where they are kept through a restart; empty: nowhere.
    explicit ReservationKeeper(std::string file) : file_(std::move(file)) {}

    /// Takes what the file says. Before anybody has asked.
    [[nodiscard]] Result<> load();
    [[nodiscard]] bool can_persist() const noexcept { return !file_.empty(); }

    /// Grows with every change.
    [[nodiscard]] std::uint32_t epoch() const noexcept { return epoch_.load(std::memory_order_acquire); }
    [[nodiscard]] Access access(const wire::scsi::TransportId&) const noexcept;
    [[nodiscard]] Reservations state() const;

    /// Nothing: the change could not be saved and did not happen. May wait for the storage of the file.
    [[nodiscard]] std::optional<ReserveOutcome> change(const wire::scsi::TransportId& from, const ReserveRequest&);

  private:
    const std::string file_;
    mutable std::mutex mutex_;
    Reservations state_;
    std::atomic<std::uint32_t> epoch_{0};
};

}  // namespace mqblk::device::scsi
