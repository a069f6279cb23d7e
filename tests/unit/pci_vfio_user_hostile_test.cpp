// SPDX-License-Identifier: Apache-2.0
//
// Clients that break the protocol, or break off.
#include "pci/vfio_user_version.h"
#include "pci/wait_budget.h"
#include "unit/pci_vfio_user_support.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace mqblk::test {
namespace {

namespace vu = wire::vfio_user;
namespace cd = copy_device;
using vu::Command;

TEST_F(VfioUserServer, VersionsThatItDoesNotTake) {
    using namespace std::string_view_literals;
    const auto text = [](std::uint16_t major, std::string_view json) {
        return bytes_of(vu::Version{major, 0}, std::as_bytes(std::span(json)));
    };
    std::string deep(3000, '[');
    deep.push_back('\0');
    for (const auto& payload :
         {text(1, ""), text(0, "{}"), text(0, "\0"sv), text(0, "[]\0"sv), text(0, "{\"capabilities\":3}\0"sv),
          text(0, "{\"capabilities\":{\"max_msg_fds\":-1}}\0"sv),
          text(0, "{\"capabilities\":{\"max_msg_fds\":\"8\"}}\0"sv),
          text(0, "{\"capabilities\":{\"max_data_xfer_size\":0}}\0"sv),
          text(0, "{\"capabilities\":{\"max_data_xfer_size\":4095}}\0"sv), text(0, "{\"capabilities\":\0"sv),
          text(0, deep), text(0, std::string(5000, ' ')), std::vector<std::byte>(3)}) {
        RawClient client(served.path());
        EXPECT_GT(client.ask(Command::version, payload), 0);
        EXPECT_TRUE(client.closed());
    }
    for (const auto& payload :
         {text(0, ""), text(0, "{}\0"sv), text(0, "{\"capabilities\":{\"max_msg_fds\":99999999999,\"new\":[1]}}\0"sv),
          text(0, "{\"capabilities\":{\"max_data_xfer_size\":4096}}\0"sv),
          text(0, "{\"capabilities\":{\"twin_socket\":{\"supported\":true}}}\0"sv)}) {
        RawClient client(served.path());
        EXPECT_EQ(client.ask(Command::version, payload), 0);
        EXPECT_EQ(client.read_register(cd::magic, 4), cd::magic_value);
        EXPECT_EQ(client.ask(Command::version, payload), EINVAL) << "only once";
    }
}

TEST_F(VfioUserServer, NothingBeforeTheVersion) {
    for (const auto command : {Command::device_get_info, Command::region_read, Command::device_reset, Command{99}}) {
        RawClient client(served.path());
        EXPECT_EQ(client.ask(command, vu::RegionAccess{0, 2, 4}), EINVAL);
        EXPECT_TRUE(client.closed());
    }
}

TEST_F(VfioUserServer, WhatIsNoMessageEndsTheConnection) {
    for (const std::uint32_t size : {0u, 15u, 0x00200000u, 0xffffffffu}) {
        RawClient client(served.path());
        ASSERT_TRUE(client.negotiate());
        ASSERT_TRUE(client.send(bytes_of(vu::Header{1, 9, size, 0, 0})));
        EXPECT_TRUE(client.closed()) << size;
    }
    for (const std::uint32_t flags : {1u, 2u, 15u}) {
        RawClient client(served.path());
        ASSERT_TRUE(client.negotiate());
        ASSERT_TRUE(client.send(bytes_of(vu::Header{1, 9, 16, flags, 0})));
        EXPECT_TRUE(client.closed()) << flags;
    }
    RawClient client(served.path());
    EXPECT_TRUE(client.negotiate());
}

struct Refused {
    const char* what;
    Command command;
    std::vector<std::byte> payload;
    int error;
    bool with_file = false;
};

std::vector<std::byte> access_payload(std::uint64_t offset, std::uint32_t region, std::uint32_t count,
                                      std::size_t data = 0) {
    return bytes_of(vu::RegionAccess{offset, region, count}, std::vector<std::byte>(data));
}
std::vector<std::byte> irqs_payload(std::uint32_t flags, std::uint32_t index, std::uint32_t start, std::uint32_t count,
                                    std::uint32_t data = 0, std::uint32_t argument_size = 20) {
    return bytes_of(vu::IrqSet{argument_size + data, flags, index, start, count}, std::vector<std::byte>(data));
}
std::vector<std::byte> map_payload(std::uint64_t address, std::uint64_t bytes, std::uint32_t flags = 3,
                                   std::uint64_t offset = 0, std::uint32_t argument_size = 32) {
    return bytes_of(vu::DmaMap{argument_size, flags, offset, address, bytes});
}
std::vector<std::byte> unmap_payload(std::uint64_t address, std::uint64_t bytes, std::uint32_t flags = 0,
                                     std::uint32_t argument_size = 24) {
    return bytes_of(vu::DmaUnmap{argument_size, flags, address, bytes});
}

const vu::SmallWrite good_write{cd::scratch, 2, 4, {}};
constexpr std::uint64_t last_page = ~0xfffull;

const Refused refused[] = {
    {"command 0", Command{0}, {}, EINVAL},
    {"a command never given", Command{14}, {}, EINVAL},
    {"the last command", Command{0xffff}, {}, EINVAL},
    {"a command of servers", Command::dma_read, bytes_of(vu::DmaAccess{mapped_at, 4}), EINVAL},
    {"migration", Command::device_feature, std::vector<std::byte>(8), ENOTSUP},
    {"migration data", Command::mig_data_read, std::vector<std::byte>(8), ENOTSUP},
    {"ioeventfds", Command::device_get_region_io_fds, std::vector<std::byte>(16), ENOTSUP},

    {"no request", Command::device_get_info, {}, EINVAL},
    {"no room", Command::device_get_info, bytes_of(vu::DeviceInfo{15, 0, 0, 0}), EINVAL},
    {"region 9", Command::device_get_region_info, bytes_of(vu::RegionInfo{32, 0, 9, 0, 0, 0}), EINVAL},
    {"no room", Command::device_get_region_info, bytes_of(vu::RegionInfo{31, 0, 0, 0, 0, 0}), EINVAL},
    {"a short request", Command::device_get_region_info, std::vector<std::byte>(31), EINVAL},
    {"interrupt type 5", Command::device_get_irq_info, bytes_of(vu::IrqInfo{16, 0, 5, 0}), EINVAL},
    {"no room", Command::device_get_irq_info, bytes_of(vu::IrqInfo{15, 0, 0, 0}), EINVAL},

    {"at the end", Command::region_read, access_payload(0x4000, 2, 1), EINVAL},
    {"over the end", Command::region_read, access_payload(0x3ffd, 2, 4), EINVAL},
    {"the last offset", Command::region_read, access_payload(~0ull, 2, 1), EINVAL},
    {"round the end", Command::region_read, access_payload(~0ull - 3, 2, 8), EINVAL},
    {"half of a wide BAR", Command::region_read, access_payload(0, 3, 1), EINVAL},
    {"a BAR that is not there", Command::region_read, access_payload(0, 1, 1), EINVAL},
    {"region 9", Command::region_read, access_payload(0, 9, 1), EINVAL},
    {"the last region", Command::region_read, access_payload(0, 0xffffffff, 1), EINVAL},
    {"the longest read", Command::region_read, access_payload(0, 2, 0xffffffff), EINVAL},
    {"the ROM", Command::region_read, access_payload(0, 6, 1), EINVAL},
    {"VGA", Command::region_read, access_payload(0, 8, 1), EINVAL},
    {"over the end of config", Command::region_read, access_payload(4095, 7, 2), EINVAL},
    {"a read with data", Command::region_read, access_payload(0, 2, 4, 1), EINVAL},
    {"a short request", Command::region_read, std::vector<std::byte>(15), EINVAL},
    {"too few data", Command::region_write, access_payload(0, 2, 4, 3), EINVAL},
    {"too many data", Command::region_write, access_payload(0, 2, 4, 5), EINVAL},
    {"a count of its own", Command::region_write, access_payload(0, 2, 0xfffffff0, 4), EINVAL},
    {"over the end", Command::region_write, access_payload(0x3ffe, 2, 4, 4), EINVAL},
    {"a short request", Command::region_write, std::vector<std::byte>(3), EINVAL},
    {"fewer than said", Command::region_write_multi, bytes_of(std::uint64_t{2}, good_write), EINVAL},
    {"all that there are", Command::region_write_multi, bytes_of(~std::uint64_t{0}, good_write), EINVAL},
    {"a product of 2^64", Command::region_write_multi, bytes_of(0x0aaaaaaaaaaaaaabull, good_write), EINVAL},
    {"nine bytes", Command::region_write_multi, bytes_of(std::uint64_t{1}, vu::SmallWrite{cd::scratch, 2, 9, {}}),
     EINVAL},
    {"one good, one not", Command::region_write_multi,
     bytes_of(std::uint64_t{2}, good_write, vu::SmallWrite{0x4000, 2, 1, {}}), EINVAL},
    {"a short request", Command::region_write_multi, std::vector<std::byte>(7), EINVAL},

    {"a short request", Command::device_set_irqs, std::vector<std::byte>(19), EINVAL},
    {"a length of its own", Command::device_set_irqs, irqs_payload(33, 2, 0, 0, 0, 19), EINVAL},
    {"interrupt type 5", Command::device_set_irqs, irqs_payload(33, 5, 0, 0), EINVAL},
    {"none from 1", Command::device_set_irqs, irqs_payload(33, 2, 1, 0), EINVAL},
    {"one too many", Command::device_set_irqs, irqs_payload(36, 2, 0, cd::vectors + 1), EINVAL},
    {"round the end", Command::device_set_irqs, irqs_payload(36, 2, 1, 0xffffffff), EINVAL},
    {"the last vector", Command::device_set_irqs, irqs_payload(36, 2, 0xffffffff, 1), EINVAL},
    {"no vector", Command::device_set_irqs, irqs_payload(36, 2, 0, 0), EINVAL},
    {"error interrupts", Command::device_set_irqs, irqs_payload(36, 3, 0, 1), EINVAL},
    {"a file that is no eventfd", Command::device_set_irqs, irqs_payload(36, 2, 0, 1), EINVAL, true},
    {"one for two", Command::device_set_irqs, irqs_payload(36, 2, 0, 2), EINVAL, true},
    {"one for nothing", Command::device_set_irqs, irqs_payload(33, 2, 0, 1), EINVAL, true},
    {"no kind of data", Command::device_set_irqs, irqs_payload(32, 2, 0, 1), EINVAL},
    {"no action", Command::device_set_irqs, irqs_payload(1, 2, 0, 1), EINVAL},
    {"two kinds of data", Command::device_set_irqs, irqs_payload(35, 2, 0, 1, 1), EINVAL},
    {"three actions", Command::device_set_irqs, irqs_payload(57, 0, 0, 1), EINVAL},
    {"unknown flags", Command::device_set_irqs, irqs_payload(0x80000021, 2, 0, 1), EINVAL},
    {"too few flags", Command::device_set_irqs, irqs_payload(34, 2, 0, 2, 1), EINVAL},
    {"flags for nothing", Command::device_set_irqs, irqs_payload(33, 2, 0, 1, 1), EINVAL},
    {"masking MSI-X", Command::device_set_irqs, irqs_payload(17, 2, 0, 1), EINVAL},
    {"an eventfd to unmask", Command::device_set_irqs, irqs_payload(20, 0, 0, 1), EINVAL},

    {"nothing", Command::dma_map, map_payload(mapped_at, 0), EINVAL},
    {"within a page", Command::dma_map, map_payload(mapped_at + 1, 4096), EINVAL},
    {"a part of a page", Command::dma_map, map_payload(mapped_at, 4095), EINVAL},
    {"round the end", Command::dma_map, map_payload(last_page, 8192), EINVAL},
    {"almost everything", Command::dma_map, map_payload(mapped_at, last_page), EINVAL},
    {"unknown flags", Command::dma_map, map_payload(mapped_at, 4096, 0x10), EINVAL},
    {"a length of its own", Command::dma_map, map_payload(mapped_at, 4096, 3, 0, 31), EINVAL},
    {"longer than its file", Command::dma_map, map_payload(mapped_at, mapped_bytes + 4096), EINVAL, true},
    {"over its file's end", Command::dma_map, map_payload(mapped_at, mapped_bytes, 3, 4096), EINVAL, true},
    {"within a page of it", Command::dma_map, map_payload(mapped_at, 4096, 3, 1), EINVAL, true},
    {"a file's last page", Command::dma_map, map_payload(mapped_at, 4096, 3, last_page), EINVAL, true},
    {"a negative offset", Command::dma_map, map_payload(mapped_at, 4096, 3, 1ull << 63), EINVAL, true},
    {"a short request", Command::dma_map, std::vector<std::byte>(31), EINVAL},
    {"a long request", Command::dma_map, std::vector<std::byte>(33), EINVAL},
    {"nothing", Command::dma_unmap, unmap_payload(mapped_at, 0), EINVAL},
    {"round the end", Command::dma_unmap, unmap_payload(last_page, 8192), EINVAL},
    {"dirty pages", Command::dma_unmap, unmap_payload(mapped_at, 4096, 1), ENOTSUP},
    {"all, and some", Command::dma_unmap, unmap_payload(mapped_at, 4096, 2), EINVAL},
    {"unknown flags", Command::dma_unmap, unmap_payload(mapped_at, 4096, 4), EINVAL},
    {"no room", Command::dma_unmap, unmap_payload(mapped_at, 4096, 0, 23), EINVAL},
    {"a short request", Command::dma_unmap, std::vector<std::byte>(23), EINVAL},
};

TEST_F(VfioUserServer, RefusesWhatDoesNotFit) {
    RawClient client(served.path());
    ASSERT_TRUE(client.negotiate());
    const auto memory = shared_memory();
    const int file = memory.fd();
    const std::size_t descriptors = open_descriptors();
    for (const Refused& each : refused) {
        EXPECT_EQ(client.ask(each.command, each.payload, std::span(&file, each.with_file ? 1 : 0)), each.error)
            << each.what << ", command " << static_cast<unsigned>(each.command);
        EXPECT_TRUE(client.answer().payload.empty());
    }
    const int three[] = {file, file, file};
    EXPECT_EQ(client.ask(Command::dma_map, map_payload(mapped_at, 4096), three), EINVAL);
    EXPECT_EQ(client.ask(Command::device_set_irqs, irqs_payload(36, 2, 0, 1), three), EINVAL);
    EXPECT_EQ(client.ask(Command::device_get_info, vu::DeviceInfo{16, 0, 0, 0}, three), 0) << "not wanted, not kept";
    EXPECT_EQ(open_descriptors(), descriptors);
    // And after all that it works.
    EXPECT_EQ(client.read_register(cd::scratch, 4), 0u) << "nothing was written by halves";
    EXPECT_EQ(client.map(mapped_at, mapped_bytes, file), 0);
    EXPECT_EQ(client.unmap(mapped_at, mapped_bytes), 0);
}

TEST_F(VfioUserServer, DescriptorsAreNeverLeaked) {
    const auto memory = shared_memory();
    served.run([] {});
    const std::size_t before = open_descriptors();
    for (int round = 0; round < 3; ++round) {
        RawClient client(served.path());
        ASSERT_TRUE(client.negotiate());
        for (std::uint64_t i = 0; i < 8; ++i) ASSERT_EQ(client.map(mapped_at + i * 0x1000, 0x1000, memory.fd()), 0);
        std::vector<pci::OwnedFd> events;
        std::vector<int> raw;
        for (unsigned i = 0; i < cd::vectors; ++i) {
            events.emplace_back(::eventfd(0, EFD_CLOEXEC));
            raw.push_back(events.back().get());
        }
        for (int i = 0; i < 3; ++i) {
            ASSERT_EQ(client.ask(Command::device_set_irqs, vu::IrqSet{20, 36, 2, 0, cd::vectors}, raw), 0);
        }
        // A hundred descriptors with each byte of a message that is never finished.
        const std::vector<int> many(100, memory.fd());
        const auto start = bytes_of(vu::Header{1, 9, 2000, 0, 0});
        for (std::size_t i = 0; i < start.size(); ++i) {
            if (!client.send(std::span(start).subspan(i, 1), many)) break;
        }
    }
    ASSERT_TRUE(served.wait_until_free());
    EXPECT_EQ(open_descriptors(), before);
}

/// A whole session as one string of bytes; the client dies after each of them.
TEST_F(VfioUserServer, DeathOfTheClientAtEveryByte) {
    const auto memory = shared_memory();
    const pci::OwnedFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    describe(memory.data(), mapped_at + 0x1000, mapped_at + 0x2000, 512);
    struct Step {
        Command command;
        std::vector<std::byte> payload;
        std::uint32_t flags = 0;
        int fd = -1;
    };
    const Step session[] = {
        {Command::version, pci::encode_version({.max_fds = 1})},
        {Command::dma_map, map_payload(mapped_at, mapped_bytes), 0, memory.fd()},
        {Command::dma_map, map_payload(mapped_at * 2, 4096)},
        {Command::device_set_irqs, irqs_payload(36, 2, 0, 1), 0, event.get()},
        {Command::device_get_region_info, bytes_of(vu::RegionInfo{4096, 0, 2, 0, 0, 0})},
        {Command::region_write, register_write(cd::ring_address, mapped_at, 8)},
        {Command::region_write, register_write(cd::ring_entries, 16, 4), vu::flag_no_reply},
        {Command::region_write, register_write(cd::done_address, mapped_at + 0x800, 8)},
        {Command::region_write, register_write(cd::doorbell, 1, 4)},
        {Command::dma_unmap, unmap_payload(mapped_at, mapped_bytes)},
        {Command::device_reset, {}},
    };
    std::size_t total = 0;
    for (const Step& step : session) total += sizeof(vu::Header) + step.payload.size();

    served.run([] {});
    const std::size_t descriptors = open_descriptors();
    for (std::size_t death = 0; death <= total; ++death) {
        RawClient client(served.path());
        std::size_t left = death;
        for (const Step& step : session) {
            const auto bytes = RawClient::message(step.command, step.payload, 3, step.flags);
            const std::size_t now = std::min(left, bytes.size());
            if (now == 0) break;
            ASSERT_TRUE(client.send(std::span(bytes).first(now), std::span(&step.fd, step.fd >= 0 ? 1 : 0)));
            left -= now;
        }
    }
    // The last of them may still wait to be accepted.
    for (int i = 0; i < 6000 && served.clients_served() < total + 1; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(served.clients_served(), total + 1);
    ASSERT_TRUE(served.wait_until_free());
    EXPECT_EQ(open_descriptors(), descriptors);
    served.with_model([](CopyDevice& model) { EXPECT_EQ(model.host().memory().regions(), 0u); });
    RawClient client(served.path());
    ASSERT_TRUE(client.negotiate());
    EXPECT_EQ(client.read_register(cd::magic, 4), cd::magic_value);
}

/// The client asks and asks and takes no answer, until they fill its socket.
TEST_F(VfioUserServer, AClientThatReadsNothingIsNotWaitedFor) {
    {
        RawClient deaf(served.path());
        ASSERT_TRUE(deaf.negotiate());
        const auto ask = RawClient::message(Command::region_read, access_payload(0, 2, 0x4000), 1);
        for (int i = 0; i < 20000; ++i) {
            pollfd one{deaf.fd(), POLLOUT, 0};
            if (::poll(&one, 1, 100) == 0) break;
            ASSERT_TRUE(deaf.send(ask));
        }
        EXPECT_TRUE(served.connected()) << "the server's thread goes on";
    }
    ASSERT_TRUE(served.wait_until_free());
}

/// The client fills its eventfd's counter and lets writers wait for it.
TEST_F(VfioUserServer, AFullEventfdDoesNotStopTheServer) {
    RawClient client(served.path());
    ASSERT_TRUE(client.negotiate());
    const pci::OwnedFd event(::eventfd(0, EFD_CLOEXEC));
    const int fd = event.get();
    ASSERT_EQ(client.ask(Command::device_set_irqs, irqs_payload(36, 2, 0, 1), std::span(&fd, 1)), 0);
    ASSERT_EQ(::fcntl(fd, F_SETFL, 0), 0);
    ASSERT_EQ(::eventfd_write(fd, 0xfffffffffffffffe), 0);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(client.write_register(cd::raise, 0, 4), 0);
    }
    EXPECT_EQ(client.ask(Command::device_set_irqs, irqs_payload(33, 2, 0, 1)), 0) << "nor by the client's own trigger";
    EXPECT_EQ(client.read_register(cd::magic, 4), cd::magic_value);
}

TEST(VfioUserServerAlone, WhoNeverSaysItsVersionDoesNotKeepOthersOut) {
    set_log_level(LogLevel::off);
    ServedDevice served(true, std::chrono::milliseconds(300));
    RawClient silent(served.path()), stops_short(served.path());
    ASSERT_TRUE(stops_short.send(std::vector<std::byte>(15)));
    bool served_then = false;
    for (int i = 0; i < 100 && !served_then; ++i) served_then = RawClient(served.path()).negotiate();
    EXPECT_TRUE(served_then);
    EXPECT_TRUE(silent.closed());
    EXPECT_TRUE(stops_short.closed());
    RawClient client(served.path());
    bool greeted = client.negotiate();
    for (int i = 0; greeted && i < 7; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        EXPECT_EQ(client.read_register(cd::magic, 4), cd::magic_value) << "who has said it may stay";
    }
    set_log_level(LogLevel::warning);
}

/// Takes every descriptor that this process may have but one.
class FewDescriptors {
  public:
    FewDescriptors() {
        ::getrlimit(RLIMIT_NOFILE, &before_);
        rlimit low = before_;
        low.rlim_cur = static_cast<rlim_t>(pci::OwnedFd(::dup(0)).get()) + 64;
        ::setrlimit(RLIMIT_NOFILE, &low);
        for (int round = 0; round < 5; ++round) {  // other threads close what they had open for a moment
            for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken_.emplace_back(fd);
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        taken_.pop_back();
    }
    ~FewDescriptors() {
        taken_.clear();
        ::setrlimit(RLIMIT_NOFILE, &before_);
    }

  private:
    rlimit before_{};
    std::vector<pci::OwnedFd> taken_;
};

TEST_F(VfioUserServer, WithoutDescriptorsItWaitsForThem) {
#if defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "the sanitizer looks at objects through a pipe, and here is no descriptor left for one";
#endif
    const auto cpu_time = [this] {
        timespec time{};
        served.run([&time] { ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time); });
        return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
    };
    std::optional<FewDescriptors> few(std::in_place);
    RawClient client(served.path());
    const auto before = cpu_time();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    EXPECT_LT(cpu_time() - before, std::chrono::milliseconds(100)) << "and does not spin meanwhile";
    EXPECT_FALSE(served.connected());
    few.reset();
    EXPECT_TRUE(client.negotiate());
}

/// Each answer comes in time, but the device needs hundreds of them for one write to a register.
TEST_F(VfioUserServer, AClientWhoseMemoryDripsIsLeft) {
    RawClient client(served.path());
    ASSERT_EQ(client.ask(Command::version, pci::encode_version({.max_transfer_bytes = 4096})), 0);
    ASSERT_EQ(client.map(mapped_at, 4 * cd::most_bytes, -1), 0);
    set_up_ring(client);
    ASSERT_TRUE(client.send(RawClient::message(Command::region_write, register_write(cd::doorbell, 1, 4), 100)));
    cd::Descriptor command{};
    command.from = mapped_at + 0x1000;
    command.to = mapped_at + 2 * cd::most_bytes;
    command.bytes = cd::most_bytes;
    int answers = 0;
    for (pci::Message message; answers < 200 && client.receive(message); ++answers) {
        const auto kind = static_cast<Command>(message.header.command);
        vu::DmaAccess access{};
        std::memcpy(&access, message.payload.data(), sizeof access);
        ASSERT_LE(access.count, 4096u);
        std::vector<std::byte> data(kind == Command::dma_read ? access.count : 0);
        if (access.address == mapped_at) std::memcpy(data.data(), &command, sizeof command);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        if (!client.send(RawClient::message(kind, bytes_of(access, data), message.header.message_id, vu::flag_reply))) {
            break;
        }
    }
    EXPECT_GE(answers, 2);
    EXPECT_LE(answers, pci::WaitBudget::bound_ns / 100'000'000 + 1);
    EXPECT_TRUE(served.wait_until_free());
}

}  // namespace
}  // namespace mqblk::test
