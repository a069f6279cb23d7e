// SPDX-License-Identifier: Apache-2.0
//
// PERSISTENT RESERVE IN and OUT as they travel: service actions, types, parameter data, and the TransportID by which a
// unit knows an initiator port. SPC-4 5.13, 6.15, 6.16 and 7.6.4.
#pragma once

#include "wire/scsi.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mqblk::wire::scsi {

/// Names an initiator port, in the form of every transport but iSCSI. All zero: nobody in particular.
using TransportId = std::array<std::uint8_t, 24>;
inline constexpr std::uint8_t transport_srp = 0x04;

/// The TransportID of an SRP initiator port.
[[nodiscard]] constexpr TransportId srp_transport_id(std::span<const std::uint8_t, 16> initiator_port_id) noexcept {
    TransportId id{};
    id[0] = transport_srp;
    std::copy(initiator_port_id.begin(), initiator_port_id.end(), id.begin() + 8);
    return id;
}

inline constexpr std::uint8_t reserve_action_mask = 0x1f;  ///< of byte 1 of either CDB

/// Service actions of PERSISTENT RESERVE IN.
enum class ReserveIn : std::uint8_t { read_keys = 0, read_reservation = 1, report_capabilities = 2, full_status = 3 };

/// Service actions of PERSISTENT RESERVE OUT.
enum class ReserveOut : std::uint8_t {
    register_key = 0,
    reserve = 1,
    release = 2,
    clear = 3,
    preempt = 4,
    preempt_and_abort = 5,
    register_and_ignore = 6,
};

enum class ReservationType : std::uint8_t {
    none = 0,
    write_exclusive = 1,
    exclusive_access = 3,
    write_exclusive_registrants = 5,
    exclusive_access_registrants = 6,
    write_exclusive_all = 7,  ///< all registrants hold it
    exclusive_access_all = 8,
};

/// All that there are, as REPORT CAPABILITIES says it.
inline constexpr std::uint16_t reservation_type_mask = 0xea01;

struct ReserveOutParameters {
    be64 key{};
    be64 service_key{};
    std::uint8_t obsolete[4] = {};
    std::uint8_t flags = 0;  ///< ReserveOutFlag
    std::uint8_t reserved = 0;
    std::uint8_t obsolete_2[2] = {};
};
static_assert(sizeof(ReserveOutParameters) == 24 && offsetof(ReserveOutParameters, flags) == 20);
enum ReserveOutFlag : std::uint8_t {
    reserve_persist = 0x01,           ///< APTPL: kept through a loss of power
    reserve_all_target_ports = 0x04,  ///< ALL_TG_PT
    reserve_names_initiators = 0x08,  ///< SPEC_I_PT
};

struct ReserveInHeader {
    be32 generation{};
    be32 bytes{};  ///< that follow the header
};
static_assert(sizeof(ReserveInHeader) == 8);

struct ReservationDescriptor {
    be64 key{};
    std::uint8_t obsolete[4] = {};
    std::uint8_t reserved = 0;
    std::uint8_t scope_type = 0;  ///< scope 7:4 (0: the unit), ReservationType 3:0
    std::uint8_t obsolete_2[2] = {};
};
static_assert(sizeof(ReservationDescriptor) == 16 && offsetof(ReservationDescriptor, scope_type) == 13);

struct ReserveCapabilities {
    be16 bytes{8};
    std::uint8_t flags = 0;    ///< bit 0 PTPL_C: can be kept through a loss of power
    std::uint8_t flags_2 = 0;  ///< bit 7 TMV: the type mask is valid; bit 0 PTPL_A: is being kept
    be16 types{reservation_type_mask};
    std::uint8_t reserved[2] = {};
};
static_assert(sizeof(ReserveCapabilities) == 8);
inline constexpr std::uint8_t capability_persist = 0x01, capability_type_mask = 0x80, capability_persists = 0x01;

struct FullStatusDescriptor {
    be64 key{};
    std::uint8_t reserved[4] = {};
    std::uint8_t flags = 0;  ///< bit 0 R_HOLDER, bit 1 ALL_TG_PT
    std::uint8_t scope_type = 0;
    std::uint8_t reserved_2[4] = {};
    be16 relative_target_port{};
    be32 additional_bytes{24};
    TransportId initiator{};
};
static_assert(sizeof(FullStatusDescriptor) == 48 && offsetof(FullStatusDescriptor, relative_target_port) == 18 &&
              offsetof(FullStatusDescriptor, initiator) == 24);
inline constexpr std::uint8_t status_holder = 0x01;

}  // namespace mqblk::wire::scsi
