// SPDX-License-Identifier: Apache-2.0
//
// The published card's figures come out of the s1120 profile, in virtual time: latency at depth 1, rates at depth 64.
#include "device/skd/timing.h"
#include "support/skd_host.h"

namespace mqblk::test {
namespace {

using namespace std::chrono_literals;
using device::skd::Profile;

struct Rate {
    bool write;
    std::uint32_t bytes;
    double per_second;
};

/// Commands a second with `depth` of them always outstanding.
double measure(SkdHost& host, bool write, std::uint32_t bytes, unsigned depth, unsigned commands) {
    unsigned sent = 0, done = 0;
    const Time begin = host.world().now();
    const auto send = [&] {
        const std::uint64_t lba = sent * 7919 % 1000 * 8;
        const auto blocks = bytes / 512;
        host.send({{.cdb = write ? scsiw::build_write(lba, blocks) : scsiw::build_read(lba, blocks),
                    .tag = static_cast<std::uint16_t>(sent++ & 0xff),
                    .data = {{host.data_address(), bytes}}}});
    };
    for (unsigned i = 0; i < depth; ++i) send();
    host.run_until([&] {
        while (host.next()) {
            ++done;
            if (sent < commands) send();
        }
        return done == commands;
    });
    EXPECT_EQ(done, commands);
    const std::chrono::duration<double> took = host.world().now() - begin;
    return commands / took.count();
}

TEST(SkdTiming, LatenciesAtDepthOne) {
    device::skd::Options options;
    options.profile = Profile::s1120;
    SkdHost host(options);
    ASSERT_TRUE(host.start());
    EXPECT_NEAR(1e6 / measure(host, false, 512, 1, 200), 88, 2);
    EXPECT_NEAR(1e6 / measure(host, true, 512, 1, 200), 26, 1);
}

TEST(SkdTiming, RatesAtDepth) {
    device::skd::Options options;
    options.profile = Profile::s1120;
    SkdHost host(options);
    ASSERT_TRUE(host.start());
    for (const Rate rate : {Rate{false, 512, 103e3},
                            {false, 4096, 81e3},
                            {false, 65536, 15.7e3},
                            {true, 512, 62e3},
                            {true, 4096, 69e3},
                            {true, 65536, 13.9e3}}) {
        const double found = measure(host, rate.write, rate.bytes, 64, 4000);
        EXPECT_NEAR(found, rate.per_second, rate.per_second * 0.03) << (rate.write ? "write " : "read ") << rate.bytes;
    }
}

TEST(SkdTiming, WithoutProfileNothingTakesTime) {
    device::skd::Timing timing(Profile::none);
    const Time now(Duration(5));
    EXPECT_EQ(timing.due(now, device::skd::Work::read, 4096), now);
    EXPECT_EQ(timing.boot(), Duration{});
}

TEST(SkdTiming, LongerTransfersTakeLonger) {
    for (const auto work : {device::skd::Work::read, device::skd::Work::write}) {
        Duration before{};
        for (std::uint32_t bytes = 4096; bytes <= 1 << 20; bytes *= 2) {
            device::skd::Timing timing(Profile::s1120);
            const Duration took = timing.due(Time(1s), work, bytes) - Time(1s);
            EXPECT_GT(took, before);
            before = took;
        }
    }
}

TEST(SkdTiming, ProfilesByName) {
    EXPECT_EQ(device::skd::parse_profile("s1120").value(), Profile::s1120);
    EXPECT_EQ(device::skd::parse_profile("none").value(), Profile::none);
    EXPECT_NE(device::skd::parse_profile("fast").error().message().find("none or s1120"), std::string::npos);
}

}  // namespace
}  // namespace mqblk::test
