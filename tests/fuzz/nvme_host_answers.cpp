// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a target's answers. The first byte chooses the digests and whether the connection is initialized before,
// the second how the bytes are cut. No command ends twice, none ends well without its data, and nothing is written
// outside of a command's memory (the sanitizer sees that).
#include "support/tcp_pair_exerciser.h"

#include <algorithm>
#include <cstdlib>

using namespace mqblk;
using namespace mqblk::test;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    if (size < 2) return 0;
    const bool header_digest = (bytes[0] & 1) != 0, data_digest = (bytes[0] & 2) != 0;
    TcpPairExerciser ex({header_digest, data_digest, 4096}, bytes[1] == 0 ? SIZE_MAX : bytes[1]);
    if ((bytes[0] & 4) == 0) {
        ex.accept(bytes[0] & 3);
        if (!ex.pair->initialized()) std::abort();
    }
    const driver::nvme::Transfer transfers[] = {driver::nvme::Transfer::to_host, driver::nvme::Transfer::to_target,
                                                driver::nvme::Transfer::none};
    constexpr std::size_t lengths[] = {512, 4096, 8192, 65536};
    for (std::uint16_t id = 0; id < 12 && ex.pair->initialized(); ++id) {
        ex.submit(id, transfers[id % 3], lengths[id % 4]);
    }
    ex.feed(std::as_bytes(std::span(bytes + 2, size - 2)));
    ex.pump();
    for (const auto& slot : ex.slots) {
        if (slot->completions > 1) std::abort();
        const auto& capsule = slot->capsule;
        const bool ok = slot->completions == 1 && (slot->status & wire::nvme::status::code_mask) == 0;
        if (ok && capsule.moved != capsule.bytes()) std::abort();
    }
    return 0;
}
