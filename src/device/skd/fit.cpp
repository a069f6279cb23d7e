// SPDX-License-Identifier: Apache-2.0
#include "device/skd/fit.h"

#include <algorithm>

namespace mqblk::device::skd {

using namespace wire::skd;

FitRead read_message(const pci::HostMemory& memory, const Doorbell& bell, FitMessage& to) noexcept {
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(&to, 1)).first(bell.bytes);
    if (!memory.read(bell.address, bytes)) return {.error = FitError::unreadable};
    const unsigned said = to.header.requests;
    const unsigned room = (bell.bytes - sizeof to.header) / sizeof(ScsiRequest);
    const bool good = bell.queue == 0 && to.header.protocol_id == static_cast<std::uint8_t>(ProtocolId::sofit) &&
                      said > 0 && said <= room;
    return {.error = good ? FitError::none : FitError::malformed, .requests = std::min(said, room)};
}

}  // namespace mqblk::device::skd
