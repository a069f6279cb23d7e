// SPDX-License-Identifier: Apache-2.0
//
// The driver of the sTec S1120 PCIe SSD, whatever way leads to the card.
#pragma once

#include "driver/skd/options.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <cstdint>
#include <memory>
#include <string>

namespace mqblk {
class Reactor;
namespace pci {
class Function;
}
}  // namespace mqblk

namespace mqblk::driver::skd {

/// Whether a function so identified is an S1120; the error names it by `name`.
[[nodiscard]] Result<> check_id(const std::string& name, std::uint16_t vendor, std::uint16_t device);

/// Starts the card and gives its disk. `home` is a reactor as of Reactor::shareable(), in which the card lives from now
/// on: its interrupts, its model if it has one, its queue. Nobody else runs it; this does until the card is online or
/// an error is known, for 90 s at most, and so does the end of the device, which stops the card in order. The error
/// names the card and the remedy.
[[nodiscard]] Result<std::shared_ptr<Device>> open(std::unique_ptr<pci::Function> function,
                                                   std::shared_ptr<Reactor> home, const Options& options);

}  // namespace mqblk::driver::skd
