// SPDX-License-Identifier: Apache-2.0
//
// A vfio-user server that is none: it says what no device would, to the driver's side of the socket.
#include "memory/buffer.h"
#include "pci/host_memory.h"
#include "pci/vfio_user_link.h"
#include "pci/vfio_user_regions.h"
#include "unit/pci_served.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <optional>

namespace mqblk::test {
namespace {

namespace vu = wire::vfio_user;
using vu::Command;

struct Said {
    std::vector<std::byte> payload;
    std::vector<int> fds;
};
/// What answers one command; nothing to send endless commands instead.
using Script = std::function<std::optional<Said>(const pci::Message&)>;

/// The other end of a pair of sockets.
class FakeServer {
  public:
    explicit FakeServer(Script script) : script_(std::move(script)) {
        int ends[2] = {-1, -1};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        client_ = pci::OwnedFd(ends[0]);
        thread_ = std::thread([this, mine = ends[1]] { run(pci::OwnedFd(mine)); });
    }
    ~FakeServer() {
        stop_.store(true);
        thread_.join();
    }
    [[nodiscard]] pci::OwnedFd take_client() noexcept { return std::move(client_); }

  private:
    void run(pci::OwnedFd fd) {
        const int raw = fd.get();
        pci::MessageSocket socket(std::move(fd));
        while (!stop_.load()) {
            pci::Message message;
            const auto state = socket.receive(message);
            if (state == pci::MessageSocket::State::waiting) {
                static_cast<void>(socket.wait(false, pci::MessageSocket::now_ns() + 10'000'000));
                continue;
            }
            if (state != pci::MessageSocket::State::whole) return;
            const auto said = message.header.command == static_cast<std::uint16_t>(Command::version)
                                  ? std::optional(Said{pci::encode_version({}), {}})
                                  : script_(message);
            if (!said) return flood(raw);
            const vu::Header header{.message_id = message.header.message_id,
                                    .command = message.header.command,
                                    .message_size = static_cast<std::uint32_t>(sizeof header + said->payload.size()),
                                    .flags = vu::flag_reply,
                                    .error = 0};
            static_cast<void>(socket.send(header, said->payload, said->fds));
        }
    }
    /// Requests for memory that is not there, until the client is gone. Its answers are taken.
    void flood(int fd) const {
        std::vector<std::byte> requests;
        for (int i = 0; i < 1000; ++i) {
            append(requests, RawClient::message(Command::dma_read, bytes_of(vu::DmaAccess{0x1000, 64}), 7));
        }
        std::vector<std::byte> answers(1 << 16);
        for (std::size_t place = 0; !stop_.load();) {
            pollfd one{fd, POLLIN | POLLOUT, 0};
            if (::poll(&one, 1, 10) <= 0) continue;
            if ((one.revents & POLLIN) != 0 && ::recv(fd, answers.data(), answers.size(), MSG_DONTWAIT) == 0) return;
            const auto sent = ::send(fd, requests.data() + place, requests.size() - place, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (sent < 0 && errno != EAGAIN) return;
            if (sent > 0) place = (place + static_cast<std::size_t>(sent)) % requests.size();
        }
    }

    const Script script_;
    pci::OwnedFd client_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

TEST(VfioUserFake, CommandsWithoutEndAreNoAnswer) {
    FakeServer server([](const pci::Message&) { return std::nullopt; });
    std::atomic<int> lost{0};
    pci::VfioUserLink link(server.take_client(), "fake", std::chrono::milliseconds(300), [&] { ++lost; });
    ASSERT_TRUE(link.negotiate(false));
    const auto answer = link.ask(Command::device_get_info, {}, 0);
    ASSERT_FALSE(answer);
    EXPECT_NE(answer.error().message().find("did not answer"), std::string::npos) << answer.error().message();
    EXPECT_TRUE(link.lost());
    EXPECT_EQ(lost, 1);
}

/// The listener serves them while nobody asks, but whoever asks gets through, and the link can end.
TEST(VfioUserFake, CommandsWithoutEndLeaveRoomForOthers) {
    FakeServer server([](const pci::Message& message) -> std::optional<Said> {
        if (message.header.command == static_cast<std::uint16_t>(Command::device_reset)) return std::nullopt;
        return Said{};
    });
    pci::VfioUserLink link(server.take_client(), "fake", std::chrono::seconds(2), {});
    ASSERT_TRUE(link.negotiate(false));
    auto memory = memory::Buffer::allocate(4096).value();
    link.offer(0x1000, memory.span());
    ASSERT_TRUE(link.ask(Command::dma_map, {}, 0));
    link.post(Command::device_reset, {});
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    link.post(Command::region_write, {});
    link.withdraw(0x1000);
}

Said region_info(const pci::Message& message, std::uint64_t bytes, std::uint64_t area_bytes, unsigned areas, int fd) {
    const auto index = pci::front_of<vu::RegionInfo>(message).index;
    vu::RegionInfo info{sizeof info, vu::region_read | vu::region_write, index, 0, 0, 0};
    if (index == vu::config_region) info.size = 4096;
    if (index >= pci::bar_count) return {bytes_of(info), {}};
    info.size = bytes;
    info.flags |= vu::region_mmap | vu::region_capabilities;
    info.capability_offset = sizeof info;
    auto payload = bytes_of(info, vu::CapabilityHeader{vu::sparse_mmap_capability, 1, 0}, vu::SparseMmap{areas, 0});
    for (unsigned i = 0; i < areas; ++i) append(payload, vu::SparseArea{i * area_bytes, area_bytes});
    return {std::move(payload), {fd}};
}

TEST(VfioUserFake, OnlyFewAndSmallAreasAreMapped) {
    constexpr std::uint64_t bytes = 256u << 20;
    const auto file = memory::Buffer::allocate(bytes, memory::Backing::shared).value();
    struct {
        std::uint64_t area_bytes;
        unsigned areas;
        std::size_t mapped;  ///< of all BARs
    } const cases[] = {{4096, 2, 12}, {4096, 1000, 6 * 16}, {bytes, 1, 0}, {48u << 20, 5, 1}, {16u << 20, 16, 4}};
    for (const auto& each : cases) {
        SCOPED_TRACE(each.areas);
        FakeServer server([&](const pci::Message& message) -> std::optional<Said> {
            if (message.header.command != static_cast<std::uint16_t>(Command::device_get_region_info)) {
                return Said{bytes_of(vu::DeviceInfo{sizeof(vu::DeviceInfo), vu::device_pci, 9, 5}), {}};
            }
            return region_info(message, bytes, each.area_bytes, each.areas, file.fd());
        });
        pci::VfioUserLink link(server.take_client(), "fake", std::chrono::seconds(60), {});
        ASSERT_TRUE(link.negotiate(false));
        pci::VfioUserRegions regions(true);
        for (int round = 0; round < 2; ++round) {
            const auto known = regions.query(link, "fake");
            ASSERT_TRUE(known) << known.error().message();
            std::size_t count = 0;
            std::uint64_t all = 0;
            for (const pci::RemoteBar& bar : regions.bars()) {
                EXPECT_EQ(bar.bytes, bytes) << "the rest is there all the same, by messages";
                count += bar.areas.size();
                for (const pci::MappedArea& area : bar.areas) all += area.bytes;
            }
            EXPECT_EQ(count, each.mapped) << "round " << round;
            EXPECT_LE(all, 64u << 20);
            regions.cover();
            for (const pci::RemoteBar& bar : regions.bars()) {
                for (const pci::MappedArea& area : bar.areas) EXPECT_EQ(area.memory[area.bytes - 1], std::byte{0xff});
            }
        }
    }
}

TEST(HostMemory, RangesAreRemovedInOneStep) {
    pci::HostMemory memory;
    std::vector<std::byte> pages(4096);
    for (const std::uint64_t address : {0x1000, 0x2000, 0x4000, 0x6000, 0x8000}) {
        ASSERT_TRUE(memory.add({.address = address, .bytes = 0x1000, .memory = pages.data()}));
    }
    ASSERT_TRUE(memory.add({.address = ~std::uint64_t{0xfff}, .bytes = 0x1000, .memory = pages.data()}));
    const auto left = [&] {
        std::vector<std::uint64_t> addresses;
        for (const auto& region : memory.list()) addresses.push_back(region.address);
        return addresses;
    };
    using Addresses = std::vector<std::uint64_t>;
    memory.remove_within(0x1800, 0x6ffe);
    EXPECT_EQ(left(), (Addresses{0x1000, 0x6000, 0x8000, ~std::uint64_t{0xfff}})) << "none that is only partly within";
    memory.remove_within(0x3000, 0x5fff);
    EXPECT_EQ(left().size(), 4u);
    {
        const pci::MemoryHold hold = memory.hold();
        memory.remove_within(0x6000, ~std::uint64_t{0});
        EXPECT_EQ(left(), Addresses{0x1000}) << "up to the last byte of all";
        EXPECT_FALSE(memory.drained());
        EXPECT_NE(hold.find(0x6000, 8, pci::Access::read).data, nullptr) << "as long as it is held";
    }
    EXPECT_TRUE(memory.drained());
}

}  // namespace
}  // namespace mqblk::test
