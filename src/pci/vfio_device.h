// SPDX-License-Identifier: Apache-2.0
//
// A card's VFIO descriptors: container (its IOMMU address space), group and device, opened in the order that Linux asks
// for (Documentation/driver-api/vfio.rst). Each step that can fail says what to do about it.
#pragma once

#include "pci/dma_space.h"
#include "pci/unix_socket.h"

#include <mqblk/error.h>

#include <string>

namespace mqblk::pci {

struct VfioDevice {
    OwnedFd container, group, device;
    DmaSpace::Options addresses;  ///< that its IOMMU translates
};

/// See open_vfio.
[[nodiscard]] Result<VfioDevice> open_vfio_device(const std::string& address, const std::string& root);

}  // namespace mqblk::pci
