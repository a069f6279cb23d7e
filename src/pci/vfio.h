// SPDX-License-Identifier: Apache-2.0
//
// A Function that is a card, through Linux's VFIO: the IOMMU confines the card to the memory that was mapped for it, so
// no privilege is needed beyond access to the card's group in /dev/vfio. Linux's Documentation/driver-api/vfio.rst.
#pragma once

#include "pci/function.h"

#include <mqblk/error.h>

#include <memory>
#include <string>

namespace mqblk::pci {

/// `address` as lspci -D prints it: "0000:01:00.0". The error names the card and says what is missing: no such card,
/// not bound to vfio-pci, no IOMMU, no permission, in use; and the command that helps. `root` stands for "/" in tests.
[[nodiscard]] Result<std::unique_ptr<Function>> open_vfio(const std::string& address, const std::string& root = "");

/// Vendor and device, before anything of VFIO is touched: what Linux says of the card at `address`. The error says that
/// there is none, or how an address is written.
[[nodiscard]] Result<FunctionId> read_vfio_id(const std::string& address, const std::string& root = "");

}  // namespace mqblk::pci
