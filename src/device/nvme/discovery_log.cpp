// SPDX-License-Identifier: Apache-2.0
//
// The discovery log: one record for each subsystem that the asking host may use, on each port of the transport that it
// came through. Header and records of one command are of one generation. NVMe-oF 1.1, section 5.3.
#include "device/nvme/commands.h"
#include "device/nvme/controller.h"
#include "device/nvme/page_window.h"
#include "device/nvme/target_impl.h"
#include "wire/nvme_fabrics.h"

namespace mqblk::device::nvme {

namespace {

wire::nvme::DiscoveryEntry describe(const PortConfig& port, const std::string& nqn) {
    wire::nvme::DiscoveryEntry entry;
    if (port.transport == "tcp") {
        const bool v6 = port.address.find(':') != std::string::npos;
        entry.transport = wire::nvme::transport_type::tcp;
        entry.address_family = v6 ? wire::nvme::address_family::ipv6 : wire::nvme::address_family::ipv4;
    } else {
        entry.transport = wire::nvme::transport_type::loop;
    }
    entry.subsystem_type = wire::nvme::subsystem_type::nvme;
    // Of a secure channel nothing is said, as other targets do: nvme-cli has no name for "not required" beside this
    // bit.
    entry.requirements = wire::nvme::discovery_requirement::flow_control_may_be_off;
    entry.port_id = static_cast<std::uint16_t>(port.id);
    entry.controller_id = wire::nvme::controller_id_dynamic;
    entry.admin_queue_size = admin_queue_depth;
    wire::nvme::set_text(entry.service_id, port.service, '\0');
    wire::nvme::set_text(entry.subsystem_nqn, nqn, '\0');
    wire::nvme::set_text(entry.address, port.address, '\0');
    return entry;
}

}  // namespace

void write_discovery_log(Controller& controller, PageWindow& page) {
    const auto view = controller.target.discovery_view(controller.port, controller.host_nqn);
    wire::nvme::DiscoveryHeader header;
    header.generation = view.generation;
    header.records = view.ports.size() * view.subsystems.size();
    page.append(header);
    for (const std::string& nqn : view.subsystems) {
        for (const PortConfig& port : view.ports) {
            if (page.wants(sizeof(wire::nvme::DiscoveryEntry))) {
                page.append(describe(port, nqn));
            } else {
                page.skip(sizeof(wire::nvme::DiscoveryEntry));
            }
        }
    }
}

}  // namespace mqblk::device::nvme
