// SPDX-License-Identifier: Apache-2.0
//
// Identify: what the controller and its namespaces say of themselves. Every figure that limits a host comes from
// AnnouncedLimits or from the device as it is now. NVMe 1.4, section 5.15; NVMe-oF 1.1, section 4.1.
#include "wire/nvme_identify.h"

#include "device/nvme/commands.h"
#include "device/nvme/controller.h"
#include "device/nvme/page_window.h"
#include "device/nvme/target_impl.h"
#include "wire/nvme_fabrics.h"

#include <algorithm>
#include <bit>
#include <memory>

namespace mqblk::device::nvme {

namespace status = wire::nvme::status;
namespace cns = wire::nvme::cns;
using wire::nvme::Command;

namespace {

void describe_io_controller(const AnnouncedLimits& limits, wire::nvme::IdentifyController& page) {
    page.cmic = wire::nvme::cmic::multi_port | wire::nvme::cmic::multi_controller | wire::nvme::cmic::ana;
    page.cntrltype = wire::nvme::controller_type::io;
    page.acl = abort_limit - 1;
    page.frmw = 0x03;  // one slot, read-only
    page.lpa = wire::nvme::lpa::smart_per_namespace | wire::nvme::lpa::effects | wire::nvme::lpa::extended_data;
    page.anatt = 10;
    page.anacap = 0x01;  // reports the optimized state
    page.anagrpmax = ana_groups;
    page.nanagrpid = ana_groups;
    page.sqes = 0x66;
    page.cqes = 0x44;
    page.nn = limits.max_namespaces;
    page.mnan = limits.max_namespaces;
    page.oncs = wire::nvme::oncs::compare | wire::nvme::oncs::dataset_management | wire::nvme::oncs::write_zeroes |
                wire::nvme::oncs::save_select | wire::nvme::oncs::timestamp | wire::nvme::oncs::verify;
    page.fuses = wire::nvme::fuses_compare_and_write;
    page.vwc = wire::nvme::vwc_present | 2 << 1;  // Flush takes one namespace, not all
    page.acwu = fused_blocks - 1;
    page.ioccsz = (sqe_bytes + limits.in_capsule_bytes) / 16;
    page.iorcsz = sizeof(wire::nvme::Completion) / 16;
    page.ofcs = 1;  // Disconnect
}

std::uint16_t identify_controller(Controller& controller, PageWindow& page) {
    const AnnouncedLimits& limits = controller.target.limits;
    const Subsystem& subsystem = *controller.subsystem;
    const auto id = std::make_unique<wire::nvme::IdentifyController>();
    wire::nvme::set_text(id->sn, subsystem.serial, ' ');
    wire::nvme::set_text(id->mn, subsystem.model, ' ');
    wire::nvme::set_text(id->fr, "0.1", ' ');
    id->mdts = page_exponent(limits.max_transfer_bytes);
    id->cntlid = controller.id;
    id->ver = wire::nvme::version_1_4;
    id->rtd3e = 1'000'000;
    id->oaes = controller.events.supported();
    id->ctratt = wire::nvme::ctratt::host_id_128 | wire::nvme::ctratt::traffic_based_keep_alive;
    id->aerl = static_cast<std::uint8_t>(limits.async_events - 1);
    id->elpe = error_log_entries - 1;
    id->kas = limits.keep_alive_granularity_ms / 100;
    id->maxcmd = limits.max_queue_entries;
    id->sgls = wire::nvme::sgls_supported | wire::nvme::sgls_in_capsule_offset;
    id->msdbd = 1;
    wire::nvme::set_text(id->subnqn, subsystem.nqn, '\0');
    if (controller.serves_cross_reset()) {
        // CQT stays unstated: how long a backend may take is not this target's to promise.
        id->ciu = controller.instance_name.uniquifier;
        id->cirn = controller.instance_name.random;
        id->ccrl = CrossResets::limit;
    }
    if (subsystem.discovery) {
        id->cntrltype = wire::nvme::controller_type::discovery;
        id->lpa = wire::nvme::lpa::extended_data;
    } else {
        describe_io_controller(limits, *id);
    }
    page.append(*id);
    return status::success;
}

/// Zero-based blocks in `bytes`, at least one, as much as the field can say.
std::uint16_t zero_based_blocks(std::uint64_t bytes, unsigned shift) noexcept {
    const std::uint64_t blocks = std::max<std::uint64_t>(bytes >> shift, 1);
    return static_cast<std::uint16_t>(std::min<std::uint64_t>(blocks - 1, 0xffff));
}

std::uint16_t identify_namespace(Controller& controller, std::uint32_t nsid, PageWindow& page) {
    if (nsid == 0 || nsid > controller.target.limits.max_namespaces)
        return status::permanent(status::invalid_namespace);
    const auto ns = controller.subsystem->get(nsid);
    const auto device = ns ? ns->device() : nullptr;
    if (!device) return status::success;  // not active: all zeroes
    ns->refresh();
    const QueueLimits limits = device->limits();
    const unsigned shift = ns->block_shift;
    const auto id = std::make_unique<wire::nvme::IdentifyNamespace>();
    id->nsze = id->ncap = id->nuse = ns->blocks.load(std::memory_order_relaxed);
    id->nsfeat = wire::nvme::nsfeat::optimal_io;
    if (ns->can_discard.load(std::memory_order_relaxed)) id->nsfeat |= wire::nvme::nsfeat::thin;
    id->nmic = wire::nvme::nmic_shared;
    id->dlfeat = wire::nvme::dlfeat_write_zeroes_deallocate;
    const std::uint32_t chunk_blocks = limits.chunk_sectors >> (shift - 9);
    if (std::has_single_bit(chunk_blocks) && chunk_blocks <= 0xffff)
        id->noiob = static_cast<std::uint16_t>(chunk_blocks);
    const le64 capacity = std::uint64_t{id->nsze} << shift;
    std::copy_n(reinterpret_cast<const std::uint8_t*>(&capacity), sizeof capacity, id->nvmcap);
    id->npwg = id->npwa = zero_based_blocks(std::max(limits.physical_block_size, limits.io_min), shift);
    id->npdg = id->npda = zero_based_blocks(limits.discard_granularity, shift);
    id->nows = zero_based_blocks(std::max({limits.io_opt, limits.io_min, limits.physical_block_size}), shift);
    id->anagrpid = ana_groups;
    if (ns->read_only.load(std::memory_order_relaxed)) id->nsattr = wire::nvme::nsattr_write_protected;
    id->nguid = ns->nguid;
    id->lbaf[0].data_shift = static_cast<std::uint8_t>(shift);
    page.append(*id);
    return status::success;
}

std::uint16_t active_namespaces(Controller& controller, std::uint32_t after, PageWindow& page) {
    if (after >= 0xfffffffe) return status::permanent(status::invalid_namespace);
    const rcu::ReadLock reading;
    controller.subsystem->namespaces().for_each(after + 1, [&](std::uint32_t nsid, const Namespace&) {
        page.append(le32{nsid});
        return page.position() < wire::nvme::identify_bytes;
    });
    return status::success;
}

template <std::size_t Bytes>
void append_descriptor(PageWindow& page, std::uint8_t type, const std::array<std::uint8_t, Bytes>& id) {
    page.append(wire::nvme::NamespaceDescriptor{type, Bytes, {}});
    page.append(id);
}

std::uint16_t namespace_descriptors(Controller& controller, std::uint32_t nsid, PageWindow& page) {
    const auto ns = controller.subsystem->get(nsid);
    if (!ns) return status::permanent(status::invalid_namespace);
    append_descriptor(page, wire::nvme::descriptor_type::uuid, ns->uuid);
    append_descriptor(page, wire::nvme::descriptor_type::nguid, ns->nguid);
    append_descriptor(page, wire::nvme::descriptor_type::csi, std::array<std::uint8_t, 1>{wire::nvme::csi_nvm});
    return status::success;
}

std::uint16_t identify_controller_nvm(Controller& controller, PageWindow& page) {
    const auto id = std::make_unique<wire::nvme::IdentifyControllerNvm>();
    id->vsl = page_exponent(controller.target.limits.max_transfer_bytes);
    page.append(*id);
    return status::success;
}

}  // namespace

std::uint16_t identify(Controller& controller, const Command& sqe, Segments data) {
    PageWindow page(data, 0);
    const std::uint8_t what = wire::nvme::identify_cns(sqe);
    if (what == cns::controller) return identify_controller(controller, page);
    if (controller.subsystem->discovery) return status::permanent(status::invalid_field);
    const bool nvm = wire::nvme::identify_csi(sqe) == wire::nvme::csi_nvm;
    switch (what) {
        case cns::identify_namespace:
            return identify_namespace(controller, sqe.namespace_id, page);
        case cns::active_namespaces:
            return active_namespaces(controller, sqe.namespace_id, page);
        case cns::descriptors:
            return namespace_descriptors(controller, sqe.namespace_id, page);
        case cns::command_set_namespace:
            if (!nvm) return status::permanent(status::invalid_field);
            // The NVM command set's page holds protection formats only, and there are none: zeroes.
            return controller.subsystem->get(sqe.namespace_id) ? status::success
                                                               : status::permanent(status::invalid_namespace);
        case cns::command_set_controller:
            return nvm ? identify_controller_nvm(controller, page) : status::permanent(status::invalid_field);
        case cns::command_set_active_namespaces:
            return nvm ? active_namespaces(controller, sqe.namespace_id, page)
                       : status::permanent(status::invalid_field);
        case cns::command_set_list:
            page.append(le64{1});  // combination 0: the NVM command set
            return status::success;
        default:
            return status::permanent(status::invalid_field);
    }
}

}  // namespace mqblk::device::nvme
