// SPDX-License-Identifier: Apache-2.0
//
// Arrays by URI, as anybody opens them: the same use as every other disk gets, whole and with members missing, from
// several threads; what is refused, and in which words; what full stripes cost.
#include "driver/raid/raid.h"
#include "block/statistics.h"
#include "registry/services.h"
#include "registry/uri.h"
#include "unit/disk_exerciser.h"

#include <mqblk/context.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

namespace mqblk::driver::raid {
namespace {

using test::DiskUser;
using testing::HasSubstr;

/// A folder with the files of an array.
class Files {
  public:
    Files() {
        char name[] = "/tmp/mqblk-raid-XXXXXX";
        folder_ = ::mkdtemp(name);
    }
    ~Files() { std::filesystem::remove_all(folder_); }
    Files(const Files&) = delete;
    Files& operator=(const Files&) = delete;

    [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
    [[nodiscard]] std::string member(unsigned i, const std::string& size = "") const {
        return fmt::format("&member=[file://{}{}]", path(fmt::format("d{}", i)), size.empty() ? "" : "?size=" + size);
    }
    /// All members, but those in `missing`.
    [[nodiscard]] std::string members(unsigned count, const std::string& size = "",
                                      std::vector<unsigned> missing = {}) const {
        std::string text;
        for (unsigned i = 0; i < count; ++i)
            text += std::ranges::count(missing, i) != 0 ? "&member=missing" : member(i, size);
        return text;
    }

  private:
    std::string folder_;
};

std::string ram_members(unsigned count, const std::string& size) {
    std::string text;
    for (unsigned i = 0; i < count; ++i) text += fmt::format("&member=[ram://?size={}]", size);
    return text;
}

void wait_until_optimal(Device& device) {
    for (int i = 0; i < 6000 && report(device)->state != "optimal"; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(report(device)->state, "optimal");
}

TEST(Raid, RandomUseAgreesWithTheModel) {
    for (const std::string& uri :
         std::vector<std::string>{"raid6://?create=1&chunk=4k&queues=1&depth=8" + ram_members(5, "1M"),
                                  "raid6://?create=1&chunk=16k" + ram_members(10, "1M"),
                                  "raid6://?create=1&chunk=4k&journal=always" + ram_members(6, "1M"),
                                  "raid0://?create=1&chunk=8k" + ram_members(3, "1M")}) {
        SCOPED_TRACE(uri);
        Context context;
        SeededRandom random(uri.size());
        DiskUser user(context.open(uri));
        const auto model = test::exercise(user, random, {.operations = 800, .max_bytes = 256 * 1024});
        std::vector<std::byte> content(user.device().sectors() * 512);
        ASSERT_EQ(user.read(0, content), Status::ok);
        ASSERT_EQ(content, model);
    }
}

TEST(Raid, WithoutAnyTwoMembersItIsTheSameDisk) {
    Files files;
    constexpr unsigned count = 6;
    std::vector<std::byte> model;
    {
        Context context;
        SeededRandom random(5);
        DiskUser user(context.open("raid6://?create=1&chunk=4k" + files.members(count, "512k")));
        model = test::exercise(user, random, {.operations = 300});
    }
    for (unsigned a = 0; a < count; ++a) {
        const unsigned b = (a + 1 + a % 3) % count;
        SCOPED_TRACE(testing::Message() << "without " << a << " and " << b);
        {
            Context context;
            DiskUser user(context.open("raid6://?" + files.members(count, "", {a, b})));
            EXPECT_EQ(report(user.device())->state, "degraded");
            std::vector<std::byte> content(user.device().sectors() * 512);
            ASSERT_EQ(user.read(0, content), Status::ok);
            ASSERT_EQ(content, model);
            // Written to while they are gone: what they hold is stale then.
            auto data = test::pattern(96 * 512, a);
            ASSERT_EQ(user.write(a * 50 + 3, data), Status::ok);
            std::ranges::copy(data, model.begin() + (a * 50 + 3) * 512);
        }
        Context context;
        DiskUser user(context.open("raid6://?" + files.members(count)));
        wait_until_optimal(user.device());
    }
    Context context;
    DiskUser user(context.open("raid6://?" + files.members(count)));
    ASSERT_TRUE(scrub(user.device()));
    while (report(user.device())->scrub.running) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(report(user.device())->scrub.repaired, 0u) << "P and Q fit everywhere";
    EXPECT_EQ(report(user.device())->scrub.failed, 0u);
    std::vector<std::byte> content(user.device().sectors() * 512);
    ASSERT_EQ(user.read(0, content), Status::ok);
    ASSERT_EQ(content, model);
}

TEST(Raid, FullStripesAreWrittenWithoutReading) {
    Context context;
    // The members by hand, so that what reaches them can be counted.
    std::vector<std::shared_ptr<Device>> members;
    Options options;
    options.create = true;
    options.chunk = 64u << 10;
    for (unsigned i = 0; i < 10; ++i) {
        members.push_back(*context.open("ram://?size=16M"));
        options.members.push_back({members.back(), "ram", false});
    }
    auto& control = **context.services().control();
    const Home home{&control.reactor(), [&](const auto& work) { control.run(work); }};
    auto opened = control.wait_for([&] { return open(options, home); });
    ASSERT_TRUE(opened) << opened.error().message();
    const auto limits = (*opened)->limits();
    EXPECT_EQ(limits.io_min, 64u << 10);
    EXPECT_EQ(limits.io_opt, 8 * (64u << 10));
    EXPECT_EQ(limits.max_sectors * 512u, 8u << 20);
    const auto member_reads = [&] {
        std::uint64_t sum = 0;
        for (const auto& member : members) sum += block::statistics(*member).of(block::OpGroup::read).ios;
        return sum;
    };
    DiskUser user(std::move(opened));
    const std::uint64_t before = member_reads();
    auto data = test::pattern(8u << 20, 1);
    for (int i = 0; i < 4; ++i) ASSERT_EQ(user.write(static_cast<unsigned>(i) * 16384, data), Status::ok);
    EXPECT_EQ(member_reads(), before);
    EXPECT_EQ(report(user.device())->full_stripe_writes, 4u * 16);
    EXPECT_EQ(block::statistics(user.device()).requests, 4u) << "8 MiB stay whole";
    // A small one reads the data that it replaces, P and Q; a large part, what it leaves.
    auto small = test::pattern(4096, 2), large = test::pattern(7 * (64u << 10), 3);
    ASSERT_EQ(user.write(0, small), Status::ok);
    EXPECT_EQ(member_reads(), before + 3);
    ASSERT_EQ(user.write(0, large), Status::ok);
    EXPECT_EQ(member_reads(), before + 4);
    EXPECT_EQ(report(user.device())->read_modify_writes, 1u);
    EXPECT_EQ(report(user.device())->reconstruct_writes, 1u);
}

TEST(Raid, ThreadsShareStripes) {
    Context context;
    auto device = context.open("raid6://?create=1&chunk=4k&queues=3" + ram_members(6, "2M"));
    ASSERT_TRUE(device) << device.error().message();
    constexpr unsigned threads = 5;  // more than it has queues
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < threads; ++i) {
        workers.emplace_back([&, i] {
            // Sector i of each group of five: all threads are in all stripes.
            DiskUser user(*device);
            SeededRandom random(i);
            for (unsigned round = 0; round < 300; ++round) {
                const std::uint64_t sector = random.below(400) * threads + i;
                auto data = test::pattern(512, sector), back = data;
                ASSERT_EQ(user.write(sector, data), Status::ok);
                ASSERT_EQ(user.read(sector, back), Status::ok);
                ASSERT_EQ(data, back);
            }
        });
    }
    // Meanwhile a member is replaced.
    const auto fresh = *context.open("ram://?size=2M");
    ASSERT_TRUE(replace(**device, 2, {fresh, "fresh", false}, false));
    for (auto& worker : workers) worker.join();
    wait_until_optimal(**device);
    ASSERT_TRUE(scrub(**device));
    while (report(**device)->scrub.running) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(report(**device)->scrub.repaired, 0u);
    EXPECT_EQ(report(**device)->scrub.failed, 0u);
    EXPECT_EQ(report(**device)->members[2].name, "fresh");
}

std::string refusal(const std::string& uri) {
    Context context;
    const auto opened = context.open(uri);
    return opened ? "it opened" : opened.error().message();
}

TEST(Raid, WhatIsWrongIsSaidInOneSentence) {
    Files files;
    const std::string five = files.members(5, "1M");
    EXPECT_THAT(refusal("raid6://?" + five), HasSubstr("no member holds an array; make one with create=1"));
    EXPECT_THAT(refusal("raid6://?create=1" + files.members(4, "1M")),
                HasSubstr("4 members are named; RAID-6 has 5 to 34"));
    EXPECT_THAT(refusal("raid0://?create=1&member=[ram://?size=1M]"), HasSubstr("RAID-0 has 2 to 32"));
    EXPECT_THAT(refusal("raid6://?create=1" + files.members(4, "1M") + files.member(0, "1M")),
                HasSubstr("members 0 and 4 are the same device"));
    EXPECT_THAT(refusal("raid6://?create=1" + files.members(4, "1M") + "&member=[ram://?size=2M]"),
                HasSubstr("has 2097152 bytes, but member 0 has 1048576; use members of one size"));
    EXPECT_THAT(refusal("raid6://?create=1&chunk=12k" + five), HasSubstr("must be a power of two"));
    EXPECT_THAT(refusal("raid6://?create=1&chunk=4M" + five), HasSubstr("use a smaller chunk"));
    EXPECT_THAT(refusal("raid6://?create=1&chunk=1M" + five), HasSubstr("are too small"));
    EXPECT_THAT(refusal("raid6://?create=1&member=d0"), HasSubstr("must be a URI in square brackets"));
    EXPECT_THAT(refusal("raid6://?chunk=4k" + five), HasSubstr("chosen when the array is made"));
    // Nothing was written by any of them.
    Context context;
    DiskUser raw(context.open("file://" + files.path("d0")));
    std::vector<std::byte> content(1 << 20);
    ASSERT_EQ(raw.read(0, content), Status::ok);
    EXPECT_TRUE(std::ranges::all_of(content, [](std::byte b) { return b == std::byte{0}; }));
}

TEST(Raid, MembersAreBelievedByWhatTheySay) {
    Files files;
    ASSERT_EQ(refusal("raid6://?create=1&chunk=4k" + files.members(5, "1M")), "it opened");
    EXPECT_THAT(refusal("raid6://?create=1&chunk=4k" + files.members(5)),
                HasSubstr("already; open that without create=1"));
    EXPECT_THAT(refusal("raid0://?" + files.members(5)), HasSubstr("the members hold a RAID-6"));
    EXPECT_THAT(refusal("raid6://?" + files.members(5) + "&member=missing"),
                HasSubstr("6 members are named, but the array has 5"));
    EXPECT_THAT(refusal("raid6://?" + files.members(5, "", {0, 1, 2})),
                HasSubstr("2 of the array's 5 members are there"));
    EXPECT_THAT(refusal("raid6://?" + files.members(4) + "&member=[ram://?size=1M]"),
                HasSubstr("holds no array; name the right one, or give replace=4"));
    EXPECT_THAT(refusal("raid6://?replace=4" + files.members(4) + "&member=[ram://?size=512k]"),
                HasSubstr("use one of that size or larger"));
    // A copy of a member is the same member.
    std::filesystem::copy_file(files.path("d0"), files.path("copy"));
    EXPECT_THAT(refusal(fmt::format("raid6://?{}&member=[file://{}]", files.members(4), files.path("copy"))),
                HasSubstr("are the same member of the array, number 0"));
    // Another array's member.
    Files others;
    ASSERT_EQ(refusal("raid6://?create=1&chunk=4k" + others.members(5, "1M")), "it opened");
    EXPECT_THAT(refusal("raid6://?" + files.members(4) + others.member(4)), HasSubstr("belongs to array"));
    EXPECT_THAT(refusal("raid6://?replace=4" + files.members(4) + others.member(4)),
                HasSubstr("give force=1 to overwrite it"));
    EXPECT_EQ(refusal("raid6://?replace=4&force=1" + files.members(4) + others.member(4)), "it opened");
    EXPECT_EQ(refusal("raid6://?" + files.members(4) + others.member(4)), "it opened") << "it belongs here now";
    // Any order, and without two.
    EXPECT_EQ(
        refusal("raid6://?" + files.member(4) + files.member(2) + files.member(0) + files.member(1) + files.member(3)),
        "it opened");
}

TEST(Raid, ADeadArrayStaysDeadUnlessForced) {
    Files files;
    auto data = test::pattern(64 * 512, 9);
    {
        Context context;
        DiskUser user(context.open("raid6://?create=1&chunk=4k" + files.members(5, "1M")));
        ASSERT_EQ(user.write(0, data, bio_fua), Status::ok);
    }
    {
        // Members that end before the array does are members that fail.
        Context context;
        std::vector<std::shared_ptr<Device>> members;
        Options options;
        for (unsigned i = 0; i < 5; ++i) {
            members.push_back(*context.open("file://" + files.path(fmt::format("d{}", i))));
            options.members.push_back({members.back(), "file", false});
        }
        auto& control = **context.services().control();
        const Home home{&control.reactor(), [&](const auto& work) { control.run(work); }};
        DiskUser user(control.wait_for([&] { return open(options, home); }));
        for (unsigned i = 0; i < 3; ++i) members[i]->remove();
        std::vector<std::byte> small(512);
        for (unsigned i = 0; i < 200 && report(user.device())->state != "dead"; ++i)
            static_cast<void>(user.write(i * 8 % 512, small));
        EXPECT_EQ(report(user.device())->state, "dead");
        EXPECT_EQ(user.write(0, small), Status::io_error);
    }
    EXPECT_THAT(refusal("raid6://?" + files.members(5)), HasSubstr("is dead: it lost more members"));
    EXPECT_EQ(refusal("raid6://?force=1" + files.members(5)), "it opened");
    EXPECT_EQ(refusal("raid6://?" + files.members(5)), "it opened");
}

}  // namespace
}  // namespace mqblk::driver::raid
