// SPDX-License-Identifier: Apache-2.0
//
// A Function whose device is a model in the same process. A register access is a direct call into the model; an
// interrupt is a flag and, where it is awaited, a wake-up of the reactor: no system calls, no locks, and nothing that
// depends on real time, so driver and model run unchanged in a simulated reactor.
#pragma once

#include "pci/function.h"
#include "pci/model.h"

#include <mqblk/error.h>

#include <cstdint>
#include <memory>

namespace mqblk::pci {

struct InProcessOptions {
    /// The model may reach all memory of the process at its own address, as a disk's data may lie anywhere. If not,
    /// only what the driver mapped can be reached, and every address is checked: for tests.
    bool reaches_everything = true;
    /// Areas are mapped into the driver, and the model has to poll them. If not, each write there is a call.
    bool map_areas = false;
};

/// Attaches `model` to `reactor`: call it on the reactor's thread, or while it does not run. Destroy the function there
/// too. The model is destroyed with the function.
[[nodiscard]] Result<std::unique_ptr<Function>> make_in_process(std::unique_ptr<Model> model, Reactor& reactor,
                                                                InProcessOptions options = {});

}  // namespace mqblk::pci
