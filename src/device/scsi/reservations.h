// SPDX-License-Identifier: Apache-2.0
//
// Persistent reservations as a state and what each service action makes of it: no I/O, no threads, no time. Invariant:
// whoever holds a reservation is registered; a reservation of all registrants ends with the last of them. SPC-4 5.13.
#pragma once

#include "wire/scsi_reservations.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace mqblk::device::scsi {

/// What an initiator may do while the unit is reserved. What needs no access (INQUIRY …) may always be done.
enum class Access : std::uint8_t { all, reads, none };

struct Reservations {
    static constexpr std::size_t most_registrations = 256;

    struct Registration {
        wire::scsi::TransportId initiator{};
        std::uint64_t key = 0;  ///< not 0
        bool operator==(const Registration&) const = default;
    };
    std::vector<Registration> registrations;
    wire::scsi::ReservationType type = wire::scsi::ReservationType::none;
    wire::scsi::TransportId holder{};  ///< meaningful unless all registrants hold it
    std::uint32_t generation = 0;      ///< PRGENERATION
    bool persist = false;              ///< APTPL: kept through a loss of power
    bool operator==(const Reservations&) const = default;

    [[nodiscard]] const Registration* find(const wire::scsi::TransportId&) const noexcept;
    [[nodiscard]] bool holds(const wire::scsi::TransportId&) const noexcept;
    [[nodiscard]] Access access(const wire::scsi::TransportId&) const noexcept;
};

struct ReserveRequest {
    wire::scsi::ReserveOut action = wire::scsi::ReserveOut::register_key;
    std::uint8_t scope = 0, type = 0;
    std::uint64_t key = 0, service_key = 0;
    bool persist = false;
};

/// What is to be done besides changing the state.
struct ReserveOutcome {
    enum Verdict : std::uint8_t {
        good,
        conflict,         ///< RESERVATION CONFLICT
        invalid_type,     ///< scope or type in the CDB
        invalid_key,      ///< the service action's key in the parameter list
        invalid_release,  ///< INVALID RELEASE OF PERSISTENT RESERVATION
        too_many,         ///< INSUFFICIENT REGISTRATION RESOURCES
    } verdict = good;
    struct Notice {
        wire::scsi::TransportId initiator;
        std::uint16_t code;  ///< unit attention
    };
    std::vector<Notice> notices;
    std::vector<wire::scsi::TransportId> preempted;  ///< whose commands PREEMPT AND ABORT ends
};

/// Changes `state` if the verdict is good, and only then.
[[nodiscard]] ReserveOutcome apply(Reservations& state, const wire::scsi::TransportId& from, const ReserveRequest&);

}  // namespace mqblk::device::scsi
