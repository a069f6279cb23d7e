// SPDX-License-Identifier: Apache-2.0
//
// The real host against the real target over TCP: data of every shape with every digest, namespaces that come, go and
// grow, a target that goes away and comes back, discovery, and what people are told when it cannot work.
#include "host_support.h"

#include "block/queue.h"
#include "support/tcp_served.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

namespace mqblk::test {
namespace {

using namespace std::chrono_literals;

driver::nvme::HostOptions options_of_test() {
    driver::nvme::HostOptions options;
    options.queues = 2;
    options.depth = 32;
    options.reconnect_delay = 10ms;
    options.ctrl_loss_tmo = 60s;
    return options;
}

/// Waits for what another thread brings about; false after longer than any healthy machine needs.
bool eventually(const std::function<bool()>& done) {
    const auto limit = std::chrono::steady_clock::now() + 60s;
    while (!done()) {
        if (std::chrono::steady_clock::now() > limit) return false;
        std::this_thread::sleep_for(2ms);
    }
    return true;
}

std::vector<std::byte> noise(std::size_t bytes, std::uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<std::byte> result(bytes);
    for (auto& byte : result) byte = static_cast<std::byte>(random());
    return result;
}

class NvmeTcpDigests : public testing::TestWithParam<std::pair<bool, bool>> {};

// In the capsule, by R2T, split at the largest transfer; whole and in odd pieces of memory.
TEST_P(NvmeTcpDigests, DataIsExact) {
    Served served;
    HostSide host;
    auto options = options_of_test();
    std::tie(options.header_digest, options.data_digest) = GetParam();
    const auto controller = host.connect(served.tcp->address().port, served_nqn, options);
    ASSERT_TRUE(controller) << controller.error().message();
    {
        const auto device = (*controller)->device(1);
        ASSERT_TRUE(device) << device.error().message();
        const auto channel = (*device)->channel();
        ASSERT_TRUE(channel) << channel.error().message();
        std::uint32_t seed = 1;
        for (const std::size_t bytes : {512u, 4096u, 16384u, 16896u, 65536u, 1u << 20, (3u << 20) + 512u}) {
            auto written = noise(bytes, seed);
            ASSERT_EQ(run_bio(**channel, Op::write, 8 * seed, written), Status::ok) << bytes;
            std::vector<std::byte> read(bytes);
            ASSERT_EQ(run_bio(**channel, Op::read, 8 * seed, read), Status::ok) << bytes;
            EXPECT_TRUE(read == written) << bytes;

            // The same into pieces of 1, 2, 3, … bytes with gaps between.
            std::vector<std::byte> scattered(2 * bytes + 4096);
            std::vector<Segment> segments;
            std::size_t at = 0;
            for (std::size_t left = bytes, piece = 1; left > 0; piece = piece % 3001 + 1) {
                const std::size_t size = std::min(left, piece * 3);
                segments.push_back({scattered.data() + at, size});
                at += size + 1;
                left -= size;
            }
            Bio bio;
            bool done = false;
            bio.sector = 8 * seed;
            bio.sectors = bytes / sector_bytes;
            bio.data = segments;
            bio.context = &done;
            bio.done = [](Bio& ended) noexcept { *static_cast<bool*>(ended.context) = true; };
            (*channel)->submit(bio);
            while (!done) (*channel)->wait();
            ASSERT_EQ(bio.status, Status::ok);
            std::size_t offset = 0;
            for (const Segment& segment : segments) {
                ASSERT_EQ(std::memcmp(segment.data, written.data() + offset, segment.bytes), 0)
                    << bytes << " " << offset;
                offset += segment.bytes;
            }
            ++seed;
        }
        EXPECT_EQ(run_bio(**channel, Op::flush, 0, {}), Status::ok);
        EXPECT_EQ(run_bio(**channel, Op::write_zeroes, 8, {}, 8), Status::ok);
        EXPECT_EQ(run_bio(**channel, Op::discard, 16, {}, 8), Status::ok);
        std::vector<std::byte> block(4096, std::byte{1});
        EXPECT_EQ(run_bio(**channel, Op::read, 8, block), Status::ok);
        EXPECT_TRUE(std::ranges::all_of(block, [](std::byte b) { return b == std::byte{}; }));
    }
    host.shut_down(**controller);
    EXPECT_TRUE(eventually([&] { return served.target().controllers().empty(); }));
}
INSTANTIATE_TEST_SUITE_P(Digests, NvmeTcpDigests,
                         testing::Values(std::pair{false, false}, std::pair{true, false}, std::pair{false, true},
                                         std::pair{true, true}));

TEST(NvmeTcp, NamespacesComeAndGo) {
    Served served;
    HostSide host;
    const auto controller = host.connect(served.tcp->address().port, served_nqn, options_of_test());
    ASSERT_TRUE(controller) << controller.error().message();
    device::nvme::NamespaceConfig added;
    added.nsid = 5;
    added.uri = "ram://?size=64M";
    added.device = ServedTarget::ram_disk();
    ASSERT_TRUE(served.target().add_namespace(served_nqn, added));
    ASSERT_TRUE(eventually([&] { return (*controller)->namespaces() == std::vector<std::uint32_t>{1, 5}; }));
    {
        const auto device = (*controller)->device(5);
        ASSERT_TRUE(device) << device.error().message();
        EXPECT_EQ((*device)->sectors(), (64u << 20) / 512);
        const auto channel = (*device)->channel();
        ASSERT_TRUE(channel);
        std::vector<std::byte> block(4096);
        EXPECT_EQ(run_bio(**channel, Op::read, 0, block), Status::ok);
        block::update_disk(*added.device, added.device->limits(), 4096, false);
        EXPECT_TRUE(eventually([&] { return (*device)->sectors() == 4096; })) << "a resize was not noticed";
        ASSERT_TRUE(served.target().remove_namespace(served_nqn, 5));
        EXPECT_TRUE(eventually([&] { return (*device)->removed(); }));
        EXPECT_NE(run_bio(**channel, Op::read, 0, block), Status::ok);
    }
    EXPECT_EQ((*controller)->namespaces(), std::vector<std::uint32_t>{1});
    host.shut_down(**controller);
}

// Another disk under the same number is another disk: the old one is gone for those who hold it.
TEST(NvmeTcp, AnotherDiskUnderTheSameNumber) {
    Served served;
    HostSide host;
    const auto controller = host.connect(served.tcp->address().port, served_nqn, options_of_test());
    ASSERT_TRUE(controller) << controller.error().message();
    {
        const auto before = (*controller)->device(1);
        ASSERT_TRUE(before);
        ASSERT_TRUE(served.target().remove_namespace(served_nqn, 1));
        device::nvme::NamespaceConfig other;
        other.nsid = 1;
        other.uri = "ram://?size=64M&other";
        other.device = ServedTarget::ram_disk();
        ASSERT_TRUE(served.target().add_namespace(served_nqn, other));
        ASSERT_TRUE(eventually([&] { return (*before)->removed(); }));
        ASSERT_TRUE(eventually([&] { return (*controller)->device(1).has_value(); }));
        const auto after = (*controller)->device(1);
        EXPECT_NE((*before)->identity().uuid, (*after)->identity().uuid);
    }
    host.shut_down(**controller);
}

// The target goes and comes back at the same address: I/O waits meanwhile and then goes on.
TEST(NvmeTcp, ComesBack) {
    ServedOptions served_options;
    served_options.device = ServedTarget::ram_disk();
    auto served = std::make_unique<Served>(served_options);
    const std::uint16_t port = served->tcp->address().port;
    HostSide host;
    const auto controller = host.connect(port, served_nqn, options_of_test());
    ASSERT_TRUE(controller) << controller.error().message();
    {
        const auto device = (*controller)->device(1);
        ASSERT_TRUE(device);
        const auto channel = (*device)->channel();
        ASSERT_TRUE(channel);
        auto block = noise(65536, 7);
        ASSERT_EQ(run_bio(**channel, Op::write, 0, block), Status::ok);
        served->on_thread([&] { served->tcp->shutdown([] {}); });
        ASSERT_TRUE(eventually([&] { return (*controller)->state() != driver::nvme::ControllerState::live; }));
        served.reset();
        // The same target again, as after a restart of its program; the port may take a moment to be free.
        std::unique_ptr<ServedTarget> target = std::make_unique<ServedTarget>(served_options);
        ReactorThread thread;
        const auto network = fabric::make_tcp_network();
        std::unique_ptr<device::nvme::TcpTarget> tcp;
        device::nvme::TcpTarget::Options options;
        options.listen = {"127.0.0.1", port};
        ASSERT_TRUE(eventually([&] {
            return thread.call([&] {
                auto listening =
                    device::nvme::TcpTarget::listen(target->target, target->port, *network, {&*thread}, options);
                if (listening) tcp = std::move(*listening);
                return tcp != nullptr;
            });
        }));
        std::vector<std::byte> read(block.size());
        EXPECT_EQ(run_bio(**channel, Op::read, 0, read), Status::ok);
        EXPECT_TRUE(read == block);
        host.shut_down(**controller);
        std::promise<void> down;
        tcp->shutdown([&] { down.set_value(); });
        down.get_future().get();
        thread.call([&] { tcp.reset(); });
    }
}

TEST(NvmeTcp, SharedByWhoAsksForTheSame) {
    Served served;
    HostSide host;
    const auto first = host.connect(served.tcp->address().port, served_nqn, options_of_test());
    const auto second = host.connect(served.tcp->address().port, served_nqn, options_of_test());
    ASSERT_TRUE(first && second);
    EXPECT_EQ(first->get(), second->get());
    EXPECT_EQ(served.target().controllers().size(), 1u);
    host.shut_down(**first);
}

// The last to let go of a disk disconnects.
TEST(NvmeTcp, DisconnectsWhenNobodyHoldsIt) {
    Served served;
    HostSide host;
    std::shared_ptr<Device> device;
    {
        const auto controller = host.connect(served.tcp->address().port, served_nqn, options_of_test());
        ASSERT_TRUE(controller) << controller.error().message();
        device = *(*controller)->device(1);
    }
    {
        const auto channel = device->channel();
        ASSERT_TRUE(channel);
        std::vector<std::byte> block(4096);
        EXPECT_EQ(run_bio(**channel, Op::read, 0, block), Status::ok);
    }
    EXPECT_EQ(served.target().controllers().size(), 1u);
    device.reset();
    EXPECT_TRUE(eventually([&] { return served.target().controllers().empty(); }));
}

TEST(NvmeTcp, Discovers) {
    Served served;
    HostSide host;
    const auto log = host.discover(served.tcp->address().port, options_of_test());
    ASSERT_TRUE(log) << log.error().message();
    ASSERT_EQ(log->size(), 1u);
    EXPECT_EQ(log->front().nqn, served_nqn);
    EXPECT_EQ(log->front().transport, "tcp");
    EXPECT_EQ(log->front().address, "127.0.0.1");
    for (int i = 0; i < 100; ++i) {
        device::nvme::SubsystemConfig more;
        more.nqn = "nqn.2026-01.org.example:more-" + std::to_string(i);
        ASSERT_TRUE(served.target().add_subsystem(more));
    }
    const auto longer = host.discover(served.tcp->address().port, options_of_test());
    ASSERT_TRUE(longer) << longer.error().message();
    EXPECT_EQ(longer->size(), 101u);
}

TEST(NvmeTcp, HostThatIsNotAllowedIsTold) {
    Served served;
    ASSERT_TRUE(served.target().allow_any_host(served_nqn, false));
    HostSide host;
    auto options = options_of_test();
    options.host_nqn = "nqn.2026-01.org.example:me";
    const auto refused = host.connect(served.tcp->address().port, served_nqn, options);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Errc::permission_denied);
    EXPECT_NE(refused.error().message().find("does not allow host NQN 'nqn.2026-01.org.example:me'"),
              std::string::npos);
    EXPECT_NE(refused.error().message().find("--allow-host"), std::string::npos) << refused.error().message();
    ASSERT_TRUE(served.target().allow_host(served_nqn, options.host_nqn));
    const auto allowed = host.connect(served.tcp->address().port, served_nqn, options);
    ASSERT_TRUE(allowed) << allowed.error().message();
    host.shut_down(**allowed);
}

TEST(NvmeTcp, RefusedConnectionIsTold) {
    std::uint16_t port = 0;
    {
        Served served;
        port = served.tcp->address().port;
    }
    HostSide host;
    const auto refused = host.connect(port, served_nqn, options_of_test());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Errc::unreachable) << refused.error().message();
}

}  // namespace
}  // namespace mqblk::test
