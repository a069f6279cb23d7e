// SPDX-License-Identifier: Apache-2.0
//
// Any bytes from a host into a whole target. The first byte chooses how far the connection has come when they arrive
// (nothing, initialized, admin queue, I/O queue) and the digests; the second how they are cut. Afterwards the
// connection is gone, nothing is left of it, and the target goes on with the next.
#include "base/log.h"
#include "support/memory_served.h"

#include <cstdint>
#include <cstdlib>
#include <optional>

namespace {

using namespace mqblk;
using namespace mqblk::test;

/// A target with an administrator's connection, so that I/O queues can be made.
struct World {
    World() : admin(std::make_unique<MemoryLink>(served)) {
        set_log_level(LogLevel::off);
        if (!admin.initialize()) std::abort();
        const auto connected = admin.connect(0, served_nqn, 0xffff);
        if (!connected || wire::nvme::status_of(*connected) != 0 || !admin.enable()) std::abort();
        controller = static_cast<std::uint16_t>(connected->result);
    }
    MemoryServed served;
    ScriptedHost admin;
    std::uint16_t controller = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    if (size < 2) return 0;
    static std::optional<World> world;
    static unsigned runs = 0;
    if (runs++ % 4096 == 0) world.emplace();  // before its keep-alive ends

    auto owned = std::make_unique<MemoryLink>(world->served);
    MemoryLink& link = *owned;
    ScriptedHost host(std::move(owned));
    const unsigned stage = bytes[0] % 4;
    const Digests digests{(bytes[0] & 4) != 0, (bytes[0] & 8) != 0};
    if (stage >= 1 && !host.initialize(digests, bytes[0] >> 6)) std::abort();
    if (stage == 2 && !host.connect(0, served_nqn, 0xffff)) std::abort();
    if (stage == 2 && (bytes[0] & 16) != 0 && !host.enable()) std::abort();
    if (stage == 3 && !host.connect(1, served_nqn, world->controller, 15, (bytes[0] & 16) != 0)) std::abort();

    const std::size_t step = bytes[1] == 0 ? SIZE_MAX : bytes[1];
    std::span<const std::byte> rest = std::as_bytes(std::span(bytes + 2, size - 2));
    while (!rest.empty()) {
        const auto piece = rest.first(std::min(step, rest.size()));
        if (!host.send(piece)) break;
        rest = rest.subspan(piece.size());
        world->served.pump();
    }
    for (int i = 0; i < 4; ++i) world->served.pump();
    link.line.close();
    if (!world->served.pump_until([] { return world->served.tcp->connections() == 1; })) std::abort();
    return 0;
}
