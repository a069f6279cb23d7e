// SPDX-License-Identifier: Apache-2.0
//
// SCSI as it travels: operation codes, status codes, sense keys and additional sense codes, and sense data in both
// formats, made and read. CDBs are in wire/scsi_cdb.h, parameter data in wire/scsi_data.h. Pure functions over bytes;
// both ends of every transport use them. SPC-4 (sense data: 4.5; status: SAM-5 5.3) and SBC-3.
#pragma once

#include "base/endian.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace mqblk::wire::scsi {

/// A command descriptor block of up to 16 bytes; shorter ones are followed by zeroes.
using Cdb = std::array<std::uint8_t, 16>;

namespace opcode {
enum : std::uint8_t {
    test_unit_ready = 0x00,
    request_sense = 0x03,
    read_6 = 0x08,
    write_6 = 0x0a,
    inquiry = 0x12,
    mode_select_6 = 0x15,
    mode_sense_6 = 0x1a,
    start_stop_unit = 0x1b,
    read_capacity_10 = 0x25,
    read_10 = 0x28,
    write_10 = 0x2a,
    verify_10 = 0x2f,
    synchronize_cache_10 = 0x35,
    write_buffer = 0x3b,
    read_buffer = 0x3c,
    write_same_10 = 0x41,
    unmap = 0x42,
    mode_select_10 = 0x55,
    mode_sense_10 = 0x5a,
    persistent_reserve_in = 0x5e,
    persistent_reserve_out = 0x5f,
    read_16 = 0x88,
    compare_and_write = 0x89,
    write_16 = 0x8a,
    verify_16 = 0x8f,
    synchronize_cache_16 = 0x91,
    write_same_16 = 0x93,
    service_action_in_16 = 0x9e,
    report_luns = 0xa0,
    maintenance_in = 0xa3,
    read_12 = 0xa8,
    write_12 = 0xaa,
    verify_12 = 0xaf,
};
}
inline constexpr std::uint8_t action_read_capacity_16 = 0x10;        ///< of service_action_in_16
inline constexpr std::uint8_t action_report_operation_codes = 0x0c;  ///< of maintenance_in

enum class Status : std::uint8_t {
    good = 0x00,
    check_condition = 0x02,
    condition_met = 0x04,
    busy = 0x08,
    reservation_conflict = 0x18,
    task_set_full = 0x28,
    aca_active = 0x30,
    task_aborted = 0x40,
};

enum class SenseKey : std::uint8_t {
    no_sense = 0x0,
    recovered_error = 0x1,
    not_ready = 0x2,
    medium_error = 0x3,
    hardware_error = 0x4,
    illegal_request = 0x5,
    unit_attention = 0x6,
    data_protect = 0x7,
    blank_check = 0x8,
    vendor_specific = 0x9,
    copy_aborted = 0xa,
    aborted_command = 0xb,
    volume_overflow = 0xd,
    miscompare = 0xe,
    completed = 0xf,
};

/// Additional sense code << 8 | qualifier.
namespace asc {
enum : std::uint16_t {
    none = 0x0000,
    no_index = 0x0100,
    not_ready = 0x0400,
    becoming_ready = 0x0401,
    initializing_command_required = 0x0402,
    format_in_progress = 0x0404,
    sanitize_in_progress = 0x041b,
    communication_failure = 0x0800,
    communication_timeout = 0x0801,
    warning = 0x0b00,
    warning_temperature_exceeded = 0x0b01,
    write_error = 0x0c00,
    unrecovered_read_error = 0x1100,
    parameter_list_length_error = 0x1a00,
    miscompare_during_verify = 0x1d00,
    invalid_operation_code = 0x2000,
    lba_out_of_range = 0x2100,
    invalid_field_in_cdb = 0x2400,
    logical_unit_not_supported = 0x2500,
    invalid_field_in_parameter_list = 0x2600,
    parameter_value_invalid = 0x2602,
    invalid_release_of_reservation = 0x2604,
    write_protected = 0x2700,
    space_allocation_failed = 0x2707,
    power_on_or_reset = 0x2900,
    device_reset = 0x2903,  ///< BUS DEVICE RESET FUNCTION OCCURRED: a LUN reset
    nexus_loss = 0x2907,
    mode_parameters_changed = 0x2a01,
    reservations_preempted = 0x2a03,
    reservations_released = 0x2a04,
    registrations_preempted = 0x2a05,
    capacity_changed = 0x2a09,
    commands_cleared_by_another_initiator = 0x2f00,
    saving_parameters_not_supported = 0x3900,
    medium_not_present = 0x3a00,
    target_operating_conditions_changed = 0x3f00,
    microcode_changed = 0x3f01,
    reported_luns_changed = 0x3f0e,
    internal_target_failure = 0x4400,
    data_phase_error = 0x4b00,
    overlapped_commands = 0x4e00,
    failure_prediction_threshold_exceeded = 0x5d00,
    insufficient_resources = 0x5503,
    insufficient_registration_resources = 0x5504,
};
}

/// What sense data says. Unset fields are not transferred.
struct Sense {
    SenseKey key = SenseKey::no_sense;
    std::uint16_t code = asc::none;              ///< additional sense code << 8 | qualifier
    std::optional<std::uint64_t> information{};  ///< most often the first LBA in error
    std::uint64_t command_specific = 0;
    bool deferred = false;

    /// Illegal request: which byte was wrong.
    struct FieldPointer {
        std::uint16_t byte = 0;
        bool in_cdb = true;                 ///< else in the parameter list
        std::optional<std::uint8_t> bit{};  ///< the field's most significant one
        bool operator==(const FieldPointer&) const = default;
    };
    std::optional<FieldPointer> field{};
    std::optional<std::uint16_t> progress{};  ///< not ready: of 65536

    [[nodiscard]] constexpr std::uint8_t additional_code() const noexcept {
        return static_cast<std::uint8_t>(code >> 8);
    }
    [[nodiscard]] constexpr std::uint8_t qualifier() const noexcept { return static_cast<std::uint8_t>(code); }
    bool operator==(const Sense&) const = default;
};

enum SenseFormat : std::uint8_t {
    sense_fixed = 0x70,
    sense_fixed_deferred = 0x71,
    sense_descriptor = 0x72,
    sense_descriptor_deferred = 0x73,
};
inline constexpr std::uint8_t sense_information_valid = 0x80;  ///< of FixedSense::response_code
inline constexpr std::uint8_t sense_key_specific_valid = 0x80;

/// Fixed format, SPC-4 4.5.3.
struct FixedSense {
    std::uint8_t response_code = 0;  ///< bit 7: information is valid
    std::uint8_t segment_number = 0;
    std::uint8_t key = 0;  ///< bits 3:0; 5 incorrect length, 6 end of medium, 7 filemark
    be32 information{};
    std::uint8_t additional_bytes = 0;  ///< that follow this one
    be32 command_specific{};
    be16 code{};
    std::uint8_t fru = 0;
    std::uint8_t key_specific[3] = {};
};
static_assert(sizeof(FixedSense) == 18 && offsetof(FixedSense, code) == 12 && offsetof(FixedSense, key_specific) == 15);

inline constexpr std::size_t max_sense_bytes = 252;
/// Bytes that build_descriptor_sense() uses at most.
inline constexpr std::size_t descriptor_sense_bytes = 40;

/// An information that needs more than 32 bits is left out, as the standard says.
[[nodiscard]] FixedSense build_fixed_sense(const Sense&) noexcept;
/// Returns the bytes used.
[[nodiscard]] std::size_t build_descriptor_sense(const Sense&,
                                                 std::span<std::uint8_t, descriptor_sense_bytes> to) noexcept;
/// Either format, from bytes that a peer sent. Nothing if it is neither. What was cut off is as if unset.
[[nodiscard]] std::optional<Sense> parse_sense(std::span<const std::uint8_t>) noexcept;

}  // namespace mqblk::wire::scsi
