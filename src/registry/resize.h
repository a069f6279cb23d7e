// SPDX-License-Identifier: Apache-2.0
//
// Changes the size of a device that is open and in use. Users of the device see the change at once.
#pragma once

#include "registry/uri.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <cstdint>

namespace mqblk::registry {

/// `uri` is what `device` was opened with. Null, RAM and file devices can be resized; shrinking loses what lay beyond.
[[nodiscard]] Result<> resize_device(Device& device, const Uri& uri, std::uint64_t bytes);

}  // namespace mqblk::registry
