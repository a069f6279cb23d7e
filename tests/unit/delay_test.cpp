// SPDX-License-Identifier: Apache-2.0
#include "driver/delay/delay.h"
#include "driver/ram/ram.h"
#include "reactor/simulated.h"
#include "unit/disk_exerciser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mqblk::driver::delay {
namespace {

using namespace std::chrono_literals;
using test::DiskUser;

std::shared_ptr<Device> ram() {
    ram::Options options;
    options.bytes = 1 << 20;
    return *ram::open(options);
}

/// How long it takes, in virtual time.
Duration time_of(SimulatedWorld& world, DiskUser& user, Op op, std::uint64_t sector, std::uint64_t sectors) {
    std::vector<std::byte> data(carries_data(op) ? sectors * 512 : 0);
    const Time begun = world.now();
    EXPECT_EQ(user.run(op, sector, sectors, data), Status::ok);
    return world.now() - begun;
}

TEST(Delay, TakesTheTimeThatARealOneWould) {
    SimulatedWorld world(1);
    const auto reactor = world.make_reactor();
    Options options;
    options.latency = 1ms;
    options.seek = 5ms;
    options.bytes_per_second = 1 << 20;
    DiskUser user(*open(ram(), options), *reactor);
    const auto near = [](Duration is, Duration should) { return is >= should && is < should + 100us; };
    // 64 KiB at 1 MiB/s are 62.5 ms.
    EXPECT_TRUE(near(time_of(world, user, Op::write, 0, 128), 63500us)) << "it begins where the arm is";
    EXPECT_TRUE(near(time_of(world, user, Op::write, 128, 128), 63500us)) << "it goes on where the one before ended";
    EXPECT_TRUE(near(time_of(world, user, Op::read, 0, 128), 68500us)) << "with a seek";
    EXPECT_TRUE(near(time_of(world, user, Op::flush, 0, 0), 0us)) << "the device below has no cache to flush";
}

TEST(Delay, RandomUseAgreesWithTheModel) {
    SeededRandom random(1);
    Options options;
    options.latency = 20us;
    options.bytes_per_second = 4ull << 30;
    DiskUser user(open(ram(), options));
    const auto model = test::exercise(user, random, {.operations = 500});
    std::vector<std::byte> content(1 << 20);
    ASSERT_EQ(user.read(0, content), Status::ok);
    EXPECT_EQ(content, model);
}

TEST(Delay, EndsAtOnceWhenItsUserGoes) {
    Options options;
    options.latency = 10s;
    DiskUser user(open(ram(), options));
    std::vector<std::byte> data(512);
    const Segment segment{data.data(), data.size()};
    Bio bio;
    bio.sectors = 1;
    bio.data = {&segment, 1};
    bio.done = [](Bio&) noexcept {};
    {
        auto channel = user.device().channel();
        ASSERT_TRUE(channel);
        (*channel)->submit(bio);
    }
    EXPECT_EQ(bio.status, Status::aborted);
}

TEST(Delay, RefusesTimesOutOfRange) {
    Options options;
    options.seek = 11s;
    EXPECT_THAT(open(ram(), options).error().message(), testing::HasSubstr("delay: seek=11s: must be from 0 to 10s"));
}

}  // namespace
}  // namespace mqblk::driver::delay
