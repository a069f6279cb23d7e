// SPDX-License-Identifier: Apache-2.0
//
// The regions of a function behind a vfio-user socket: how large its BARs and its configuration space are, and those
// parts of BARs that are mapped here: few and small ones, whatever the server offers. Their places stay the same from
// one server to the next.
#pragma once

#include "pci/config.h"
#include "pci/vfio_user_link.h"

#include <mqblk/error.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace mqblk::pci {

struct MappedArea {
    std::uint64_t offset, bytes;
    std::byte* memory;
};

struct RemoteBar {
    std::uint64_t bytes = 0;  ///< 0: there is none
    std::vector<MappedArea> areas;
};

class VfioUserRegions {
  public:
    explicit VfioUserRegions(bool map_areas) noexcept : map_areas_(map_areas) {}
    ~VfioUserRegions();
    VfioUserRegions(const VfioUserRegions&) = delete;
    VfioUserRegions& operator=(const VfioUserRegions&) = delete;

    /// Asks the server. The second time its answers must be the same, and areas are mapped where they were.
    [[nodiscard]] Result<> query(VfioUserLink& link, const std::string& name);
    /// The server is gone: areas read as ones from now on, and what is written there goes nowhere.
    void cover() noexcept;

    [[nodiscard]] const std::array<RemoteBar, bar_count>& bars() const noexcept { return bars_; }
    [[nodiscard]] std::uint64_t config_bytes() const noexcept { return config_bytes_; }

  private:
    [[nodiscard]] Result<> query_bar(VfioUserLink& link, const std::string& name, unsigned index);
    [[nodiscard]] Result<> map_areas(const std::string& name, unsigned index, const Message& info,
                                     const wire::vfio_user::RegionInfo& region);

    const bool map_areas_;
    bool known_ = false;
    std::array<RemoteBar, bar_count> bars_;
    std::uint64_t mapped_bytes_ = 0;  ///< of all areas
    std::uint64_t config_bytes_ = 0;
};

}  // namespace mqblk::pci
