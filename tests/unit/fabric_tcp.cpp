// SPDX-License-Identifier: Apache-2.0
//
// TCP over loopback: connecting, its errors, and streams that arrive as they were sent.
#include "fabric/tcp.h"

#include "fabric/socket.h"
#include "reactor_support.h"

#include <gmock/gmock.h>
#include <netinet/tcp.h>

#include <array>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace mqblk::fabric {
namespace {

using namespace std::chrono_literals;
using Connected = Result<std::unique_ptr<Connection>>;
using testing::HasSubstr;

struct Tcp : testing::Test {
    std::unique_ptr<Network> network = make_tcp_network();
    std::unique_ptr<Reactor> reactor = test::uring_reactor();
    std::vector<Network::Token> accepted;

    std::unique_ptr<Listener> listen(const std::string& host = "127.0.0.1") {
        auto listener = network->listen(*reactor, {host, 0},
                                        [this](Network::Token token) { accepted.push_back(std::move(token)); });
        EXPECT_TRUE(listener) << listener.error().message();
        return std::move(*listener);
    }

    Connected connect(const Address& to, Duration timeout = 30s) {
        std::optional<Connected> result;
        spawn(network->connect(*reactor, to, timeout), [&](Connected ended) { result.emplace(std::move(ended)); });
        EXPECT_TRUE(test::run_until(*reactor, [&] { return result.has_value(); }));
        return std::move(*result);
    }

    /// Both ends of a new connection.
    std::array<std::unique_ptr<Connection>, 2> pair(const std::string& host = "127.0.0.1") {
        const auto listener = listen(host);
        auto near = connect(listener->address());
        EXPECT_TRUE(near) << near.error().message();
        EXPECT_TRUE(test::run_until(*reactor, [&] { return !accepted.empty(); }));
        auto far = accepted.back()(*reactor);
        accepted.clear();
        return {std::move(*near), std::move(far)};
    }

    void wait_ready(Connection& connection, bool for_write) {
        bool ready = false;
        connection.on_ready([&] { ready = true; });
        connection.arm(for_write);
        EXPECT_TRUE(test::run_until(*reactor, [&] { return ready; }));
    }
};

TEST_F(Tcp, BytesArriveInOrderThroughAnySegments) {
    auto [near, far] = pair();
    SeededRandom random(7);
    std::vector<std::byte> sent(3'000'000), got(sent.size());
    for (auto& byte : sent) byte = static_cast<std::byte>(random.next());

    std::size_t out = 0, in = 0;
    const auto pieces = [&](std::vector<std::byte>& from, std::size_t at) {
        std::vector<Segment> list;
        for (std::size_t count = 1 + random.below(1500); count > 0 && at < from.size(); --count) {
            const std::size_t bytes = std::min<std::size_t>(random.below(300), from.size() - at);  // some are empty
            list.push_back({from.data() + at, bytes});
            at += bytes;
        }
        return list;
    };
    while (in < got.size()) {
        const auto to_send = pieces(sent, out);
        if (out < sent.size()) out += near->send(to_send, random.below(2) == 0).bytes;
        const auto room = pieces(got, in);
        const IoResult received = far->receive(room);
        ASSERT_NE(received.state, IoResult::closed);
        ASSERT_NE(received.state, IoResult::failed);
        in += received.bytes;
    }
    EXPECT_EQ(sent, got);
}

TEST_F(Tcp, ReadinessIsToldOnceWhenArmed) {
    auto [near, far] = pair();
    int ready = 0;
    far->on_ready([&] { ++ready; });
    far->arm(false);
    far->arm(false);
    reactor->run_once(Reactor::Sleep::yes, reactor->now() + 1ms);
    EXPECT_EQ(ready, 0);
    std::byte data[4]{};
    const Segment segment{data, sizeof data};
    EXPECT_EQ(near->send({&segment, 1}).bytes, 4u);
    EXPECT_TRUE(test::run_until(*reactor, [&] { return ready == 1; }));
    reactor->run_once(Reactor::Sleep::yes, reactor->now() + 1ms);
    EXPECT_EQ(ready, 1);
}

TEST_F(Tcp, AFullSocketBlocksAndBecomesWritable) {
    auto [near, far] = pair();
    std::vector<std::byte> data(1 << 20);
    const Segment segment{data.data(), data.size()};
    IoResult result;
    std::size_t total = 0;
    while ((result = near->send({&segment, 1})).bytes > 0) total += result.bytes;
    EXPECT_EQ(result.state, IoResult::would_block);
    std::size_t drained = 0;
    while (drained < total) drained += far->receive({&segment, 1}).bytes;
    wait_ready(*near, true);
    EXPECT_GT(near->send({&segment, 1}).bytes, 0u);
}

TEST_F(Tcp, HalfCloseLetsTheOtherDirectionGoOn) {
    auto [near, far] = pair();
    std::byte byte{7};
    const Segment segment{&byte, 1};
    EXPECT_EQ(near->send({&segment, 1}).bytes, 1u);
    near->shutdown();
    wait_ready(*far, false);
    EXPECT_EQ(far->receive({&segment, 1}).bytes, 1u);
    wait_ready(*far, false);
    EXPECT_EQ(far->receive({&segment, 1}).state, IoResult::closed);
    EXPECT_EQ(far->send({&segment, 1}).bytes, 1u);
    wait_ready(*near, false);
    EXPECT_EQ(near->receive({&segment, 1}).bytes, 1u);
}

TEST_F(Tcp, ThePeersEndIsAnErrorToTheSenderNotASignal) {
    auto [near, far] = pair();
    far.reset();
    std::byte byte{};
    const Segment segment{&byte, 1};
    wait_ready(*near, false);
    EXPECT_EQ(near->receive({&segment, 1}).bytes, 0u);
    IoResult result;
    for (int i = 0; i < 1000 && result.state != IoResult::failed; ++i) {
        result = near->send({&segment, 1});
        reactor->run_once(Reactor::Sleep::yes, reactor->now() + 1ms);
    }
    EXPECT_EQ(result.state, IoResult::failed);
    EXPECT_TRUE(result.error_number == EPIPE || result.error_number == ECONNRESET) << result.error_number;
}

TEST_F(Tcp, AConnectionMayDestroyItselfWhenReady) {
    auto [near, far] = pair();
    bool gone = false;
    far->on_ready([&gone, connection = &far] {
        connection->reset();
        gone = true;
    });
    far->arm(false);
    near.reset();
    EXPECT_TRUE(test::run_until(*reactor, [&] { return gone; }));
}

TEST_F(Tcp, NamesBothEndsAndSpeaksIPv6) {
    auto [near, far] = pair();
    EXPECT_EQ(near->peer(), far->local());
    EXPECT_EQ(near->local(), far->peer());
    EXPECT_THAT(near->peer(), HasSubstr("127.0.0.1:"));
    if (network->listen(*reactor, {"::1", 0}, [](Network::Token) {})) {
        auto six = pair("::1");
        EXPECT_THAT(six[0]->peer(), HasSubstr("[::1]:"));
    }
}

/// The congestion control of each of this process's sockets that has `peer` at its other end.
std::vector<std::string> congestion_controls_towards(const std::string& peer) {
    std::vector<std::string> found;
    for (int fd = 0; fd < 1024; ++fd) {
        if (SocketAddress::peer_of(fd).bytes == 0 || SocketAddress::peer_of(fd).to_address().to_string() != peer)
            continue;
        std::array<char, 16> name{};
        socklen_t bytes = name.size();
        EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &bytes), 0);
        found.emplace_back(name.data());
    }
    return found;
}

TEST_F(Tcp, NeitherEndOfALoopbackConnectionIsPaced) {
    for (const std::string host : {"127.0.0.1", "::1"}) {
        if (!network->listen(*reactor, {host, 0}, [](Network::Token) {})) continue;  // no IPv6 here
        const auto [near, far] = pair(host);
        EXPECT_THAT(congestion_controls_towards(near->peer()), testing::ElementsAre("reno"));
        EXPECT_THAT(congestion_controls_towards(far->peer()), testing::ElementsAre("reno"));
    }
}

TEST(SocketAddressTest, KnowsLoopback) {
    const auto loopback = [](const char* host) { return resolve_literal({host, 1}, false).front().is_loopback(); };
    EXPECT_TRUE(loopback("127.0.0.1"));
    EXPECT_TRUE(loopback("127.255.0.9"));
    EXPECT_TRUE(loopback("::1"));
    EXPECT_FALSE(loopback("128.0.0.1"));
    EXPECT_FALSE(loopback("10.0.0.127"));
    EXPECT_FALSE(loopback("::2"));
    EXPECT_FALSE(loopback("fe80::1"));
}

TEST_F(Tcp, LocalhostIsFoundWithoutAResolver) {
    const auto listener = listen();
    EXPECT_TRUE(connect({"localhost", listener->address().port}));
}

TEST_F(Tcp, RefusedConnectionsSaySo) {
    const std::uint16_t port = listen()->address().port;  // and closed again
    const auto connection = connect({"127.0.0.1", port});
    ASSERT_FALSE(connection);
    EXPECT_EQ(connection.error().code(), Errc::unreachable);
    EXPECT_EQ(connection.error().message(),
              "connect to 127.0.0.1:" + std::to_string(port) + ": connection refused; is a target listening there?");
}

TEST_F(Tcp, AClosedListenerIsClosedAtOnceEvenWhileWatched) {
    auto listener = listen();
    const Address address = listener->address();
    reactor->run_once(Reactor::Sleep::yes, reactor->now() + 1ms);  // the kernel has its poll request now
    listener.reset();
    EXPECT_FALSE(connect(address));
    auto again = network->listen(*reactor, address, [](Network::Token) {});
    EXPECT_TRUE(again) << again.error().message();
}

TEST_F(Tcp, AnAddressInUseIsNamedWithARemedy) {
    const auto listener = listen();
    const auto second = network->listen(*reactor, listener->address(), [](Network::Token) {});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code(), Errc::already_exists);
    EXPECT_THAT(second.error().message(), HasSubstr(listener->address().to_string()));
    EXPECT_THAT(second.error().message(), HasSubstr("in use; choose another port"));
}

// As after a kill: the process is gone, its listener goes a moment later.
TEST_F(Tcp, APortThatIsAboutToBeFreeIsWaitedFor) {
    std::promise<Address> held;
    std::thread dying([&held, this] {
        const auto own_reactor = test::uring_reactor();
        const auto first = network->listen(*own_reactor, {"127.0.0.1", 0}, [](const Network::Token&) {});
        held.set_value((*first)->address());
        std::this_thread::sleep_for(100ms);
    });
    EXPECT_TRUE(network->listen(*reactor, held.get_future().get(), [](const Network::Token&) {}));
    dying.join();
}

TEST_F(Tcp, ANameThatDoesNotResolveIsAnError) {
    const auto connection = connect({"no-such-host.invalid", 1});
    ASSERT_FALSE(connection);
    EXPECT_THAT(connection.error().message(), HasSubstr("no-such-host.invalid"));
}

TEST_F(Tcp, AConnectionNobodyAdoptsIsClosed) {
    const auto listener = listen();
    auto near = connect(listener->address());
    ASSERT_TRUE(near);
    EXPECT_TRUE(test::run_until(*reactor, [&] { return !accepted.empty(); }));
    accepted.clear();
    wait_ready(**near, false);
    std::byte byte{};
    const Segment segment{&byte, 1};
    EXPECT_EQ((*near)->receive({&segment, 1}).state, IoResult::closed);
}

TEST_F(Tcp, AListenerMayBeDestroyedByItsOwnCallback) {
    std::unique_ptr<Listener> listener;
    Network::Token token;
    auto made = network->listen(*reactor, {"127.0.0.1", 0}, [&](Network::Token one) {
        token = std::move(one);
        listener.reset();
    });
    ASSERT_TRUE(made);
    listener = std::move(*made);
    ASSERT_TRUE(connect(listener->address()));
    EXPECT_TRUE(test::run_until(*reactor, [&] { return token != nullptr; }));
    EXPECT_EQ(listener, nullptr);
}

TEST_F(Tcp, AConnectThatIsAbandonedEndsQuietly) {
    {
        const auto task = network->connect(*reactor, {"127.0.0.1", 1}, 1s);
    }  // never started
    reactor->run_once(Reactor::Sleep::no);
}

struct AddressCase {
    const char* text;
    const char* host;
    int port;
};
class AddressText : public testing::TestWithParam<AddressCase> {};

TEST_P(AddressText, Parses) {
    const auto& expected = GetParam();
    const auto address = Address::parse(expected.text, 4420);
    ASSERT_TRUE(address) << address.error().message();
    EXPECT_EQ(address->host, expected.host);
    EXPECT_EQ(address->port, expected.port);
    const auto again = Address::parse(address->to_string(), 1);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->host, expected.host);
    EXPECT_EQ(again->port, expected.port);
}
INSTANTIATE_TEST_SUITE_P(Table, AddressText,
                         testing::Values(AddressCase{"127.0.0.1", "127.0.0.1", 4420},
                                         AddressCase{"127.0.0.1:0", "127.0.0.1", 0},
                                         AddressCase{"host.example:65535", "host.example", 65535},
                                         AddressCase{"[::1]:80", "::1", 80}, AddressCase{"[fe80::1]", "fe80::1", 4420},
                                         AddressCase{"::1", "::1", 4420}, AddressCase{"*:7", "*", 7}));

TEST(AddressText, RefusesWhatIsMalformed) {
    for (const char* text :
         {"", ":80", "host:", "host:65536", "host:-1", "host:8x", "host: 8", "[::1", "[::1]80", "[::1]:", "[]:80"}) {
        const auto address = Address::parse(text, 1);
        ASSERT_FALSE(address) << text;
        EXPECT_EQ(address.error().code(), Errc::invalid_argument);
        EXPECT_THAT(address.error().message(), HasSubstr("'" + std::string(text) + "'"));
    }
}

}  // namespace
}  // namespace mqblk::fabric
