// SPDX-License-Identifier: Apache-2.0
#include "cli/discovery.h"

#include "cli/names.h"
#include "cli/session.h"
#include "driver/nvme/host_identity.h"
#include "registry/services.h"

#include <fmt/format.h>

namespace mqblk::cli {

using driver::nvme::DiscoveryEntry;
using driver::nvme::HostOptions;

HostOptions short_lived(const std::string& host_nqn) {
    HostOptions options;
    options.host_nqn = host_nqn;
    options.queues = 1;
    options.ctrl_loss_tmo = std::chrono::seconds(command_loss_tmo_s);
    return options;
}

Result<std::vector<DiscoveryEntry>> ask_discovery(registry::Services& services, const std::string& text,
                                                  const std::string& host_nqn) {
    const auto address = fabric::Address::parse(text, nvme_tcp_port);
    if (!address) return std::unexpected(address.error());
    const auto parts = services.host();
    if (!parts) return std::unexpected(parts.error());
    return parts->control->wait_for([&] { return parts->host->discover(*address, short_lived(host_nqn)); });
}

std::string nothing_offered(const std::string& address, const std::string& host_nqn) {
    const auto identity = driver::nvme::host_identity(host_nqn, "");
    return fmt::format(
        "{} offers no subsystem to the host '{}'; allow it there with --allow-host, or name one that is "
        "allowed with --hostnqn",
        address, identity ? identity->nqn : host_nqn);
}

}  // namespace mqblk::cli
