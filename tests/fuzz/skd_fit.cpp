// SPDX-License-Identifier: Apache-2.0
//
// FIT messages, scatter-gather lists and CDBs of a hostile host, with memory behind them. The first two bytes of the
// input say how many doorbells are rung and of what size; the rest is what lies in the host's memory. Every request
// that the card takes must end once; nothing may crash or hang.
#include "support/skd_fuzz.h"

#include <algorithm>
#include <cstring>

namespace {

using namespace mqblk;

void run(std::span<const std::uint8_t> input) {
    static test::SkdFuzz fuzz;
    if (input.size() < 2) return;
    if (fuzz.card().state() != wire::skd::DriveState::online) fuzz.bring_up();
    const unsigned bells = 1 + (input[0] & 7);
    const unsigned size = 64u << (input[1] & 3);
    const unsigned queue = (input[1] >> 2 & 3) == 3 ? 1 : 0;
    const auto image = input.subspan(2);
    std::memset(fuzz.memory(), 0, test::SkdFuzz::ring_offset);
    std::memcpy(fuzz.memory(), image.data(), std::min(image.size(), test::SkdFuzz::ring_offset));
    for (unsigned i = 0; i < bells; ++i) {
        const std::uint64_t at = fuzz.address(std::size_t{512} * i);
        fuzz.bar().write64(wire::skd::reg::q_command,
                           wire::skd::encode({.address = at, .bytes = size, .queue = queue}));
    }
    fuzz.settle();
    fuzz.check();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    run({data, size});
    return 0;
}
