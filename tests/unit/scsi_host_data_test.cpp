// SPDX-License-Identifier: Apache-2.0
//
// A command's data through memory of a pool, on its way to a card's host.
#include "device/scsi/host_data.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

namespace mqblk::device::scsi {
namespace {

// What lies in the pool's memory behind what the disk had is the last user's.
TEST(ScsiHostData, NoMoreIsDeliveredThanTheDiskHad) {
    const pci::HostMemory host(true);
    const auto pool = memory::BufferPool::create(64 << 10, 4096).value();
    std::vector<std::byte> first(100, std::byte{0xaa}), second(924, std::byte{0xaa});
    std::array<pci::DmaSegment, 2> ranges{{{reinterpret_cast<std::uintptr_t>(first.data()), first.size()},
                                           {reinterpret_cast<std::uintptr_t>(second.data()), second.size()}}};
    for (const std::uint32_t moved : {0u, 74u, 100u, 101u, 1024u}) {
        std::memset(first.data(), 0xaa, first.size());
        std::memset(second.data(), 0xaa, second.size());
        HostData data;
        data.begin();
        data.direction = Direction::to_initiator;
        data.bytes = 1024;
        data.range_room = ranges;
        data.ranges = ranges.size();
        ASSERT_EQ(data.ask(*pool), memory::BufferPool::Grant::granted);
        std::memset(data.copy.data, 0x55, 1024);  // somebody's secret
        Command command;
        ASSERT_TRUE(data.fill(host, command));
        command.status = wire::scsi::Status::good;
        command.transferred = moved;
        EXPECT_TRUE(data.deliver(host, command));
        for (std::size_t i = 0; i < 1024; ++i) {
            const std::byte found = i < first.size() ? first[i] : second[i - first.size()];
            ASSERT_EQ(found, i < moved ? std::byte{0x55} : std::byte{0xaa}) << moved << " bytes, at " << i;
        }
        const Segment copy = data.take_copy();
        pool->put(copy.data, copy.bytes);
    }
}

}  // namespace
}  // namespace mqblk::device::scsi
