// SPDX-License-Identifier: Apache-2.0
//
// The options that every scheme has: attributes of the device's queue under the names and in the units of Linux's
// /sys/block/X/queue, set once the device is open. What they may be is the block layer's to say (block/attributes.cpp).
#pragma once

#include "registry/options.h"
#include "registry/uri.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <span>

namespace mqblk::registry {

[[nodiscard]] std::span<const OptionInfo> queue_options() noexcept;

/// Takes the queue's options out of `uri` and returns them, scheduler first: its own options depend on it. An error
/// where one is given twice.
[[nodiscard]] Result<std::vector<Uri::Option>> take_queue_options(Uri& uri);

/// An error names the scheme, the option, the value and what would do.
[[nodiscard]] Result<> set_queue_options(Device&, std::string_view scheme, const std::vector<Uri::Option>&);

}  // namespace mqblk::registry
