// SPDX-License-Identifier: Apache-2.0
//
// Get Log Page. A page is generated at the moment it is asked for, from its start; the command takes the window that it
// names by offset and length, so a page may be read in pieces of any size. NVMe 1.4, section 5.14.
#include "wire/nvme_logs.h"

#include "device/nvme/commands.h"
#include "device/nvme/controller.h"
#include "device/nvme/page_window.h"
#include "device/nvme/target_impl.h"
#include "wire/nvme_fabrics.h"

#include <memory>

namespace mqblk::device::nvme {

namespace status = wire::nvme::status;
namespace log_id = wire::nvme::log_id;
using wire::nvme::Command;

namespace {

std::uint16_t write_smart(Controller& controller, std::uint32_t nsid, PageWindow& page) {
    IoTotals totals;
    if (nsid == 0 || nsid == wire::nvme::nsid_all) {
        for (const auto& ns : controller.subsystem->all()) totals.add(ns->totals());
    } else {
        const auto ns = controller.subsystem->get(nsid);
        if (!ns) return status::permanent(status::invalid_namespace);
        totals = ns->totals();
    }
    wire::nvme::SmartLog log;
    log.available_spare = 100;
    log.data_units_read.low = (totals.sectors_read + 999) / 1000;
    log.data_units_written.low = (totals.sectors_written + 999) / 1000;
    log.host_reads.low = totals.reads;
    log.host_writes.low = totals.writes;
    log.media_errors.low = totals.media_errors;
    log.error_log_entries.low = controller.errors.count();
    page.append(log);
    return status::success;
}

void write_firmware(PageWindow& page) {
    wire::nvme::FirmwareLog log;
    log.active = 1;
    wire::nvme::set_text(log.revision[0], "0.1", ' ');
    page.append(log);
}

void write_effects(PageWindow& page) {
    namespace effect = wire::nvme::effect;
    namespace admin = wire::nvme::admin_opcode;
    namespace io = wire::nvme::io_opcode;
    const auto log = std::make_unique<wire::nvme::EffectsLog>();
    for (const std::uint8_t opcode :
         {admin::get_log_page, admin::identify, admin::abort, admin::set_features, admin::get_features,
          admin::async_event_request, admin::keep_alive, admin::fabrics}) {
        log->admin[opcode] = effect::supported;
    }
    for (const std::uint8_t opcode : {io::flush, io::read, io::compare, io::verify, admin::fabrics}) {
        log->io[opcode] = effect::supported;
    }
    for (const std::uint8_t opcode : {io::write, io::write_zeroes, io::dataset_management}) {
        log->io[opcode] = effect::supported | effect::changes_data;
    }
    page.append(*log);
}

/// Section 5.14.1.12. One group, always optimized. The page is as long as it would be with all namespaces that can be:
/// hosts compute its length from MNAN and read that far, in pieces.
void write_ana(Controller& controller, bool groups_only, PageWindow& page) {
    const auto [change_count, nsids] = controller.subsystem->inventory();
    wire::nvme::AnaHeader header;
    header.change_count = change_count;
    header.groups = ana_groups;
    page.append(header);
    wire::nvme::AnaGroup group;
    group.group_id = ana_groups;
    group.namespaces = groups_only ? 0u : static_cast<std::uint32_t>(nsids.size());
    group.change_count = change_count;
    group.state = wire::nvme::ana_state::optimized;
    page.append(group);
    if (!groups_only) {
        for (const std::uint32_t nsid : nsids) page.append(le32{nsid});
    }
    const std::uint64_t longest = sizeof header + sizeof group + sizeof(le32) * controller.target.limits.max_namespaces;
    page.skip(longest - page.position());
}

std::uint16_t write_page(Controller& controller, const Command& sqe, PageWindow& page) {
    const std::uint8_t id = wire::nvme::log_page_of(sqe);
    if (controller.subsystem->discovery != (id == log_id::discovery)) {
        return status::permanent(status::invalid_log_page);
    }
    switch (id) {
        case log_id::error:
            controller.errors.write(page);
            return status::success;
        case log_id::smart:
            return write_smart(controller, sqe.namespace_id, page);
        case log_id::firmware:
            write_firmware(page);
            return status::success;
        case log_id::changed_namespaces:
            controller.write_changed(page);
            return status::success;
        case log_id::effects:
            if (sqe.cdw14 >> 24 != 0) return status::permanent(status::invalid_field);  // other command sets
            write_effects(page);
            return status::success;
        case log_id::ana:
            write_ana(controller, (sqe.cdw10 & wire::nvme::log_ana_groups_only) != 0, page);
            return status::success;
        case log_id::discovery:
            write_discovery_log(controller, page);
            return status::success;
        default:
            return status::permanent(status::invalid_log_page);
    }
}

}  // namespace

std::uint16_t get_log_page(Controller& controller, const Command& sqe, Segments data) {
    const std::uint64_t offset = wire::nvme::log_offset_of(sqe);
    PageWindow page(data, offset);
    if (offset % 4 != 0) return status::permanent(status::invalid_field);
    if (const auto why = write_page(controller, sqe, page)) return why;
    if (offset > page.position()) return status::permanent(status::invalid_field);
    if ((sqe.cdw10 & wire::nvme::log_retain_event) == 0) {
        const std::uint8_t id = wire::nvme::log_page_of(sqe);
        controller.events.log_read(id);
        if (id == log_id::changed_namespaces) controller.forget_changed();
    }
    return status::success;
}

}  // namespace mqblk::device::nvme
