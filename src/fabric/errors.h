// SPDX-License-Identifier: Apache-2.0
//
// What to tell people when a connection cannot be had; the same words whichever network it is.
#pragma once

#include "fabric/connection.h"

#include <mqblk/error.h>

namespace mqblk::fabric {

[[nodiscard]] Error connect_error(int error_number, const Address& to);
[[nodiscard]] Error listen_error(int error_number, const Address& at);

}  // namespace mqblk::fabric
