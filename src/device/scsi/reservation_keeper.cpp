// SPDX-License-Identifier: Apache-2.0
#include "device/scsi/reservation_keeper.h"

#include "base/log.h"
#include "device/scsi/reservation_file.h"

#include <utility>

namespace mqblk::device::scsi {

Result<> ReservationKeeper::load() {
    if (file_.empty()) return {};
    auto state = load_reservations(file_);
    if (!state) return std::unexpected(state.error());
    const std::lock_guard lock(mutex_);
    state_ = std::move(*state);
    epoch_.fetch_add(1, std::memory_order_release);
    return {};
}

Access ReservationKeeper::access(const wire::scsi::TransportId& initiator) const noexcept {
    const std::lock_guard lock(mutex_);
    return state_.access(initiator);
}

Reservations ReservationKeeper::state() const {
    const std::lock_guard lock(mutex_);
    return state_;
}

std::optional<ReserveOutcome> ReservationKeeper::change(const wire::scsi::TransportId& from,
                                                        const ReserveRequest& request) {
    const std::lock_guard lock(mutex_);
    Reservations changed = state_;
    ReserveOutcome outcome = apply(changed, from, request);
    if (changed == state_) return outcome;
    if (!file_.empty() && (changed.persist || state_.persist)) {
        if (const auto saved = save_reservations(file_, changed); !saved) {
            log_error(saved.error().message());
            return std::nullopt;
        }
    }
    state_ = std::move(changed);
    epoch_.fetch_add(1, std::memory_order_release);
    return outcome;
}

}  // namespace mqblk::device::scsi
