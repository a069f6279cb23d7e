// SPDX-License-Identifier: Apache-2.0
//
// A scripted host's session with a served target: connected, enabled, ready for I/O, with any digests.
#pragma once

#include "support/tcp_served.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

namespace mqblk::test {

inline constexpr std::uint32_t transfer_bytes = 65536;

inline Bytes pattern_of(std::size_t bytes, std::uint64_t seed) {
    Bytes data(bytes);
    SeededRandom random(seed);
    for (auto& byte : data) byte = static_cast<std::byte>(random.next());
    return data;
}

inline constexpr Digests all_digests[] = {{false, false}, {true, false}, {false, true}, {true, true}};

/// An admin queue and one I/O queue of a controller.
struct Session {
    Session(const Served& served, Digests digests, std::uint32_t max_r2t = 0, std::uint16_t sq_size = 127,
            std::uint8_t hpda = 0)
        : admin(served.dial()), io(served.dial()) {
        EXPECT_TRUE(admin->initialize(digests));
        const auto connected = admin->connect(0, served_nqn, 0xffff);
        EXPECT_TRUE(connected && wire::nvme::status_of(*connected) == 0);
        EXPECT_TRUE(admin->enable());
        EXPECT_TRUE(io->initialize(digests, max_r2t, hpda));
        const auto joined = io->connect(1, served_nqn, static_cast<std::uint16_t>(connected->result), sq_size);
        EXPECT_TRUE(joined && wire::nvme::status_of(*joined) == 0);
    }
    /// Announces a write of 64 KiB and gets the R2T for it.
    wire::nvme_tcp::R2T write(std::uint16_t id, std::uint64_t block = 0, std::uint32_t bytes = transfer_bytes) {
        EXPECT_TRUE(io->send(io->capsule(ScriptedHost::io(wire::nvme::io_opcode::write, id, block, bytes / 512))));
        const auto r2t = io->expect<wire::nvme_tcp::R2T>();
        EXPECT_TRUE(r2t && r2t->cccid == id && r2t->r2to == 0u);
        return r2t.value_or(wire::nvme_tcp::R2T{});
    }
    std::optional<Bytes> read(std::uint64_t block, std::uint32_t bytes) {
        return io->read(ScriptedHost::io(wire::nvme::io_opcode::read, 0x77, block, bytes / 512));
    }
    std::unique_ptr<ScriptedHost> admin, io;
};

}  // namespace mqblk::test
