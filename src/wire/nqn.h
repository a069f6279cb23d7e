// SPDX-License-Identifier: Apache-2.0
//
// What a name of a host or subsystem must be, for whoever gives one: the host that calls itself by it, and the target
// that is told to let it in. NVMe 1.4, section 7.9.
#pragma once

#include <mqblk/error.h>

#include <string_view>

namespace mqblk::wire::nvme {

/// 1 to 223 printable characters that begin "nqn.". The error names `what`, the value and which rule was broken.
[[nodiscard]] Result<> check_nqn(std::string_view what, std::string_view nqn);

}  // namespace mqblk::wire::nvme
