// SPDX-License-Identifier: Apache-2.0
#include "device/scsi/reservations.h"

#include <algorithm>

namespace mqblk::device::scsi {

namespace asc = wire::scsi::asc;
using wire::scsi::ReservationType;
using wire::scsi::ReserveOut;
using wire::scsi::TransportId;

namespace {

bool is_type(std::uint8_t type) noexcept {
    return type == 1 || type == 3 || (type >= 5 && type <= 8);
}
bool held_by_all(ReservationType type) noexcept {
    return type == ReservationType::write_exclusive_all || type == ReservationType::exclusive_access_all;
}
/// Registrants have access, not the holder alone.
bool for_registrants(ReservationType type) noexcept {
    return static_cast<std::uint8_t>(type) >= 5;
}
bool excludes_reads(ReservationType type) noexcept {
    return type == ReservationType::exclusive_access || type == ReservationType::exclusive_access_registrants ||
           type == ReservationType::exclusive_access_all;
}

/// One service action at work on a copy of the state.
class Change {
  public:
    Change(Reservations& state, const TransportId& from, const ReserveRequest& request)
        : state_(state), from_(from), request_(request) {}

    ReserveOutcome run() {
        switch (request_.action) {
            case ReserveOut::register_key:
            case ReserveOut::register_and_ignore:
                return do_register();
            case ReserveOut::reserve:
                return known() ? reserve() : refuse(ReserveOutcome::conflict);
            case ReserveOut::release:
                return known() ? release() : refuse(ReserveOutcome::conflict);
            case ReserveOut::clear:
                return known() ? clear() : refuse(ReserveOutcome::conflict);
            case ReserveOut::preempt:
            case ReserveOut::preempt_and_abort:
                return known() ? preempt() : refuse(ReserveOutcome::conflict);
        }
        return refuse(ReserveOutcome::invalid_type);
    }

  private:
    [[nodiscard]] bool known() const noexcept {
        const auto* registration = state_.find(from_);
        return registration != nullptr && registration->key == request_.key;
    }
    ReserveOutcome refuse(ReserveOutcome::Verdict verdict) {
        outcome_.verdict = verdict;
        return std::move(outcome_);
    }
    ReserveOutcome done() { return std::move(outcome_); }

    void tell(const TransportId& initiator, std::uint16_t code) {
        if (initiator != from_) outcome_.notices.push_back({initiator, code});
    }
    void tell_all(std::uint16_t code) {
        for (const auto& registration : state_.registrations) tell(registration.initiator, code);
    }
    /// The reservation ends; those who had access by it are told.
    void end_reservation() {
        if (for_registrants(state_.type)) tell_all(asc::reservations_released);
        state_.type = ReservationType::none;
        state_.holder = {};
    }

    ReserveOutcome do_register() {
        const auto* present = state_.find(from_);
        if (request_.action == ReserveOut::register_key && (present != nullptr ? present->key : 0) != request_.key)
            return refuse(ReserveOutcome::conflict);
        if (request_.service_key == 0) {
            if (present != nullptr) unregister();
        } else if (present == nullptr) {
            if (state_.registrations.size() >= Reservations::most_registrations)
                return refuse(ReserveOutcome::too_many);
            state_.registrations.push_back({from_, request_.service_key});
        } else {
            for (auto& registration : state_.registrations) {
                if (registration.initiator == from_) registration.key = request_.service_key;
            }
        }
        state_.persist = request_.persist;
        ++state_.generation;
        return done();
    }

    void unregister() {
        const bool ends = held_by_all(state_.type) ? state_.registrations.size() == 1 : state_.holds(from_);
        if (ends) end_reservation();
        std::erase_if(state_.registrations, [&](const auto& r) { return r.initiator == from_; });
    }

    ReserveOutcome reserve() {
        if (request_.scope != 0 || !is_type(request_.type)) return refuse(ReserveOutcome::invalid_type);
        const auto wanted = static_cast<ReservationType>(request_.type);
        if (state_.type != ReservationType::none) {
            const bool same = state_.holds(from_) && state_.type == wanted;
            return same ? done() : refuse(ReserveOutcome::conflict);
        }
        state_.type = wanted;
        state_.holder = held_by_all(wanted) ? TransportId{} : from_;
        return done();
    }

    ReserveOutcome release() {
        if (!state_.holds(from_)) return done();
        if (request_.scope != 0 || request_.type != static_cast<std::uint8_t>(state_.type))
            return refuse(ReserveOutcome::invalid_release);
        end_reservation();
        return done();
    }

    ReserveOutcome clear() {
        tell_all(asc::reservations_preempted);
        state_.registrations.clear();
        state_.type = ReservationType::none;
        state_.holder = {};
        ++state_.generation;
        return done();
    }

    /// The holder, or with key 0 all registrants, lose the reservation to this initiator.
    [[nodiscard]] bool preempts_reservation() const noexcept {
        if (state_.type == ReservationType::none) return false;
        if (held_by_all(state_.type)) return request_.service_key == 0;
        const auto* holder = state_.find(state_.holder);
        return holder != nullptr && holder->key == request_.service_key;
    }

    ReserveOutcome preempt() {
        if (preempts_reservation()) return take_reservation();
        if (request_.service_key == 0) return refuse(ReserveOutcome::invalid_key);
        // Only registrations go, the reservation stays as it is.
        if (!remove_registrations(false)) return refuse(ReserveOutcome::conflict);
        if (held_by_all(state_.type) && state_.registrations.empty()) end_reservation();
        ++state_.generation;
        return done();
    }

    ReserveOutcome take_reservation() {
        if (request_.scope != 0 || !is_type(request_.type)) return refuse(ReserveOutcome::invalid_type);
        const ReservationType before = state_.type;
        remove_registrations(true);
        state_.type = static_cast<ReservationType>(request_.type);
        state_.holder = held_by_all(state_.type) ? TransportId{} : from_;
        if (state_.type != before && for_registrants(before)) tell_all(asc::reservations_released);
        ++state_.generation;
        return done();
    }

    /// Those of the service action's key; all of them for 0. Returns whether there were any.
    bool remove_registrations(bool spare_self) {
        const auto goes = [&](const Reservations::Registration& r) {
            const bool named = request_.service_key == 0 || r.key == request_.service_key;
            return named && !(spare_self && r.initiator == from_);
        };
        bool any = false;
        for (const auto& registration : state_.registrations) {
            if (!goes(registration)) continue;
            any = true;
            tell(registration.initiator, asc::registrations_preempted);
            if (registration.initiator != from_) outcome_.preempted.push_back(registration.initiator);
        }
        std::erase_if(state_.registrations, goes);
        return any;
    }

    Reservations& state_;
    const TransportId& from_;
    const ReserveRequest& request_;
    ReserveOutcome outcome_;
};

}  // namespace

const Reservations::Registration* Reservations::find(const TransportId& initiator) const noexcept {
    const auto found = std::ranges::find(registrations, initiator, &Registration::initiator);
    return found == registrations.end() ? nullptr : &*found;
}

bool Reservations::holds(const TransportId& initiator) const noexcept {
    if (type == ReservationType::none) return false;
    return held_by_all(type) ? find(initiator) != nullptr : holder == initiator;
}

Access Reservations::access(const TransportId& initiator) const noexcept {
    if (type == ReservationType::none || holds(initiator)) return Access::all;
    if (for_registrants(type) && find(initiator) != nullptr) return Access::all;
    return excludes_reads(type) ? Access::none : Access::reads;
}

ReserveOutcome apply(Reservations& state, const TransportId& from, const ReserveRequest& request) {
    Reservations changed = state;
    ReserveOutcome outcome = Change(changed, from, request).run();
    if (outcome.verdict == ReserveOutcome::good) state = std::move(changed);
    return outcome;
}

}  // namespace mqblk::device::scsi
