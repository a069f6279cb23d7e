// SPDX-License-Identifier: Apache-2.0
//
// PERSISTENT RESERVE IN: READ KEYS, READ RESERVATION, REPORT CAPABILITIES, READ FULL STATUS (SPC-4 6.15).
#include "device/scsi/commands.h"
#include "memory/segments.h"
#include "wire/scsi_reservations.h"

#include <algorithm>
#include <cstring>

namespace mqblk::device::scsi {

namespace asc = wire::scsi::asc;
using wire::scsi::ReserveIn;

namespace {

/// A list of any length goes straight into the initiator's memory, as far as there is room.
class ListWriter {
  public:
    explicit ListWriter(Command& command) : command_(command), to_(command.data) {}
    template <class T>
    void add(const T& value) noexcept {
        const auto* from = reinterpret_cast<const std::byte*>(&value);
        for (std::size_t left = std::min<std::size_t>(sizeof value, command_.bytes - written_); left > 0;) {
            const Segment piece = to_.take(left);
            if (piece.bytes == 0) return;
            std::memcpy(piece.data, from, piece.bytes);
            from += piece.bytes;
            left -= piece.bytes;
            written_ += static_cast<std::uint32_t>(piece.bytes);
        }
    }
    void finish() noexcept { complete_good(command_, written_); }

  private:
    Command& command_;
    memory::SegmentCursor to_;
    std::uint32_t written_ = 0;
};

wire::scsi::ReserveInHeader header_of(const Reservations& state, std::size_t entries, std::size_t entry_bytes) {
    return {.generation = state.generation, .bytes = static_cast<std::uint32_t>(entries * entry_bytes)};
}

void read_keys(Command& command, const Reservations& state) noexcept {
    ListWriter list(command);
    list.add(header_of(state, state.registrations.size(), sizeof(be64)));
    for (const auto& registration : state.registrations) list.add(be64(registration.key));
    list.finish();
}

void read_reservation(Command& command, const Reservations& state) noexcept {
    const bool reserved = state.type != wire::scsi::ReservationType::none;
    ListWriter list(command);
    list.add(header_of(state, reserved ? 1 : 0, sizeof(wire::scsi::ReservationDescriptor)));
    if (reserved) {
        const auto* holder = state.find(state.holder);  // none when all registrants hold it: key 0
        list.add(wire::scsi::ReservationDescriptor{.key = holder != nullptr ? holder->key : 0,
                                                   .scope_type = static_cast<std::uint8_t>(state.type)});
    }
    list.finish();
}

void report_capabilities(Command& command, const Reservations& state) noexcept {
    wire::scsi::ReserveCapabilities capabilities;
    capabilities.flags_2 = wire::scsi::capability_type_mask;
    if (command.nexus->unit().reservations().can_persist()) capabilities.flags = wire::scsi::capability_persist;
    if (state.persist) capabilities.flags_2 |= wire::scsi::capability_persists;
    ListWriter list(command);
    list.add(capabilities);
    list.finish();
}

void full_status(Command& command, const Reservations& state) noexcept {
    ListWriter list(command);
    list.add(header_of(state, state.registrations.size(), sizeof(wire::scsi::FullStatusDescriptor)));
    for (const auto& registration : state.registrations) {
        wire::scsi::FullStatusDescriptor entry{
            .key = registration.key, .relative_target_port = 1, .initiator = registration.initiator};
        if (state.holds(registration.initiator)) {
            entry.flags = wire::scsi::status_holder;
            entry.scope_type = static_cast<std::uint8_t>(state.type);
        }
        list.add(entry);
    }
    list.finish();
}

}  // namespace

Plan plan_reserve_in(Nexus& nexus, Command& command) noexcept {
    if (!nexus.unit().options().reservations)
        return refuse(command, wire::scsi::SenseKey::illegal_request, asc::invalid_operation_code);
    if ((command.cdb[1] & wire::scsi::reserve_action_mask) > static_cast<std::uint8_t>(ReserveIn::full_status))
        return refuse_field(command, 1, 4);
    const auto bytes = static_cast<std::uint32_t>(wire::scsi::cdb_field(command.cdb, 7, 2));
    return {.direction = bytes == 0 ? Direction::none : Direction::to_initiator, .bytes = bytes};
}

void execute_reserve_in(Command& command) noexcept {
    const Reservations state = command.nexus->unit().reservations().state();
    switch (static_cast<ReserveIn>(command.cdb[1] & wire::scsi::reserve_action_mask)) {
        case ReserveIn::read_keys:
            return read_keys(command, state);
        case ReserveIn::read_reservation:
            return read_reservation(command, state);
        case ReserveIn::report_capabilities:
            return report_capabilities(command, state);
        case ReserveIn::full_status:
            return full_status(command, state);
    }
}

}  // namespace mqblk::device::scsi
