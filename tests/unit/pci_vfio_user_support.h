// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the vfio-user server share.
#pragma once

#include "base/log.h"
#include "memory/buffer.h"
#include "unit/pci_served.h"

#include <gtest/gtest.h>

namespace mqblk::test {

inline constexpr std::uint64_t mapped_at = 1ull << 32;  ///< where clients map their memory
inline constexpr std::uint64_t mapped_bytes = 64 << 10;

class VfioUserServer : public testing::Test {
  protected:
    VfioUserServer() { set_log_level(LogLevel::off); }
    ~VfioUserServer() override { set_log_level(LogLevel::warning); }

    /// A ring at `mapped_at`, its count of completions at +0x800, data above 0x1000.
    static void set_up_ring(RawClient& client) {
        ASSERT_EQ(client.write_register(copy_device::ring_address, mapped_at, 8), 0);
        ASSERT_EQ(client.write_register(copy_device::ring_entries, 16, 4), 0);
        ASSERT_EQ(client.write_register(copy_device::done_address, mapped_at + 0x800, 8), 0);
    }
    static void describe(std::byte* ring, std::uint64_t from, std::uint64_t to, std::uint32_t bytes) {
        const copy_device::Descriptor command{from, to, bytes, 0u};
        std::memcpy(ring, &command, sizeof command);
    }
    static memory::Buffer shared_memory() {
        return memory::Buffer::allocate(mapped_bytes, memory::Backing::shared).value();
    }
    /// The payload of a write to a register.
    static std::vector<std::byte> register_write(std::uint64_t offset, std::uint64_t value, unsigned bytes,
                                                 std::uint32_t region = 2) {
        return bytes_of(wire::vfio_user::RegionAccess{offset, region, bytes},
                        std::as_bytes(std::span(&value, 1)).first(bytes));
    }

    ServedDevice served;
};

}  // namespace mqblk::test
