// SPDX-License-Identifier: Apache-2.0
//
// What DCMDs tell: about the controller, its disks and volumes, its maps, its events. Maps and events can be waited
// for: a driver that has the latest is answered when there is a later one.
#include "device/megaraid/controller.h"
#include "wire/megaraid_info.h"
#include "wire/megaraid_map.h"
#include "wire/scsi_data.h"

#include <algorithm>
#include <cstring>

namespace mqblk::device::megaraid {

using namespace wire::megaraid;

namespace {

template <std::size_t N>
void set_name(char (&field)[N], std::string_view text) noexcept {
    std::memcpy(field, text.data(), std::min(text.size(), N - 1));
}

template <class T>
void append(std::vector<std::byte>& bytes, const T& value) {
    const auto raw = std::as_bytes(std::span(&value, 1));
    bytes.insert(bytes.end(), raw.begin(), raw.end());
}

/// The address that a disk would have on its SAS port.
std::uint64_t sas_address(const Target& target) noexcept {
    return 0x5ull << 60 | (target.unit->naa() & 0x0fffffffffffffff);
}

}  // namespace

void Controller::tell_controller_info(Slot& slot) noexcept {
    ControllerInfo info;
    info.vendor_id = spec_.id.vendor;
    info.device_id = spec_.id.device;
    info.subsystem_vendor_id = spec_.id.subsystem_vendor;
    info.subsystem_device_id = spec_.id.subsystem_device;
    info.host_interface = 0x02;
    info.device_interface = 0x0e;
    info.max_arms = max_row_size;
    info.max_spans = 1;
    info.max_arrays = max_arrays_legacy;
    info.max_lds = megaraid::max_volumes;
    set_name(info.product_name, "mqblk MegaRAID model");
    set_name(info.serial, options_.serial);
    set_name(info.package_version, "24.0.2-0000");
    info.max_concurrent_commands = static_cast<std::uint16_t>(max_commands_);
    info.max_sge_count = static_cast<std::uint16_t>(max_sges(options_.chain_frame_bytes));
    info.max_request_sectors = max_transfer_bytes / 512;
    info.lds_present = static_cast<std::uint16_t>(topology_.volumes().size());
    info.pds_present = info.disks_present = static_cast<std::uint16_t>(topology_.device_ids());
    info.memory_mib = 1024;
    info.min_strip_shift = 7;
    info.max_strip_shift = 11;
    info.max_strips_per_io = static_cast<std::uint16_t>(max_transfer_bytes / 512 >> 7);
    info.raid_levels = 0x17;  // 0, 1, 5, 6
    info.max_pds = max_physical_disks;
    std::uint32_t properties = property_enable_jbod;
    if (!options_.online_reset) properties |= property_disable_online_reset;
    info.on_off_properties = properties;
    info.adapter_operations2 = operation2_jbod;
    std::uint32_t operations3 = extended_ ? std::uint32_t{operation3_max_ext_lds} : 0;
    if (options_.fast_path || options_.task_management) operations3 |= operation3_jbod_sequence_numbers;
    info.adapter_operations3 = operations3;
    answer_struct(slot, info);
}

void Controller::tell_pd_list(Slot& slot) noexcept {
    const auto query = static_cast<PdQuery>(slot.management.frame.mailbox.bytes[0]);
    if (query != PdQuery::all && query != PdQuery::exposed_to_host) return answer(slot, MfiStatus::invalid_parameter);
    std::vector<std::byte> bytes(sizeof(ListHeader));
    std::uint32_t count = 0;
    for (unsigned id = 0; id < topology_.device_ids(); ++id) {
        const Target& target = *topology_.by_device_id(id).target;
        if (!target.present || ((target.is_volume || options_.foreign) && query == PdQuery::exposed_to_host)) continue;
        append(bytes, PdAddress{.device_id = static_cast<std::uint16_t>(id),
                                .enclosure_id = 0xffff,
                                .slot = static_cast<std::uint8_t>(id),
                                .sas_address = {sas_address(target), 0}});
        ++count;
    }
    const ListHeader header{.bytes = static_cast<std::uint32_t>(bytes.size()), .count = count};
    std::memcpy(bytes.data(), &header, sizeof header);
    answer_with(slot, bytes);
}

void Controller::tell_pd_info(Slot& slot) noexcept {
    const unsigned id = slot.management.frame.mailbox.half(0);
    const Target* const target = topology_.by_device_id(id).target;
    if (target == nullptr || !target->present) return answer(slot, MfiStatus::device_not_found);
    PdInfo info;
    info.device_id = static_cast<std::uint16_t>(id);
    info.sequence = target->sequence;
    wire::scsi::InquiryData inquiry;
    inquiry.additional_bytes = sizeof inquiry - 5;
    wire::scsi::set_text(inquiry.vendor, target->unit->options().vendor);
    wire::scsi::set_text(inquiry.product, target->unit->options().product);
    wire::scsi::set_text(inquiry.revision, target->unit->options().revision);
    std::memcpy(info.inquiry, &inquiry, sizeof inquiry);
    const PdState alone = options_.foreign ? PdState::unconfigured_good : PdState::system;
    info.state = static_cast<std::uint16_t>(target->is_volume ? PdState::online : alone);
    info.configuration = static_cast<std::uint16_t>(target->is_volume  ? pd_in_volume
                                                    : options_.foreign ? pd_foreign
                                                                       : 0);
    info.raw_blocks = info.uncoerced_blocks = info.coerced_blocks =
        target->is_volume ? disk_blocks(target->layout, target->unit->blocks()) : target->unit->blocks();
    info.enclosure_id = 0xffff;
    info.slot = static_cast<std::uint8_t>(id);
    info.media_type = target->unit->device().limits().rotational ? 0 : 1;
    info.interface = static_cast<std::uint8_t>(PdInterface::sas);
    info.block_bytes = static_cast<std::uint16_t>(target->unit->block_bytes());
    answer_struct(slot, info);
}

void Controller::tell_ld_list(Slot& slot) noexcept {
    std::vector<std::byte> bytes(sizeof(LdListHeader));
    std::uint32_t count = 0;
    for (const Target* volume : topology_.volumes()) {
        if (!volume->present) continue;
        append(bytes, LdEntry{.target_id = static_cast<std::uint8_t>(volume->id),
                              .sequence = volume->sequence,
                              .state = static_cast<std::uint8_t>(LdState::optimal),
                              .blocks = volume->unit->blocks()});
        ++count;
    }
    const LdListHeader header{.count = count, .reserved = {}};
    std::memcpy(bytes.data(), &header, sizeof header);
    answer_with(slot, bytes);
}

void Controller::tell_target_list(Slot& slot) noexcept {
    const auto query = static_cast<LdQuery>(slot.management.frame.mailbox.bytes[0]);
    if (query > LdQuery::used_target_ids) return answer(slot, MfiStatus::invalid_parameter);
    std::vector<std::byte> bytes(target_list_bytes(extended_ ? wire::megaraid::max_volumes : max_volumes_legacy));
    std::uint32_t count = 0;
    for (const Target* volume : topology_.volumes()) {
        if (!volume->present) continue;
        bytes[target_ids_offset + count++] = static_cast<std::byte>(volume->id);
    }
    const ListHeader header{.bytes = static_cast<std::uint32_t>(bytes.size()), .count = count};
    std::memcpy(bytes.data(), &header, sizeof header);
    answer_with(slot, bytes);
}

void Controller::tell_target_properties(Slot& slot) noexcept {
    const Mailbox& mailbox = slot.management.frame.mailbox;
    const Target* const target =
        mailbox.bytes[0] != 0 ? topology_.volume(mailbox.half(1)) : topology_.disk(mailbox.half(1));
    if (target == nullptr || !target->present) return answer(slot, MfiStatus::device_not_found);
    TargetProperties properties;
    properties.max_io_kib = max_transfer_bytes / 1024;
    properties.queue_depth = std::min(256u, max_commands_ / 2);
    properties.sector_bytes = target->unit->block_bytes();
    answer_struct(slot, properties);
}

void Controller::tell_map(Slot& slot) noexcept {
    tell_map(slot, slot.management.frame.mailbox.bytes[1] == map_pend, map_told_, build_map);
}

void Controller::tell_pd_map(Slot& slot) noexcept {
    tell_map(slot, slot.management.frame.mailbox.bytes[0] == map_pend, pd_map_told_, build_pd_map);
}

/// `told`: the last configuration that was told so.
void Controller::tell_map(Slot& slot, bool pended, std::uint32_t& told, MapBuilder build) noexcept {
    if (pended && told == generation_) return pend(slot);
    const auto map =
        build(topology_,
              {.extended = extended_, .fast_path = options_.fast_path, .task_management = options_.task_management});
    if (slot.management.frame.header.data_bytes < map.size()) return answer(slot, MfiStatus::invalid_parameter);
    told = generation_;
    answer_with(slot, map);
}

void Controller::tell_events(Slot& slot) noexcept {
    const Mailbox& mailbox = slot.management.frame.mailbox;
    const Event* const event = events_.find(mailbox.word(0), mailbox.word(1));
    const bool waits = slot.management.frame.opcode == dcmd::ctrl_event_wait;
    if (event == nullptr) return waits ? pend(slot) : answer(slot, MfiStatus::not_found);
    if (waits) return answer_struct(slot, *event);
    std::vector<std::byte> bytes;
    append(bytes, EventList{.count = 1, .reserved = {}});
    append(bytes, *event);
    answer_with(slot, bytes);
}

}  // namespace mqblk::device::megaraid
