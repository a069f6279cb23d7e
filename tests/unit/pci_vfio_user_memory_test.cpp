// SPDX-License-Identifier: Apache-2.0
//
// A client's memory behind the vfio-user server: how it is mapped, reached and taken away, and what the client can do
// to it meanwhile.
#include "pci/vfio_user_version.h"
#include "unit/pci_vfio_user_support.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace mqblk::test {
namespace {

namespace vu = wire::vfio_user;
namespace cd = copy_device;
using vu::Command;

TEST_F(VfioUserServer, MappingsDoNotOverlapAndGoAsTheyCame) {
    RawClient client(served.path());
    ASSERT_TRUE(client.negotiate());
    const auto memory = shared_memory();
    const int fd = memory.fd();
    ASSERT_EQ(client.map(mapped_at, 0x4000, fd), 0);
    ASSERT_EQ(client.map(mapped_at + 0x4000, 0x4000, fd, 0x4000), 0);
    ASSERT_EQ(client.map(mapped_at + 0xc000, 0x4000, -1), 0);
    for (const auto& [address, bytes] : {std::pair{mapped_at, std::uint64_t{0x1000}},
                                         {mapped_at - 0x1000, 0x2000},
                                         {mapped_at + 0x7000, 0x2000},
                                         {mapped_at - 0x1000, 0x20000},
                                         {mapped_at + 0x8000, 0x5000}}) {
        EXPECT_EQ(client.map(address, bytes, -1), EEXIST) << std::hex << address;
    }
    EXPECT_EQ(client.map(mapped_at + 0x8000, 0x4000, fd), 0) << "between two";
    EXPECT_EQ(client.unmap(mapped_at, 0x2000), EINVAL) << "a part";
    EXPECT_EQ(client.unmap(mapped_at + 0x2000, 0x2000), EINVAL);
    EXPECT_EQ(client.unmap(mapped_at + 0x2000, 0x6000), EINVAL);
    EXPECT_EQ(client.unmap(mapped_at, 0x8000), 0) << "two at once";
    EXPECT_EQ(client.answer_as<vu::DmaUnmap>().address, mapped_at);
    EXPECT_EQ(client.answer_as<vu::DmaUnmap>().size, 0x8000u);
    EXPECT_EQ(client.unmap(mapped_at, 0x8000), 0) << "nothing any more";
    EXPECT_EQ(client.map(~0xfffull, 0x1000, -1), 0) << "the last page of all";
    EXPECT_EQ(client.ask(Command::dma_unmap, vu::DmaUnmap{24, vu::unmap_all, 0, 0}), 0);
    served.with_model([](CopyDevice& model) {
        EXPECT_EQ(model.host().memory().regions(), 0u);
        EXPECT_GE(model.memory_changes, 7u);
    });
}

/// Answers the server's requests for `memory` until a reply comes, which it returns.
pci::Message serve_memory(RawClient& client, std::span<std::byte> memory, unsigned& reads, unsigned& writes) {
    for (pci::Message message;;) {
        if (!client.receive(message)) throw std::runtime_error("the server left");
        if (message.is_reply()) return message;
        vu::DmaAccess access{};
        std::memcpy(&access, message.payload.data(), sizeof access);
        const auto place = memory.subspan(access.address - mapped_at, access.count);
        auto payload = bytes_of(access);
        if (message.header.command == static_cast<std::uint16_t>(Command::dma_read)) {
            ++reads;
            append(payload, place);
        } else {
            ++writes;
            std::ranges::copy(std::span(message.payload).subspan(16), place.begin());
            payload.resize(12);  // as the published table has it
        }
        if (!client.send(RawClient::message(static_cast<Command>(message.header.command), payload,
                                            message.header.message_id, vu::flag_reply))) {
            throw std::runtime_error("the server left");
        }
    }
}

TEST_F(VfioUserServer, MemoryWithoutAFileIsAskedFor) {
    RawClient client(served.path());
    ASSERT_TRUE(client.negotiate());
    std::vector<std::byte> memory(mapped_bytes);
    ASSERT_EQ(client.map(mapped_at, mapped_bytes, -1), 0);
    set_up_ring(client);
    describe(memory.data(), mapped_at + 0x1000, mapped_at + 0x2000, 700);
    for (unsigned i = 0; i < 700; ++i) memory[0x1000 + i] = static_cast<std::byte>(i * 7);
    ASSERT_TRUE(client.send(RawClient::message(Command::region_write, register_write(cd::doorbell, 1, 4), 100)));
    // A command that arrives meanwhile waits its turn.
    ASSERT_TRUE(
        client.send(RawClient::message(Command::region_read, bytes_of(vu::RegionAccess{cd::magic, 2, 4}), 101)));
    unsigned reads = 0, writes = 0;
    EXPECT_EQ(serve_memory(client, memory, reads, writes).header.message_id, 100);
    EXPECT_EQ(serve_memory(client, memory, reads, writes).header.message_id, 101);
    EXPECT_EQ(reads, 3u);
    EXPECT_EQ(writes, 3u);
    EXPECT_EQ(std::memcmp(memory.data() + 0x1000, memory.data() + 0x2000, 700), 0);
    EXPECT_EQ(client.read_register(cd::failures, 4), 0u);
}

enum class Wrong : std::uint8_t { error, short_data, long_data, other_id, other_command, nothing, gone, flood };

TEST_F(VfioUserServer, WrongAnswersToARequestForMemory) {
    for (const Wrong wrong : {Wrong::error, Wrong::short_data, Wrong::long_data, Wrong::other_id, Wrong::other_command,
                              Wrong::nothing, Wrong::gone, Wrong::flood}) {
        SCOPED_TRACE(static_cast<int>(wrong));
        RawClient client(served.path());
        ASSERT_TRUE(client.negotiate());
        ASSERT_EQ(client.map(mapped_at, mapped_bytes, -1), 0);
        set_up_ring(client);
        ASSERT_TRUE(client.send(RawClient::message(Command::region_write, register_write(cd::doorbell, 1, 4), 100)));
        pci::Message message;
        ASSERT_TRUE(client.receive(message));
        ASSERT_EQ(message.header.command, static_cast<std::uint16_t>(Command::dma_read));
        auto payload = message.payload;
        payload.resize(16 + sizeof(cd::Descriptor));
        std::uint16_t id = message.header.message_id;
        auto command = Command::dma_read;
        std::uint32_t flags = vu::flag_reply;
        switch (wrong) {
            case Wrong::error:
                payload.clear();
                flags |= vu::flag_error;
                break;
            case Wrong::short_data:
                payload.resize(20);
                break;
            case Wrong::long_data:
                payload.resize(payload.size() + 1);
                break;
            case Wrong::other_id:
                ++id;
                break;
            case Wrong::other_command:
                command = Command::dma_write;
                break;
            case Wrong::nothing:
                break;
            case Wrong::gone:
                ::shutdown(client.fd(), SHUT_RDWR);
                break;
            case Wrong::flood:
                for (int i = 0; i < 300; ++i) {
                    if (!client.send(RawClient::message(Command::device_reset, {}, 7))) break;
                }
                break;
        }
        if (wrong < Wrong::nothing) {
            ASSERT_TRUE(client.send(RawClient::message(command, payload, id, flags)));
        }
        if (wrong <= Wrong::long_data) {
            ASSERT_TRUE(client.receive(message)) << "the device has failed a descriptor, no more";
            EXPECT_EQ(message.header.message_id, 100);
            EXPECT_EQ(client.read_register(cd::failures, 4), 1u);
        } else if (wrong != Wrong::gone) {
            EXPECT_TRUE(client.closed());
        }
    }
    RawClient next(served.path());
    ASSERT_TRUE(next.negotiate());
    EXPECT_EQ(next.read_register(cd::magic, 4), cd::magic_value);
}

TEST_F(VfioUserServer, AFileThatShrinksCostsACommandNotTheProcess) {
    const std::size_t descriptors = open_descriptors();
    {
        RawClient client(served.path());
        ASSERT_TRUE(client.negotiate());
        const pci::OwnedFd file(::memfd_create("shrinks", MFD_CLOEXEC));
        ASSERT_EQ(::ftruncate(file.get(), mapped_bytes), 0);
        auto* const mine =
            static_cast<std::byte*>(::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
        ASSERT_NE(mine, MAP_FAILED);
        ASSERT_EQ(client.map(mapped_at, mapped_bytes, file.get()), 0);
        set_up_ring(client);
        describe(mine, mapped_at + 0x1000, mapped_at + 0x2000, 512);
        std::memset(mine + 0x1000, 0x77, 512);
        ASSERT_EQ(client.write_register(cd::doorbell, 1, 4), 0);
        EXPECT_EQ(client.read_register(cd::failures, 4), 0u);
        EXPECT_EQ(mine[0x2000 + 511], std::byte{0x77}) << "it works while it has its size";
        served.with_model([](CopyDevice& model) {
            const pci::MemoryHold hold = model.host().memory().hold();
            EXPECT_EQ(hold.find(mapped_at, 512, pci::Access::read).data, nullptr) << "never by pointer";
        });
        describe(mine + sizeof(cd::Descriptor), mapped_at + 0x1000, mapped_at + 0x8000, 512);
        describe(mine + 2 * sizeof(cd::Descriptor), mapped_at + 0x8000, mapped_at + 0x1000, 512);
        ASSERT_EQ(::ftruncate(file.get(), 0x4000), 0);
        ASSERT_EQ(client.write_register(cd::doorbell, 3, 4), 0);
        EXPECT_EQ(client.read_register(cd::failures, 4), 2u);
        EXPECT_EQ(::lseek(file.get(), 0, SEEK_END), 0x4000) << "and does not grow again";
        ASSERT_EQ(::ftruncate(file.get(), 0), 0);
        ASSERT_EQ(client.write_register(cd::doorbell, 4, 4), 0);
        EXPECT_EQ(client.read_register(cd::failures, 4), 3u);
        ::munmap(mine, mapped_bytes);
    }
    ASSERT_TRUE(served.wait_until_free());
    EXPECT_EQ(open_descriptors(), descriptors);
}

TEST_F(VfioUserServer, OnlyASealedMemoryFileIsMapped) {
    RawClient client(served.path());
    ASSERT_TRUE(client.negotiate());
    const auto sealed = shared_memory();
    const auto by_pointer = [&](std::uint64_t address, pci::Access access) {
        bool is = false;
        served.with_model(
            [&](CopyDevice& model) { is = model.host().memory().hold().find(address, 1, access).data != nullptr; });
        return is;
    };
    ASSERT_EQ(client.map(mapped_at, 0x1000, sealed.fd()), 0);
    EXPECT_TRUE(by_pointer(mapped_at, pci::Access::read) && by_pointer(mapped_at, pci::Access::write));
    ASSERT_EQ(client.map(mapped_at + 0x10000, 0x1000, sealed.fd(), 0, vu::dma_readable), 0);
    EXPECT_TRUE(by_pointer(mapped_at + 0x10000, pci::Access::read));
    EXPECT_FALSE(by_pointer(mapped_at + 0x10000, pci::Access::write)) << "read only";
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
    const pci::OwnedFd ends[] = {pci::OwnedFd(pipe[0]), pci::OwnedFd(pipe[1])};
    ASSERT_EQ(client.map(mapped_at + 0x20000, 0x1000, pipe[0]), 0) << "as if nothing had come along";
    EXPECT_FALSE(by_pointer(mapped_at + 0x20000, pci::Access::read));
    EXPECT_EQ(::ftruncate(sealed.fd(), 0), -1);
}

/// As a monitor with an IOMMU maps it.
TEST_F(VfioUserServer, ManyPagesOfAFileTakeOneDescriptorOrMapping) {
    RawClient client(served.path());
    ASSERT_TRUE(client.negotiate());
    const auto sealed = shared_memory();
    const pci::OwnedFd unsealed(::memfd_create("pages", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(unsealed.get(), mapped_bytes), 0);
    const std::size_t descriptors = open_descriptors();
    for (const int fd : {sealed.fd(), unsealed.get()}) {
        for (std::uint64_t i = 0; i < 200; ++i) {
            const std::uint64_t page = i * 7 % (mapped_bytes / 4096);
            ASSERT_EQ(client.map(mapped_at + i * 0x2000, 0x1000, fd, page * 4096), 0);
        }
        EXPECT_LE(open_descriptors(), descriptors + 1);
        std::uint32_t found = 0;
        const std::uint32_t value = 0x12345678;
        ASSERT_EQ(::pwrite(fd, &value, sizeof value, 5 * 4096), sizeof value);
        served.with_model([&](CopyDevice& model) {
            for (std::uint64_t i = 0; i < 200; ++i) {
                std::uint32_t here = 0;
                EXPECT_TRUE(model.host().memory().load(mapped_at + i * 0x2000, here));
                EXPECT_EQ(here, i * 7 % 16 == 5 ? value : 0u) << i;
                found += here == value ? 1 : 0;
                EXPECT_FALSE(model.host().memory().load(mapped_at + i * 0x2000 + 0x1000, here))
                    << "only what is mapped";
            }
        });
        EXPECT_GT(found, 10u);
        ASSERT_EQ(client.ask(Command::dma_unmap, vu::DmaUnmap{24, vu::unmap_all, 0, 0}), 0);
    }
    // But not of any number of files.
    int error = 0;
    for (std::uint64_t i = 0; i < 1000 && error == 0; ++i) {
        const auto other = memory::Buffer::allocate(4096, memory::Backing::shared).value();
        error = client.map(mapped_at + i * 0x1000, 0x1000, other.fd());
    }
    EXPECT_EQ(error, ENOMEM);
}

TEST_F(VfioUserServer, UnmappingWaitsForThoseWhoHoldTheMemory) {
    RawClient client(served.path());
    ASSERT_TRUE(client.negotiate());
    const auto memory = shared_memory();
    ASSERT_EQ(client.map(mapped_at, mapped_bytes, memory.fd()), 0);
    pci::MemoryHold hold;
    Segment piece{};
    served.with_model([&](CopyDevice& model) {
        hold = model.host().memory().hold();
        piece = hold.find(mapped_at + 8, 1 << 20, pci::Access::write);
    });
    ASSERT_EQ(piece.bytes, mapped_bytes - 8);
    ASSERT_TRUE(client.send(
        RawClient::message(Command::dma_unmap, bytes_of(vu::DmaUnmap{24, 0, mapped_at, mapped_bytes}), 50)));
    // It is unmapped for everybody new, but not answered.
    for (bool gone = false; !gone;) {
        served.with_model([&](CopyDevice& model) {
            std::uint32_t value = 0;
            gone = !model.host().memory().load(mapped_at, value);
        });
    }
    pollfd one{client.fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&one, 1, 20), 0);
    std::memset(piece.data, 0x42, piece.bytes);  // still there
    EXPECT_EQ(memory.data()[mapped_bytes - 1], std::byte{0x42});
    served.run([&] { hold = {}; });
    pci::Message answer;
    ASSERT_TRUE(client.receive(answer));
    EXPECT_EQ(answer.header.message_id, 50);
    EXPECT_EQ(answer.header.error, 0u);
}

TEST_F(VfioUserServer, AHoldOutlivesItsClient) {
    const auto memory = shared_memory();
    pci::MemoryHold hold;
    Segment piece{};
    {
        RawClient client(served.path());
        ASSERT_TRUE(client.negotiate());
        ASSERT_EQ(client.map(mapped_at, mapped_bytes, memory.fd()), 0);
        served.with_model([&](CopyDevice& model) {
            hold = model.host().memory().hold();
            piece = hold.find(mapped_at, mapped_bytes, pci::Access::write);
        });
    }
    RawClient next(served.path());  // waits in the queue
    ASSERT_TRUE(next.send(RawClient::message(Command::version, pci::encode_version({}), 1)));
    pollfd one{next.fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&one, 1, 20), 0);
    std::memset(piece.data, 1, piece.bytes);
    served.run([&] { hold = {}; });
    pci::Message answer;
    EXPECT_TRUE(next.receive(answer));
}

}  // namespace
}  // namespace mqblk::test
