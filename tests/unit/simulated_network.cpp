// SPDX-License-Identifier: Apache-2.0
//
// The simulated network: whole streams under any conditions, and each fault where it was asked for.
#include "fabric/simulated.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mqblk::fabric {
namespace {

using namespace std::chrono_literals;
using Connected = Result<std::unique_ptr<Connection>>;
using testing::HasSubstr;

const Address server_address{"10.0.0.1", 4420};

std::byte pattern(std::uint64_t position) {
    return static_cast<std::byte>(position * 131 >> 3 ^ position);
}

/// One end with the reactor it lives in: sends `to_send` bytes of the pattern, and takes what comes.
struct Peer {
    std::unique_ptr<Connection> connection;
    std::uint64_t sent = 0, to_send = 0, received = 0;
    IoResult::State send_state = IoResult::progress, receive_state = IoResult::progress;
    bool in_order = true;
    bool reading = true;

    void start(std::unique_ptr<Connection> adopted) {
        connection = std::move(adopted);
        connection->on_ready([this] { go_on(); });
        go_on();
    }
    void go_on() {
        read();
        write();
        if (reading && receive_state == IoResult::would_block) connection->arm(false);
        if (sent < to_send && send_state == IoResult::would_block) connection->arm(true);
    }
    void read() {
        std::vector<std::byte> room(5000);
        const Segment pieces[] = {{room.data(), 10}, {nullptr, 0}, {room.data() + 10, room.size() - 10}};
        while (reading) {
            const IoResult result = connection->receive(pieces);
            receive_state = result.state;
            if (result.bytes == 0) break;
            for (std::size_t i = 0; i < result.bytes; ++i) {
                in_order = in_order && room[i] == pattern(received + i);
            }
            received += result.bytes;
        }
    }
    void write() {
        std::vector<std::byte> data;
        while (sent < to_send) {
            data.clear();
            for (std::uint64_t i = 0; i < std::min<std::uint64_t>(3000, to_send - sent); ++i) {
                data.push_back(pattern(sent + i));
            }
            const Segment pieces[] = {{data.data(), data.size() / 3},
                                      {data.data() + data.size() / 3, data.size() - data.size() / 3}};
            const IoResult result = connection->send(pieces);
            send_state = result.state;
            if (result.bytes == 0) break;
            sent += result.bytes;
        }
    }
};

struct Session {
    explicit Session(std::uint64_t seed, NetworkConditions conditions = {}) : world(seed), network(world, conditions) {
        listen();
    }
    ~Session() {
        near = {};
        far = {};
    }

    void listen() {
        auto made = network.listen(*server, server_address, [this](Network::Token token) {
            auto connection = token(*server);
            EXPECT_EQ(token(*server), nullptr);
            far.start(std::move(connection));
        });
        ASSERT_TRUE(made);
        listener = std::move(*made);
    }

    Connected connect(Duration timeout = 10s) {
        std::optional<Connected> result;
        spawn(network.connect(*client, server_address, timeout),
              [&](Connected one) { result.emplace(std::move(one)); });
        EXPECT_TRUE(world.run_until([&] { return result.has_value(); }, 2 * timeout));
        return std::move(*result);
    }
    void start() {
        auto connection = connect();
        ASSERT_TRUE(connection) << connection.error().message();
        near.start(std::move(*connection));
    }

    SimulatedWorld world;
    SimulatedNetwork network;
    std::unique_ptr<Reactor> client = world.make_reactor(), server = world.make_reactor();
    std::unique_ptr<Listener> listener;
    Peer near, far;
};

TEST(SimulatedNetwork, StreamsArriveWholeAndInOrderUnderAnyConditions) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        SeededRandom random(seed);
        NetworkConditions conditions;
        conditions.jitter = Duration(static_cast<Duration::rep>(random.below(2'000'000)));
        conditions.bytes_per_second = random.below(2) == 0 ? 0 : 1'000'000 + random.below(100'000'000);
        conditions.window_bytes = 1 + random.below(100'000);
        Session session(seed, conditions);
        session.near.to_send =
            random.below(200) == 0 ? 0 : random.below(300'000) / (1 + 100'000 / conditions.window_bytes);
        session.far.to_send = session.near.to_send / 2;
        session.start();
        EXPECT_TRUE(session.world.run_until(
            [&] {
                return session.far.received == session.near.to_send && session.near.received == session.far.to_send;
            },
            1h));
        EXPECT_TRUE(session.near.in_order && session.far.in_order);
        EXPECT_EQ(session.network.open_ends(), 2u);
        session.near.connection.reset();
        EXPECT_TRUE(session.world.run_until([&] { return session.far.receive_state == IoResult::closed; }, 1s));
        session.far.connection.reset();
        EXPECT_EQ(session.network.open_ends(), 0u);
    }
}

struct FaultCase {
    Fault::Kind kind;
    Way way;
    std::uint64_t after;
};
class SimulatedFaults : public testing::TestWithParam<FaultCase> {};

TEST_P(SimulatedFaults, StrikeAfterExactlySoManyBytes) {
    const auto& wanted = GetParam();
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Session session(seed);
        session.network.plan({.way = wanted.way, .after_bytes = wanted.after, .kind = wanted.kind, .duration = 2s});
        Peer& sender = wanted.way == Way::to_listener ? session.near : session.far;
        Peer& receiver = wanted.way == Way::to_listener ? session.far : session.near;
        sender.to_send = 70'000;
        const Time start = session.world.now();
        session.start();
        session.world.run_for(1s);
        EXPECT_EQ(receiver.received, wanted.after);
        EXPECT_TRUE(receiver.in_order);
        EXPECT_THAT(session.network.history(), HasSubstr("connection 0"));
        switch (wanted.kind) {
            case Fault::Kind::cut:
                EXPECT_EQ(receiver.receive_state, IoResult::failed);
                EXPECT_EQ(sender.receive_state, IoResult::failed);
                break;
            case Fault::Kind::close:
                EXPECT_EQ(receiver.receive_state, IoResult::closed);
                EXPECT_EQ(sender.receive_state, IoResult::failed);
                break;
            case Fault::Kind::drop:
                EXPECT_EQ(receiver.receive_state, IoResult::would_block);
                EXPECT_EQ(sender.receive_state, IoResult::would_block);
                break;
            case Fault::Kind::stall:
                EXPECT_TRUE(session.world.run_until([&] { return receiver.received == sender.to_send; }, 10s));
                EXPECT_GE(session.world.now() - start, 2s);
                EXPECT_TRUE(receiver.in_order);
                break;
        }
    }
}

std::vector<FaultCase> fault_cases() {
    std::vector<FaultCase> cases;
    for (const auto kind : {Fault::Kind::cut, Fault::Kind::close, Fault::Kind::stall, Fault::Kind::drop}) {
        for (const auto way : {Way::to_listener, Way::to_connector}) {
            for (const std::uint64_t after : {0, 1, 2999, 3000, 3001, 69'999}) cases.push_back({kind, way, after});
        }
    }
    return cases;
}
INSTANTIATE_TEST_SUITE_P(All, SimulatedFaults, testing::ValuesIn(fault_cases()));

TEST(SimulatedNetwork, AHalfOpenConnectionFillsTheWindowAndTheOtherWayStillWorks) {
    Session session(3);
    session.network.plan({.way = Way::to_listener, .after_bytes = 100, .kind = Fault::Kind::drop});
    session.near.to_send = 10'000'000;
    session.far.to_send = 5000;
    session.start();
    EXPECT_TRUE(session.world.run_until([&] { return session.near.received == 5000; }, 10s));
    session.world.run_for(10s);
    EXPECT_EQ(session.far.received, 100u);
    EXPECT_EQ(session.near.send_state, IoResult::would_block);
    EXPECT_EQ(session.near.sent, 100 + NetworkConditions{}.window_bytes);
    session.near.connection.reset();  // nor is its end told
    session.world.run_for(10s);
    EXPECT_EQ(session.far.receive_state, IoResult::would_block);
}

TEST(SimulatedNetwork, BandwidthBoundsTheRate) {
    NetworkConditions conditions;
    conditions.bytes_per_second = 1'000'000;
    Session session(4, conditions);
    session.near.to_send = 1'000'000;
    const Time start = session.world.now();
    session.start();
    EXPECT_TRUE(session.world.run_until([&] { return session.far.received == 1'000'000; }, 10s));
    EXPECT_GE(session.world.now() - start, 990ms);
    EXPECT_LE(session.world.now() - start, 1100ms);
}

TEST(SimulatedNetwork, ASlowReaderHoldsTheSenderBack) {
    Session session(5);
    session.far.reading = false;
    session.near.to_send = 1'000'000;
    session.start();
    session.world.run_for(1s);
    EXPECT_EQ(session.near.sent, NetworkConditions{}.window_bytes);
    session.far.reading = true;
    session.far.go_on();
    EXPECT_TRUE(session.world.run_until([&] { return session.far.received == 1'000'000; }, 10s));
    EXPECT_TRUE(session.far.in_order);
}

TEST(SimulatedNetwork, HalfCloseLetsTheOtherDirectionGoOn) {
    Session session(6);
    session.near.to_send = 1000;
    session.start();
    session.near.connection->shutdown();
    EXPECT_TRUE(session.world.run_until([&] { return session.far.receive_state == IoResult::closed; }, 1s));
    EXPECT_EQ(session.far.received, 1000u);
    session.far.to_send = 1000;
    session.far.go_on();
    EXPECT_TRUE(session.world.run_until([&] { return session.near.received == 1000; }, 1s));
    session.near.to_send = 2000;
    session.near.go_on();
    EXPECT_EQ(session.near.send_state, IoResult::failed);
}

TEST(SimulatedNetwork, SendingToAnEndThatIsGoneFails) {
    Session session(7);
    session.start();
    session.world.run_for(1ms);
    session.far.connection.reset();
    EXPECT_TRUE(session.world.run_until([&] { return session.near.receive_state == IoResult::closed; }, 1s));
    session.near.to_send = 10'000'000;
    session.near.go_on();
    session.world.run_for(1s);
    session.near.go_on();
    EXPECT_EQ(session.near.send_state, IoResult::failed);
}

TEST(SimulatedNetwork, WithoutAListenerConnectionsAreRefused) {
    Session session(8);
    session.network.refuse_next(1);
    EXPECT_FALSE(session.connect());
    EXPECT_TRUE(session.connect());
    session.listener.reset();
    const auto connection = session.connect();
    ASSERT_FALSE(connection);
    EXPECT_EQ(connection.error().code(), Errc::unreachable);
    EXPECT_EQ(connection.error().message(),
              "connect to 10.0.0.1:4420: connection refused; is a target listening there?");
    session.listen();
    EXPECT_TRUE(session.connect());
}

TEST(SimulatedNetwork, AHostThatIsDownAnswersNothingAndResetsWhenItIsBack) {
    Session session(9);
    session.start();
    session.near.to_send = 1000;
    session.network.host_down(server_address);
    session.near.go_on();
    const Time start = session.world.now();
    const auto connection = session.connect(3s);
    ASSERT_FALSE(connection);
    EXPECT_EQ(connection.error().code(), Errc::timed_out);
    EXPECT_EQ(session.world.now() - start, 3s);
    EXPECT_EQ(session.far.received, 0u);
    EXPECT_EQ(session.near.receive_state, IoResult::would_block);
    session.network.host_up(server_address);
    session.world.run_for(1s);
    EXPECT_EQ(session.near.receive_state, IoResult::failed);
    EXPECT_EQ(session.far.receive_state, IoResult::failed);
    EXPECT_TRUE(session.connect());
}

TEST(SimulatedNetwork, ATokenNobodyAdoptsClosesItsConnection) {
    SimulatedWorld world(10);
    SimulatedNetwork network(world);
    const auto reactor = world.make_reactor();
    const auto listener = network.listen(*reactor, server_address, [](const Network::Token&) {});
    std::unique_ptr<Connection> near;
    spawn(network.connect(*reactor, server_address, 1s), [&](Connected one) { near = std::move(*one); });
    world.run_for(1s);
    ASSERT_TRUE(near);
    std::byte byte{};
    const Segment segment{&byte, 1};
    EXPECT_EQ(near->receive({&segment, 1}).state, IoResult::closed);
}

TEST(SimulatedNetwork, PortsAreGivenOutAndTakenOnesRefused) {
    Session session(11);
    const auto again = session.network.listen(*session.server, server_address, [](const Network::Token&) {});
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code(), Errc::already_exists);
    const auto any = session.network.listen(*session.server, {"10.0.0.1", 0}, [](const Network::Token&) {});
    ASSERT_TRUE(any);
    EXPECT_NE((*any)->address().port, 0);
}

TEST(SimulatedNetwork, RandomFaultsStrikeAsTheSeedHasThem) {
    const auto history = [](std::uint64_t seed) {
        Session session(seed);
        session.network.set_random_faults({.probability = 0.5, .within_bytes = 50'000});
        for (int i = 0; i < 20; ++i) {
            session.near = {};
            session.far = {};
            session.near.to_send = 60'000;
            session.start();
            session.world.run_for(5s);
            EXPECT_TRUE(session.far.in_order);
        }
        return session.network.history();
    };
    EXPECT_EQ(history(1), history(1));
    EXPECT_NE(history(1), history(2));
    const auto lines = std::ranges::count(history(1), '\n');
    EXPECT_GT(lines, 1);
    EXPECT_LT(lines, 20);
}

TEST(SimulatedNetwork, AConnectionMayDestroyItselfWhenReady) {
    Session session(12);
    session.start();
    session.far.connection->on_ready([&] { session.far.connection.reset(); });
    session.near.to_send = 10;
    session.near.go_on();
    EXPECT_TRUE(session.world.run_until([&] { return session.far.connection == nullptr; }, 1s));
    session.world.run_for(1s);
}

}  // namespace
}  // namespace mqblk::fabric
