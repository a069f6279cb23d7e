// SPDX-License-Identifier: Apache-2.0
//
// The SRP initiator against the target in this process.
#include "driver/srp/srp.h"
#include "memory/segments.h"
#include "registry/srp_loop.h"
#include "unit/reactor_support.h"
#include "unit/srp_harness.h"

#include <optional>

namespace mqblk::test {
namespace {

namespace srp_driver = driver::srp;

struct SrpPair {
    std::unique_ptr<Reactor> home = uring_reactor();
    std::unique_ptr<registry::SrpLoop> loop;
    std::shared_ptr<srp_driver::Initiator> initiator;
    std::unique_ptr<Reactor> reactor = uring_reactor();
    std::shared_ptr<Device> device;
    std::unique_ptr<Channel> channel;

    explicit SrpPair(srp_driver::Options options = {}, std::uint64_t bytes = 64 << 20) {
        loop = std::move(*registry::SrpLoop::create(*home, {}, {{.lun = 0, .device = SrpWorld::ram(bytes)}}));
        std::optional<Result<std::shared_ptr<srp_driver::Initiator>>> result;
        spawn(srp_driver::Initiator::connect(*reactor, loop->network(), registry::SrpLoop::address(), options, nullptr),
              [&](auto value) { result = std::move(value); });
        EXPECT_TRUE(run_until(*reactor, [&] { return result.has_value(); }));
        if (!result->has_value()) {
            ADD_FAILURE() << result->error().message();
            return;
        }
        initiator = std::move(**result);
        device = std::move(*initiator->device(0));
        channel = std::move(*device->channel(*reactor));
    }
    ~SrpPair() {
        channel.reset();
        device.reset();
        initiator.reset();
        for (unsigned i = 0; i < 10; ++i) reactor->run_once(Reactor::Sleep::no);
    }

    Status run(Op op, std::uint64_t sector, std::uint64_t sectors, Segments data, std::uint8_t flags = 0) {
        Bio bio;
        bio.op = op;
        bio.flags = flags;
        bio.sector = sector;
        bio.sectors = sectors;
        bio.data = data;
        bool done = false;
        bio.context = &done;
        bio.done = [](Bio& it) noexcept { *static_cast<bool*>(it.context) = true; };
        channel->submit(bio);
        while (!done) channel->wait();
        return bio.status;
    }
};

struct Scattered {
    memory::Buffer memory;
    std::vector<Segment> list;
    /// Pieces of `bytes` each in `count` places that do not touch.
    Scattered(std::size_t count, std::size_t bytes, std::size_t stride, std::uint8_t seed)
        : memory(std::move(*memory::Buffer::allocate(count * stride))) {
        for (std::size_t i = 0; i < count; ++i) {
            std::byte* const at = memory.data() + (count - 1 - i) * stride;
            for (std::size_t j = 0; j < bytes; ++j) at[j] = std::byte(seed + i * 31 + j * 7);
            list.push_back({at, bytes});
        }
    }
    void clear() { memory::fill(Segments(list), std::byte{0}); }
};

void write_and_read_back(SrpPair& pair, std::uint64_t sector, std::size_t count, std::size_t bytes,
                         std::size_t stride) {
    Scattered from(count, bytes, stride, 3), to(count, bytes, stride, 0);
    to.clear();
    const std::uint64_t sectors = count * bytes / sector_bytes;
    ASSERT_EQ(pair.run(Op::write, sector, sectors, from.list), Status::ok);
    ASSERT_EQ(pair.run(Op::read, sector, sectors, to.list), Status::ok);
    EXPECT_FALSE(memory::first_difference(Segments(from.list), Segments(to.list)).has_value());
}

TEST(SrpDriver, FindsTheDisk) {
    SrpPair pair({.ch_count = 2});
    EXPECT_EQ(pair.device->sectors(), (64u << 20) / 512);
    EXPECT_EQ(pair.initiator->channels(), 2u);
    const auto none = pair.initiator->device(7);
    ASSERT_FALSE(none.has_value());
    EXPECT_NE(none.error().message().find("LUN 7"), std::string::npos);
}

TEST(SrpDriver, DataOfEverySizeComeBack) {
    SrpPair pair;
    write_and_read_back(pair, 0, 1, 512, 4096);       // immediate
    write_and_read_back(pair, 8, 1, 65536, 65536);    // direct
    write_and_read_back(pair, 1000, 16, 4096, 8192);  // one registration
    write_and_read_back(pair, 4000, 700, 4096, 8192);
}

TEST(SrpDriver, EightMebibytesOfScatteredPagesAreOneCommand) {
    SrpPair pair;
    // The login for I/O is a new nexus, not the scan's: its first command takes its unit attention, and is sent again.
    write_and_read_back(pair, 0, 1, 512, 4096);
    EXPECT_EQ(pair.initiator->counters().commands, 3u);
    const auto before = pair.initiator->counters().commands;
    write_and_read_back(pair, 0, 2048, 4096, 8192);
    EXPECT_EQ(pair.initiator->counters().commands - before, 2u);
    EXPECT_EQ(pair.initiator->counters().external, 0u);
}

TEST(SrpDriver, PiecesSmallerThanABlockGoByAnExternalTable) {
    SrpPair pair({.allow_ext_sg = true});
    write_and_read_back(pair, 0, 1, 512, 4096);  // takes the unit attention of a new nexus
    const auto before = pair.initiator->counters().commands;
    write_and_read_back(pair, 0, 2048, 256, 512);
    EXPECT_EQ(pair.initiator->counters().commands - before, 2u);
    EXPECT_EQ(pair.initiator->counters().external, 2u);
}

TEST(SrpDriver, OneDescriptorForACommand) {
    SrpPair pair({.cmd_sg_entries = 1});
    write_and_read_back(pair, 0, 2048, 4096, 8192);
    EXPECT_GT(pair.initiator->counters().pieces, 0u);
}

TEST(SrpDriver, FlushDiscardAndZeroes) {
    SrpPair pair;
    Scattered data(4, 4096, 8192, 9);
    ASSERT_EQ(pair.run(Op::write, 0, 32, data.list, bio_fua), Status::ok);
    EXPECT_EQ(pair.run(Op::flush, 0, 0, {}), Status::ok);
    EXPECT_EQ(pair.run(Op::write_zeroes, 0, 16, {}), Status::ok);
    EXPECT_EQ(pair.run(Op::discard, 16, 16, {}), Status::ok);
    ASSERT_EQ(pair.run(Op::read, 0, 16, Segments(data.list).first(2)), Status::ok);
    for (const Segment& each : Segments(data.list).first(2))
        for (std::size_t i = 0; i < each.bytes; ++i) ASSERT_EQ(each.data[i], std::byte{0});
    EXPECT_EQ(pair.run(Op::read, pair.device->sectors(), 8, Segments(data.list).first(1)), Status::out_of_range);
}

TEST(SrpDriver, RejectionsAreInWords) {
    const auto home = uring_reactor();
    auto loop = registry::SrpLoop::create(*home, {.login = {.allowed = {{.first = 77, .second = 78}}}},
                                          {{.lun = 0, .device = SrpWorld::ram(1 << 20)}});
    ASSERT_TRUE(loop);
    std::optional<Result<std::shared_ptr<srp_driver::Initiator>>> result;
    spawn(srp_driver::Initiator::connect(*home, (*loop)->network(), registry::SrpLoop::address(), {}, nullptr),
          [&](auto value) { result = std::move(value); });
    ASSERT_TRUE(run_until(*home, [&] { return result.has_value(); }));
    ASSERT_FALSE(result->has_value());
    EXPECT_NE(result->error().message().find("allows this initiator no further channel"), std::string::npos)
        << result->error().message();
}

}  // namespace
}  // namespace mqblk::test
