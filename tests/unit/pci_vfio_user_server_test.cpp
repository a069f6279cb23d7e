// SPDX-License-Identifier: Apache-2.0
//
// The vfio-user server with a client that follows the published protocol to the letter.
#include "pci/vfio_user_version.h"
#include "unit/pci_vfio_user_support.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

namespace mqblk::test {
namespace {

namespace vu = wire::vfio_user;
namespace cd = copy_device;
using vu::Command;

TEST_F(VfioUserServer, DescribesItsDevice) {
    RawClient client(served.path());
    ASSERT_TRUE(client.negotiate());
    ASSERT_EQ(client.ask(Command::device_get_info, vu::DeviceInfo{16, 0, 0, 0}), 0);
    const auto device = client.answer_as<vu::DeviceInfo>();
    EXPECT_EQ(device.argument_size, 16u);
    EXPECT_EQ(device.flags, vu::device_reset | vu::device_pci);
    EXPECT_EQ(device.regions, 9u);
    EXPECT_EQ(device.irqs, 5u);

    const std::uint64_t sizes[] = {256, 0, 0x4000, 0, 0, 0, 0, 4096, 0};
    for (std::uint32_t i = 0; i < 9; ++i) {
        ASSERT_EQ(client.ask(Command::device_get_region_info, vu::RegionInfo{32, 0, i, 0, 0, 0}), 0);
        const auto region = client.answer_as<vu::RegionInfo>();
        EXPECT_EQ(region.index, i);
        EXPECT_EQ(region.size, sizes[i]) << i;
        EXPECT_EQ(region.flags & 3, sizes[i] != 0 ? 3u : 0u) << i;
        EXPECT_EQ(region.capability_offset, i == 2 ? 32u : 0u) << i;
        EXPECT_TRUE(client.answer().fds.empty()) << "no room was given for the areas";
    }
    ASSERT_EQ(client.ask(Command::device_get_region_info, vu::RegionInfo{4096, 0, 2, 0, 0, 0}), 0);
    const auto region = client.answer_as<vu::RegionInfo>();
    EXPECT_EQ(region.argument_size, 64u);
    EXPECT_EQ(region.flags, 15u);
    EXPECT_EQ(region.capability_offset, 32u);
    const auto capability = client.answer_as<vu::CapabilityHeader>(32);
    EXPECT_EQ(capability.id, 1u);
    EXPECT_EQ(capability.version, 1u);
    EXPECT_EQ(capability.next, 0u);
    EXPECT_EQ(client.answer_as<vu::SparseMmap>(40).areas, 1u);
    EXPECT_EQ(client.answer_as<vu::SparseArea>(48).offset, cd::area);
    EXPECT_EQ(client.answer_as<vu::SparseArea>(48).size, 4096u);
    ASSERT_EQ(client.answer().fds.size(), 1u);
    EXPECT_EQ(::ftruncate(client.answer().fds[0].get(), 0), -1) << "which would end the server";

    const std::uint32_t irqs[][2] = {{7, 1}, {1, 4}, {1, cd::vectors}, {1, 0}, {1, 0}};
    for (std::uint32_t i = 0; i < 5; ++i) {
        ASSERT_EQ(client.ask(Command::device_get_irq_info, vu::IrqInfo{16, 0, i, 0}), 0);
        EXPECT_EQ(client.answer_as<vu::IrqInfo>().flags, irqs[i][0]) << i;
        EXPECT_EQ(client.answer_as<vu::IrqInfo>().count, irqs[i][1]) << i;
    }
}

TEST_F(VfioUserServer, AreasAreNotOfferedWhereTheyShallNotBe) {
    served.restart(false);
    RawClient client(served.path());
    ASSERT_TRUE(client.negotiate());
    ASSERT_EQ(client.ask(Command::device_get_region_info, vu::RegionInfo{4096, 0, 2, 0, 0, 0}), 0);
    EXPECT_EQ(client.answer_as<vu::RegionInfo>().flags, 3u);
    EXPECT_TRUE(client.answer().fds.empty());
    served.with_model([](CopyDevice& model) { EXPECT_FALSE(model.host().areas_mapped()); });
}

TEST_F(VfioUserServer, GoldenBytesOfAVersionAndAnAccess) {
    RawClient client(served.path());
    const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
    constexpr std::string_view version(
        "\x07\x00\x01\x00\x14\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        "\x00\x00\x05\x00",
        20);
    ASSERT_TRUE(client.send(bytes(version)));
    pci::Message answer;
    ASSERT_TRUE(client.receive(answer));
    EXPECT_EQ(answer.header.message_id, 7);
    EXPECT_EQ(answer.header.command, 1);
    EXPECT_EQ(answer.header.flags, 1u);
    const auto agreed = pci::decode_version(answer.payload);
    ASSERT_TRUE(agreed);
    EXPECT_EQ(agreed->major, 0);
    EXPECT_EQ(agreed->minor, 1) << "not more than this server speaks";
    EXPECT_EQ(agreed->max_transfer_bytes, 1u << 20);

    constexpr std::string_view read(
        "\xff\xff\x09\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        "\x40\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x04\x00\x00\x00",
        32);
    ASSERT_TRUE(client.send(bytes(read)));
    ASSERT_TRUE(client.receive(answer));
    EXPECT_EQ(answer.header.message_id, 0xffff);
    constexpr std::string_view data("\x40\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x04\x00\x00\x00\x1e\xab\xa1\x5c",
                                    20);
    ASSERT_EQ(answer.payload.size(), data.size());
    EXPECT_EQ(std::memcmp(answer.payload.data(), data.data(), data.size()), 0);
}

TEST_F(VfioUserServer, MsixGrowsOneByOneAndWithoutDescriptorsMeansNone) {
    RawClient client(served.path());
    ASSERT_TRUE(client.negotiate());
    std::array<pci::OwnedFd, 4> events;
    for (std::uint32_t i = 0; i < events.size(); ++i) {
        events[i] = pci::OwnedFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        const int fd = events[i].get();
        ASSERT_EQ(client.ask(Command::device_set_irqs, vu::IrqSet{20, 36, vu::msix_irq, i, 1}, std::span(&fd, 1)), 0);
    }
    const auto signalled = [&](std::size_t i) {
        std::uint64_t count = 0;
        return ::read(events[i].get(), &count, sizeof count) == sizeof count;
    };
    ASSERT_EQ(client.write_register(cd::raise, 2, 4), 0);
    EXPECT_TRUE(signalled(2));
    EXPECT_FALSE(signalled(1));
    ASSERT_EQ(client.ask(Command::device_set_irqs, vu::IrqSet{20, 36, vu::msix_irq, 2, 1}), 0);
    ASSERT_EQ(client.write_register(cd::raise, 2, 4), 0);
    EXPECT_FALSE(signalled(2));
    EXPECT_EQ(client.read_register(cd::pending, 8), 4u) << "it is pending";
    const int again = events[2].get();
    ASSERT_EQ(client.ask(Command::device_set_irqs, vu::IrqSet{20, 36, vu::msix_irq, 2, 1}, std::span(&again, 1)), 0);
    EXPECT_TRUE(signalled(2)) << "and comes when it can";
    EXPECT_EQ(client.read_register(cd::pending, 8), 0u);
    // By the client itself, all or chosen ones.
    ASSERT_EQ(client.ask(Command::device_set_irqs, vu::IrqSet{20, 33, vu::msix_irq, 0, 2}), 0);
    EXPECT_TRUE(signalled(0) && signalled(1) && !signalled(3));
    const std::byte chosen[] = {std::byte{0}, std::byte{1}, std::byte{1}};
    ASSERT_EQ(client.ask(Command::device_set_irqs, bytes_of(vu::IrqSet{23, 34, vu::msix_irq, 1, 3}, chosen)), 0);
    EXPECT_TRUE(!signalled(1) && signalled(2) && signalled(3));
    // Off.
    ASSERT_EQ(client.ask(Command::device_set_irqs, vu::IrqSet{20, 33, vu::msix_irq, 0, 0}), 0);
    ASSERT_EQ(client.write_register(cd::raise, 0, 4), 0);
    EXPECT_FALSE(signalled(0));
    served.with_model([](CopyDevice& model) {
        EXPECT_EQ(model.host().interrupt_type(), pci::InterruptType::none);
        EXPECT_GE(model.interrupt_changes, 5u);
    });
}

TEST_F(VfioUserServer, ThePinIsMaskedByItsDelivery) {
    RawClient client(served.path());
    ASSERT_TRUE(client.negotiate());
    const auto memory = shared_memory();
    ASSERT_EQ(client.map(mapped_at, mapped_bytes, memory.fd()), 0);
    const pci::OwnedFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const int fd = event.get();
    const auto signalled = [&] {
        std::uint64_t count = 0;
        return ::read(fd, &count, sizeof count) == sizeof count;
    };
    ASSERT_EQ(client.ask(Command::device_set_irqs, vu::IrqSet{20, 36, vu::intx_irq, 0, 1}, std::span(&fd, 1)), 0);
    set_up_ring(client);
    describe(memory.data(), mapped_at + 0x1000, mapped_at + 0x2000, 512);
    ASSERT_EQ(client.write_register(cd::doorbell, 1, 4), 0);
    EXPECT_TRUE(signalled());
    EXPECT_EQ(client.ask(Command::device_set_irqs, vu::IrqSet{20, 17, vu::intx_irq, 0, 1}), 0);
    EXPECT_TRUE(signalled()) << "unmasked while the cause is there";
    EXPECT_EQ(client.ask(Command::device_set_irqs, vu::IrqSet{20, 9, vu::intx_irq, 0, 1}), 0);
    ASSERT_EQ(client.write_register(cd::cause, 1, 4), 0);
    EXPECT_EQ(client.ask(Command::device_set_irqs, vu::IrqSet{20, 17, vu::intx_irq, 0, 1}), 0);
    EXPECT_FALSE(signalled());
}

TEST_F(VfioUserServer, TheStatusSaysWhoseTheInterruptIsUntilThePinIsUnmasked) {
    RawClient client(served.path());
    ASSERT_TRUE(client.negotiate());
    const auto memory = shared_memory();
    ASSERT_EQ(client.map(mapped_at, mapped_bytes, memory.fd()), 0);
    const pci::OwnedFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const int fd = event.get();
    const auto status = [&] {
        EXPECT_EQ(client.ask(Command::region_read, vu::RegionAccess{pci::reg::status, vu::config_region, 2}), 0);
        return client.answer_as<std::uint16_t>(16) & pci::status::interrupt;
    };
    const auto enable = [&](unsigned vectors) {
        return client.ask(Command::device_set_irqs, vu::IrqSet{20, vectors == 0 ? 33u : 36u, vu::intx_irq, 0, vectors},
                          std::span(&fd, vectors));
    };
    ASSERT_EQ(enable(1), 0);
    set_up_ring(client);
    describe(memory.data(), mapped_at + 0x1000, mapped_at + 0x2000, 512);
    EXPECT_EQ(status(), 0u);
    ASSERT_EQ(client.write_register(cd::doorbell, 1, 4), 0);
    EXPECT_NE(status(), 0u);
    ASSERT_EQ(client.write_register(cd::cause, 1, 4), 0);
    EXPECT_NE(status(), 0u) << "a virtual machine asserts its own pin only now";
    EXPECT_EQ(client.ask(Command::device_set_irqs, vu::IrqSet{20, 17, vu::intx_irq, 0, 1}), 0);
    EXPECT_EQ(status(), 0u);
    // Delivered, and then the client turns to something else.
    describe(memory.data() + 24, mapped_at + 0x1000, mapped_at + 0x2000, 512);
    ASSERT_EQ(client.write_register(cd::doorbell, 2, 4), 0);
    ASSERT_EQ(client.write_register(cd::cause, 1, 4), 0);
    EXPECT_NE(status(), 0u);
    ASSERT_EQ(enable(0), 0);
    EXPECT_EQ(status(), 0u);
}

TEST_F(VfioUserServer, WritesWithoutReplyAreInOrder) {
    RawClient client(served.path());
    ASSERT_TRUE(client.negotiate());
    for (std::uint32_t i = 1; i <= 300; ++i) {
        ASSERT_TRUE(client.send(
            RawClient::message(Command::region_write, register_write(cd::scratch, i, 4), 5, vu::flag_no_reply)));
        if (i % 100 == 0) {
            EXPECT_EQ(client.read_register(cd::scratch, 4), i);
        }
    }
    // One that cannot be carried out is not answered either.
    ASSERT_TRUE(
        client.send(RawClient::message(Command::region_write, register_write(0, 1, 4, 9), 5, vu::flag_no_reply)));
    EXPECT_EQ(client.read_register(cd::scratch, 4), 300u);
}

TEST_F(VfioUserServer, LongAndCrookedAccessesArriveInPieces) {
    RawClient client(served.path());
    ASSERT_TRUE(client.negotiate());
    auto payload = bytes_of(vu::RegionAccess{cd::scratch + 1, 2, 62});
    for (unsigned i = 0; i < 62; ++i) payload.push_back(static_cast<std::byte>(i + 1));
    ASSERT_EQ(client.ask(Command::region_write, payload), 0);
    ASSERT_EQ(client.ask(Command::region_read, vu::RegionAccess{cd::scratch, 2, 64}), 0);
    for (unsigned i = 0; i < 64; ++i) {
        EXPECT_EQ(client.answer().payload[16 + i], static_cast<std::byte>(i == 63 ? 0 : i)) << i;
    }
    ASSERT_EQ(client.ask(Command::region_read, vu::RegionAccess{0, 2, 0x4000}), 0) << "a whole BAR at once";
    EXPECT_EQ(client.answer().payload.size(), 16u + 0x4000);
    ASSERT_EQ(client.ask(Command::region_read, vu::RegionAccess{0, vu::config_region, 4096}), 0);
    EXPECT_EQ(client.answer_as<std::uint16_t>(16), 0x1b39);
    ASSERT_EQ(client.ask(Command::region_read, vu::RegionAccess{0x4000, 2, 0}), 0) << "nothing, at the end";

    const auto multi = bytes_of(std::uint64_t{2}, vu::SmallWrite{cd::scratch, 2, 8, {1, 2, 3, 4, 5, 6, 7, 8}},
                                vu::SmallWrite{cd::scratch + 8, 2, 2, {9, 10}});
    ASSERT_EQ(client.ask(Command::region_write_multi, multi), 0);
    EXPECT_EQ(client.answer_as<std::uint64_t>(), 2u);
    EXPECT_EQ(client.read_register(cd::scratch, 8), 0x0807060504030201u);
    EXPECT_EQ(client.read_register(cd::scratch + 8, 2), 0x0a09u);
}

TEST_F(VfioUserServer, BarsAnswerTheSizingProtocolAndFlrResets) {
    RawClient client(served.path());
    ASSERT_TRUE(client.negotiate());
    const auto config = [&](std::uint64_t offset) {
        EXPECT_EQ(client.ask(Command::region_read, vu::RegionAccess{offset, vu::config_region, 4}), 0);
        return client.answer_as<std::uint32_t>(16);
    };
    const auto set = [&](std::uint64_t offset, std::uint32_t value, unsigned bytes) {
        EXPECT_EQ(client.ask(Command::region_write, register_write(offset, value, bytes, vu::config_region)), 0);
    };
    for (unsigned i = 0; i < 6; ++i) set(0x10 + 4 * i, 0xffffffff, 4);
    EXPECT_EQ(config(0x10), 0xffffff00u);
    EXPECT_EQ(config(0x14), 0u);
    EXPECT_EQ(config(0x18), 0xffffc004u);
    EXPECT_EQ(config(0x1c), 0xffffffffu);
    EXPECT_EQ(config(0x20), 0u);
    ASSERT_EQ(client.write_register(cd::scratch, 1, 4), 0);
    unsigned express = config(0x34) & 0xff;
    while ((config(express) & 0xff) != pci::cap::pci_express) express = (config(express) >> 8) & 0xff;
    EXPECT_NE(config(express + 4) & 1u << 28, 0u) << "it says that it can";
    set(express + 8, 0x8000, 2);
    EXPECT_EQ(client.read_register(cd::scratch, 4), 0u);
    EXPECT_EQ(config(express + 8) & 0x8000, 0u);
    EXPECT_EQ(config(0x18), 4u);
}

TEST_F(VfioUserServer, AResetIsAnsweredWhenTheDeviceIsAtRest) {
    RawClient client(served.path());
    ASSERT_TRUE(client.negotiate());
    served.with_model([](CopyDevice& model) { model.busy_passes = 10; });
    EXPECT_EQ(client.ask(Command::device_reset, std::vector<std::byte>{}), 0);
    served.with_model([](CopyDevice& model) { EXPECT_EQ(model.busy_passes, 0u); });
}

TEST_F(VfioUserServer, OneClientAfterTheOther) {
    const auto memory = shared_memory();
    for (unsigned i = 0; i < 5; ++i) {
        RawClient client(served.path());
        RawClient next(served.path());
        ASSERT_TRUE(client.negotiate());
        EXPECT_EQ(client.read_register(cd::scratch, 4), 0u) << "as after power-on";
        ASSERT_EQ(client.write_register(cd::scratch, 7, 4), 0);
        ASSERT_EQ(client.map(mapped_at, mapped_bytes, memory.fd()), 0);
        set_up_ring(client);
        describe(memory.data(), mapped_at + 0x1000, mapped_at + 0x2000, 512);
        ASSERT_EQ(client.write_register(cd::doorbell, 1, 4), 0);
        EXPECT_EQ(client.read_register(cd::failures, 4), 0u);
        ::shutdown(client.fd(), SHUT_RDWR);
        ASSERT_TRUE(next.negotiate()) << "served as soon as the first is gone";
        EXPECT_EQ(next.read_register(cd::scratch, 4), 0u);
    }
    EXPECT_EQ(served.clients_served(), 10u);
}

TEST_F(VfioUserServer, ItsSocketFile) {
    ASSERT_FALSE(pci::listen_unix(served.path()));
    EXPECT_EQ(pci::listen_unix(served.path()).error().code(), Errc::already_exists);
    EXPECT_NE(pci::listen_unix(served.path()).error().message().find(served.path()), std::string::npos);
    EXPECT_EQ(pci::listen_unix(std::string(200, 'x')).error().code(), Errc::invalid_argument);
    EXPECT_EQ(pci::listen_unix("/dev/null").error().code(), Errc::already_exists);
    EXPECT_EQ(pci::listen_unix("/nowhere/at/all").error().code(), Errc::not_found);
    served.restart();
    RawClient client(served.path());
    EXPECT_TRUE(client.negotiate());
    const std::string dead = served.path() + "2";
    {
        const auto left_behind = pci::listen_unix(dead).value();
    }
    EXPECT_TRUE(pci::listen_unix(dead)) << "nobody listens there any more";
}

}  // namespace
}  // namespace mqblk::test
