// SPDX-License-Identifier: Apache-2.0
//
// What is behind a controller, for people: its disks and volumes with the URIs that name them. Listing opens the
// controller, starts it if it must, and lets go of it.
#pragma once

#include "registry/uri.h"

#include <mqblk/error.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mqblk::registry {

class Services;
struct SchemeInfo;

struct ControllerListing {
    struct Disk {
        std::string uri;   ///< opens it
        std::string kind;  ///< "disk", or "volume" of several
        unsigned id = 0;
        std::uint64_t bytes = 0;
        std::uint32_t block = 0;  ///< bytes of a logical block
        std::string model, serial;
        std::optional<unsigned> raid_level{};  ///< of a volume, where the controller tells
    };
    std::string uri, driver;
    std::vector<std::pair<std::string, std::string>> details;  ///< what it says of itself, in order
    std::vector<Disk> disks;
};

/// The controller that `uri` leads to, with or without a disk's name. The error is one that opening would give, or says
/// that URIs of this scheme lead to no controller.
[[nodiscard]] Result<ControllerListing> list_controller(Services& services, const Uri& uri);

// By driver, and file.
[[nodiscard]] Result<ControllerListing> list_megaraid(Services&, const Uri&, const SchemeInfo&);  // open_megaraid.cpp
[[nodiscard]] Result<ControllerListing> list_skd(Services&, const Uri&);                          // listing.cpp

}  // namespace mqblk::registry
