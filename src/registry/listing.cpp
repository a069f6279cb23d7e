// SPDX-License-Identifier: Apache-2.0
#include "registry/listing.h"

#include "block/driver.h"
#include "block/queue.h"
#include "registry/schemes.h"
#include "registry/services.h"

#include <fmt/format.h>

namespace mqblk::registry {

/// A card is one disk.
Result<ControllerListing> list_skd(Services& services, const Uri& uri) {
    const auto device = services.open(uri);
    if (!device) return std::unexpected(device.error());
    const Identity identity = (*device)->identity();
    ControllerListing listing;
    listing.uri = uri.to_string();
    listing.driver = identity.driver;
    listing.details = block::disk_of((*device)->core()).details;
    listing.disks.push_back({.uri = listing.uri,
                             .kind = "disk",
                             .bytes = (*device)->sectors() * sector_bytes,
                             .block = (*device)->limits().logical_block_size,
                             .model = identity.model,
                             .serial = identity.serial});
    return listing;
}

Result<ControllerListing> list_controller(Services& services, const Uri& uri) {
    const auto scheme = find_scheme(uri.scheme);
    if (!scheme) return std::unexpected(scheme.error());
    if (uri.scheme.starts_with("megaraid+")) return list_megaraid(services, uri, **scheme);
    if (uri.scheme.starts_with("skd+")) return list_skd(services, uri);
    return fail(Errc::invalid_argument,
                fmt::format("{}: names a device and no controller with several; `mqblk info` says what it is",
                            uri.to_string()));
}

}  // namespace mqblk::registry
