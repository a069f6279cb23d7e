// SPDX-License-Identifier: Apache-2.0
//
// Request frames, scatter-gather lists, chains, management frames and task management of a hostile host, with memory
// behind them. The first bytes of the input say which requests are posted and how; the rest is what lies in the host's
// memory, request frames from SMID 0 on. Every request that is taken must end once; nothing may crash or hang.
#include "support/megaraid_fuzz.h"

#include <algorithm>
#include <bit>
#include <span>

namespace {

using namespace mqblk;
using namespace mqblk::wire::megaraid;

constexpr unsigned most_requests = 16;

void run(std::span<const std::uint8_t> input) {
    static test::MrFuzz fuzz;
    if (input.size() < 2) return;
    fuzz.bring_up();
    const unsigned requests = 1 + input[0] % most_requests;
    const std::uint8_t type = request_flags(static_cast<RequestType>(input[1] & 7));
    const bool changes = (input[1] & 0x80) != 0;
    const auto image = input.subspan(2);
    std::memset(fuzz.memory(), 0, test::MrFuzz::replies_offset);
    std::memcpy(fuzz.memory(), image.data(), std::min(image.size(), test::MrFuzz::replies_offset));
    for (unsigned i = 1; i <= requests; ++i) {
        const RequestDescriptor descriptor{type, static_cast<std::uint8_t>(i), static_cast<std::uint16_t>(i), 0, 0};
        fuzz.bar().write64(reg::inbound_low_queue_port, std::bit_cast<std::uint64_t>(descriptor));
        // Memory changes between two requests.
        if (changes) {
            fuzz.settle();
            std::reverse(fuzz.memory() + io_frame_bytes, fuzz.memory() + io_frame_bytes * (requests + 1));
        }
    }
    fuzz.settle();
    fuzz.controller().pull_disk(1);  // what waits for a change has one
    fuzz.settle();
    fuzz.controller().put_disk(1);
    fuzz.bring_up();
    fuzz.check();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    run({data, size});
    return 0;
}
