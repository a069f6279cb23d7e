// SPDX-License-Identifier: Apache-2.0
//
// A request's scatter-gather list, straight from the bio's memory where the card can reach that: mapped for it, and
// in multiples of four bytes. Else the data are copied through memory that fits.
#pragma once

#include "block/request.h"
#include "driver/skd/io_queue.h"

namespace mqblk::driver::skd {

/// Writes the list of a request that carries data and, where they are copied, the data that it writes. False: there
/// is too little memory to copy through now.
[[nodiscard]] bool gather(const block::Request& request, Context& context, CommandMemory& memory) noexcept;

/// The card is done with it. `filled`: a read went well, and what was copied goes to the caller's memory.
void let_go(const block::Request& request, Context& context, CommandMemory& memory, bool filled) noexcept;

}  // namespace mqblk::driver::skd
