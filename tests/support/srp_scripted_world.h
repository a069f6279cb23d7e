// SPDX-License-Identifier: Apache-2.0
//
// The SRP initiator, logged in to a target that answers as a test says, in a reactor whose time is the test's.
#pragma once

#include "driver/srp/srp.h"
#include "support/srp_scripted_target.h"

#include <chrono>

namespace mqblk::test {

struct ScriptedWorld {
    ManualClock clock;
    SeededRandom random{1};
    ManualReactor reactor{clock, random};
    fabric::rdma::InProcessNetwork network;
    ScriptedTarget target{network, reactor};
    driver::srp::Options options;
    std::shared_ptr<driver::srp::Initiator> initiator;
    std::shared_ptr<Device> device;
    std::unique_ptr<Channel> channel;
    std::string error;  ///< why it did not log in

    explicit ScriptedWorld(driver::srp::Options how = {}, fabric::rdma::InProcessOptions network_options = {})
        : network(std::move(network_options)), options(std::move(how)) {
        options.ch_count = 2;  // the last queue would be a shared one
        target.listen();
    }
    ~ScriptedWorld() {
        channel.reset();
        device.reset();
        initiator.reset();
        for (unsigned i = 0; i < 10; ++i) reactor.run_once(Reactor::Sleep::no);
        EXPECT_TRUE(target.channels.empty()) << "a connection was left behind";
    }
    /// False: see `error`.
    bool connect() {
        std::optional<Result<std::shared_ptr<driver::srp::Initiator>>> result;
        spawn(driver::srp::Initiator::connect(reactor, network, {.host = "target"}, options, nullptr),
              [&](auto value) { result = std::move(value); });
        if (!turn_until([&] { return result.has_value(); }, std::chrono::minutes(5))) {
            error = "it did not end";
            return false;
        }
        if (!result->has_value()) {
            error = result->error().message();
            return false;
        }
        initiator = std::move(**result);
        device = std::move(*initiator->device(0));
        channel = std::move(*device->channel(reactor));
        logins_before = target.logins;
        return turn_until([&] { return target.logins > logins_before; }, std::chrono::seconds(1)) &&
               (run_for(std::chrono::milliseconds(1)), true);
    }
    unsigned logins_before = 0;  ///< of the scan

    template <class Done>
    bool turn_until(Done done, Duration bound) {
        const Time limit = clock.now() + bound;
        while (!done()) {
            if (clock.now() >= limit) return false;
            turn(limit);
        }
        return true;
    }
    void run_for(Duration time) {
        const Time limit = clock.now() + time;
        while (clock.now() < limit) turn(limit);
    }
    void turn(Time limit) {
        reactor.run_once(Reactor::Sleep::yes, limit);
        if (channel) channel->poll();
    }

    /// One request; its pieces lie apart, as pages do.
    struct Io {
        Bio bio;
        memory::Buffer memory;
        std::vector<Segment> list;
        bool done = false;
        unsigned ends = 0;
        Time started{}, ended{};
        ScriptedWorld* world = nullptr;

        Io(ScriptedWorld& of, Op op, std::size_t pieces = 1, std::size_t bytes = 65536)
            : memory(*memory::Buffer::allocate(pieces * bytes * 2)), world(&of) {
            for (std::size_t i = 0; i < pieces; ++i) list.push_back({memory.data() + i * bytes * 2, bytes});
            bio.op = op;
            bio.sectors = pieces * bytes / sector_bytes;
            bio.data = list;
            bio.context = this;
            bio.done = [](Bio& it) noexcept {
                auto& io = *static_cast<Io*>(it.context);
                io.done = true;
                ++io.ends;
                io.ended = io.world->clock.now();
            };
        }
        void submit() {
            started = world->clock.now();
            world->channel->submit(bio);
        }
        [[nodiscard]] Duration took() const { return ended - started; }
    };
    Status finish(Io& io, Duration bound = std::chrono::hours(1)) {
        EXPECT_TRUE(turn_until([&] { return io.done; }, bound));
        EXPECT_EQ(io.ends, 1u);
        return io.bio.status;
    }
    Status run(Io& io, Duration bound = std::chrono::hours(1)) {
        io.submit();
        return finish(io, bound);
    }
    /// A write that nobody does anything to.
    Status write() {
        Io io(*this, Op::write);
        return run(io);
    }
};

inline srpw::Opcode unit_opcode(const SrpBytes& unit) {
    return srpw::opcode_of(unit).value();
}
inline std::uint64_t unit_tag(const SrpBytes& unit) {
    be64 tag;
    std::memcpy(static_cast<void*>(&tag), unit.data() + 8, sizeof tag);
    return tag;
}

}  // namespace mqblk::test
