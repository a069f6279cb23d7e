// SPDX-License-Identifier: Apache-2.0
//
// Quiesce, freeze, remove, changes and attributes, on one thread in manual time. With threads: block_threads.cpp.
#include "block_support.h"

#include <deque>
#include <map>

namespace mqblk::test {
namespace {

TEST(BlockControl, NothingReachesAQuiescedDriver) {
    Bench bench;
    bench.set->quiesce();
    bench.set->quiesce();
    TestBio bio(Op::read, 0, 8), flush(Op::flush, 0, 0);
    bench.submit(bio);
    bench.submit(flush);
    for (int i = 0; i < 3; ++i) bench.channel->poll();
    EXPECT_EQ(flush.ends, 1u);  // no write cache: nothing to send
    bench.set->unquiesce();
    bench.channel->poll();
    EXPECT_TRUE(bench.queue().seen.empty());
    bench.set->unquiesce();
    bench.drain();
    EXPECT_EQ(bio.ends, 1u);
}

TEST(BlockControl, AQuiescedQueueStillCompletesAndSleeps) {
    Bench bench;
    bench.driver->mode = TestDriver::Mode::hold;
    TestBio before(Op::read, 0, 8), during(Op::read, 8, 8);
    bench.submit(before);
    bench.set->quiesce();
    bench.submit(during);
    bench.queue().complete_one();
    EXPECT_EQ(bench.channel->wait(), 1u);
    EXPECT_EQ(before.ends, 1u);
    for (int i = 0; i < 4; ++i) bench.reactor.run_once(Reactor::Sleep::yes);
    EXPECT_GE(bench.reactor.sleeps, 1u);
    bench.set->unquiesce();
    bench.channel->poll();
    EXPECT_EQ(bench.queue().held(), 1u);
    bench.queue().complete_one();
    bench.drain();
}

TEST(BlockControl, AfterFreezeNoRequestExists) {
    Bench bench;
    bench.driver->mode = TestDriver::Mode::next_poll;
    std::deque<TestBio> bios;
    for (unsigned i = 0; i < 8; ++i) bench.submit(bios.emplace_back(Op::read, i * 100, 8));
    ASSERT_TRUE(bench.set->freeze(std::chrono::seconds(10)));
    EXPECT_EQ(bench.queue().core().in_flight(), 0u);
    TestBio late(Op::read, 5000, 8);
    bench.submit(late);
    for (int i = 0; i < 3; ++i) bench.channel->poll();
    EXPECT_EQ(late.ends, 0u);
    EXPECT_EQ(bench.queue().seen.size(), 8u);
    bench.set->unfreeze();
    bench.drain();
    EXPECT_EQ(late.ends, 1u);
}

TEST(BlockControl, FreezeLetsTheRefusedOnesFinish) {
    Bench bench;
    bench.driver->busy = 1;
    TestBio bio(Op::read, 0, 8);
    bench.submit(bio);
    bench.queue().core().restart();
    ASSERT_TRUE(bench.set->freeze(std::chrono::seconds(10)));
    EXPECT_EQ(bench.queue().seen.size(), 1u);
    bench.set->unfreeze();
    bench.drain();
    EXPECT_EQ(bio.ends, 1u);
}

TEST(BlockControl, AFreezeThatTimesOutLeavesTheSetAsItWas) {
    Bench bench;
    bench.driver->mode = TestDriver::Mode::hold;
    TestBio stuck(Op::read, 0, 8), next(Op::read, 100, 8);
    bench.submit(stuck);
    bench.queue().hold_asleep = true;
    const Time start = bench.clock.now();
    const auto frozen = bench.set->freeze(std::chrono::seconds(7));  // of the reactor's time
    ASSERT_FALSE(frozen);
    EXPECT_GE(bench.clock.now() - start, std::chrono::seconds(7));
    EXPECT_LE(bench.clock.now() - start, std::chrono::seconds(8));
    EXPECT_EQ(frozen.error().code(), Errc::timed_out);
    bench.submit(next);
    bench.channel->poll();
    EXPECT_EQ(bench.queue().held(), 2u);
    bench.queue().complete_one();
    bench.queue().complete_one();
    bench.drain();
}

TEST(BlockControl, RemovalEndsEverythingWithRemoved) {
    QueueLimits limits = Bench::default_limits();
    limits.max_sectors = 8;
    limits.write_cache = true;
    Bench bench(Bench::shape(2), limits);
    bench.driver->mode = TestDriver::Mode::hold;
    unsigned changes = 0;
    bench.device->on_change([&] { ++changes; });
    TestBio first(Op::read, 0, 8), cut(Op::write, 100, 64), flush(Op::flush, 0, 0), fua(Op::write, 300, 8, bio_fua),
        waiting(Op::read, 400, 8), plugged(Op::read, 500, 8);
    for (TestBio* bio : {&first, &cut, &flush, &fua, &waiting}) bench.submit(*bio);
    bench.channel->plug();
    bench.submit(plugged);
    bench.device->remove();
    bench.device->remove();
    EXPECT_EQ(changes, 1u);
    EXPECT_TRUE(bench.device->removed());
    bench.drain();
    TestBio after(Op::read, 0, 8);
    bench.submit(after);
    EXPECT_EQ(after.ends, 0u);
    bench.drain();
    for (const TestBio* bio : {&first, &cut, &flush, &fua, &waiting, &plugged, &after}) {
        EXPECT_EQ(bio->ends, 1u);
        EXPECT_EQ(to_string(bio->bio.status), to_string(Status::removed));
    }
    EXPECT_EQ(bench.queue().core().in_flight(), 0u);
    EXPECT_EQ(bench.queue().cancels, 1u);
    EXPECT_FALSE(bench.device->channel(bench.reactor));
}

TEST(BlockControl, RemovingOneDiskLeavesTheOthersRequestsAlone) {
    Bench bench;
    bench.driver->mode = TestDriver::Mode::hold;
    const auto other_device = bench.add_disk();
    const auto other = bench.open(*other_device);
    TestBio mine(Op::read, 0, 8), theirs(Op::read, 0, 8);
    bench.submit(mine);
    other->submit(theirs.bio);
    bench.device->remove();
    bench.channel->poll();
    EXPECT_EQ(mine.ends, 0u);  // the driver has it, and ends it in its own time
    bench.queue().complete_one(Status::io_error);
    bench.queue().complete_one();
    bench.drain();
    other->poll();
    EXPECT_EQ(mine.bio.status, Status::removed);
    EXPECT_EQ(theirs.bio.status, Status::ok);
    EXPECT_EQ(bench.queue().cancels, 0u);
}

TEST(BlockControl, AResizeIsSeenByTheNextBio) {
    Bench bench;
    unsigned changes = 0;
    bench.device->on_change([&] { ++changes; });
    QueueLimits limits = Bench::default_limits();
    limits.max_sectors = 4;
    block::update_disk(*bench.device, limits, 64, true);
    EXPECT_EQ(changes, 1u);
    EXPECT_EQ(bench.device->sectors(), 64u);
    TestBio beyond(Op::read, 60, 8), fits(Op::read, 56, 8), write(Op::write, 0, 8);
    for (TestBio* bio : {&beyond, &fits, &write}) bench.submit(*bio);
    bench.drain();
    EXPECT_EQ(beyond.bio.status, Status::out_of_range);
    EXPECT_EQ(fits.bio.status, Status::ok);
    EXPECT_EQ(write.bio.status, Status::read_only);
    EXPECT_EQ(bench.queue().seen.size(), 2u);
    bench.device->on_change({});
    block::update_disk(*bench.device, limits, 32, false);
    EXPECT_EQ(changes, 1u);
}

TEST(BlockControl, Attributes) {
    QueueLimits limits = Bench::default_limits();
    limits.max_sectors = 2048;
    limits.write_cache = true;
    limits.rotational = true;
    Bench bench(Bench::shape(64), limits);
    const auto read = [&](const std::string& name) {
        for (const auto& [key, value] : bench.device->attributes())
            if (key == name) return value;
        return std::string("absent");
    };
    const std::pair<const char*, const char*> initial[] = {{"nr_requests", "64"},
                                                           {"hw_sector_size", "512"},
                                                           {"rotational", "1"},
                                                           {"scheduler", "[none] mq-deadline"},
                                                           {"write_cache", "write back"},
                                                           {"max_hw_sectors_kb", "1024"},
                                                           {"max_sectors_kb", "1024"},
                                                           {"io_timeout", "30000"},
                                                           {"nomerges", "0"},
                                                           {"iostats", "1"},
                                                           {"zoned", "none"},
                                                           {"fua", "0"}};
    for (const auto& [name, value] : initial) EXPECT_EQ(read(name), value) << name;

    struct Set {
        const char *name, *value, *then;  // null: refused
    };
    for (const Set& row : {Set{"nr_requests", "8", "8"},
                           {"nr_requests", "3", nullptr},
                           {"nr_requests", "65", nullptr},
                           {"nr_requests", "8x", nullptr},
                           {"nr_requests", "", nullptr},
                           {"nr_requests", "-1", nullptr},
                           {"scheduler", "mq-deadline", "none [mq-deadline]"},
                           {"scheduler", "bfq", nullptr},
                           {"max_sectors_kb", "64", "64"},
                           {"max_sectors_kb", "2", nullptr},
                           {"max_sectors_kb", "1025", nullptr},
                           {"nomerges", "2", "2"},
                           {"nomerges", "3", nullptr},
                           {"io_timeout", "100", "100"},
                           {"io_timeout", "0", nullptr},
                           {"iostats", "0", "0"},
                           {"rq_affinity", "2", "2"},
                           {"rq_affinity", "1", nullptr},
                           {"rq_affinity", "0", nullptr},
                           {"read_expire", "100", "100"},
                           {"read_expire", "-1", nullptr},
                           {"write_expire", "0", "0"},
                           {"prio_aging_expire", "2147483647", "2147483647"},
                           {"writes_starved", "2147483648", nullptr},
                           {"writes_starved", "1", "1"},
                           {"fifo_batch", "32", "32"},
                           {"front_merges", "0", "0"},
                           {"front_merges", "2", nullptr},
                           {"write_cache", "write through", "write through"},
                           {"write_cache", "none", nullptr}}) {
        const Result<> result = bench.device->set_attribute(row.name, row.value);
        EXPECT_EQ(result.has_value(), row.then != nullptr) << row.name << " " << row.value;
        if (row.then != nullptr) {
            EXPECT_EQ(read(row.name), row.then) << row.name;
        } else {
            EXPECT_NE(result.error().message().find(row.name), std::string::npos);
        }
    }
    EXPECT_TRUE(std::ranges::is_sorted(bench.device->attributes()));
    EXPECT_TRUE(bench.device->set_attribute("scheduler", "none"));
    EXPECT_EQ(read("read_expire"), "absent");
    EXPECT_EQ(bench.device->set_attribute("read_expire", "100").error().code(), Errc::not_found);
    EXPECT_TRUE(bench.device->set_attribute("scheduler", "mq-deadline"));
    EXPECT_EQ(read("read_expire"), "100");
    EXPECT_EQ(bench.device->set_attribute("rotational", "0").error().code(), Errc::permission_denied);
    EXPECT_EQ(bench.device->set_attribute("colour", "red").error().code(), Errc::not_found);

    // They take effect: 128 sectors at most, and no flush for a cache that is said not to be there.
    TestBio bio(Op::write, 0, 256, bio_fua);
    bench.submit(bio);
    bench.drain();
    ASSERT_EQ(bench.queue().seen.size(), 2u);
    EXPECT_EQ(bench.queue().seen[0].sectors, 128u);
    EXPECT_EQ(block::statistics(*bench.device).of(block::OpGroup::write).ios, 0u);  // iostats 0
}

}  // namespace
}  // namespace mqblk::test
