// SPDX-License-Identifier: Apache-2.0
//
// The SRP target: logins, data by every kind of descriptor, answers, credits, task management.
#include "driver/null/null.h"
#include "unit/srp_harness.h"

#include <algorithm>
#include <numeric>

namespace mqblk::test {
namespace {

using srpw::RejectReason;
using ScsiStatus = wire::scsi::Status;
namespace asc = wire::scsi::asc;

constexpr std::uint8_t all_access =
    fabric::rdma::access_local_write | fabric::rdma::access_remote_write | fabric::rdma::access_remote_read;

SrpBytes pattern(std::size_t bytes, std::uint64_t seed) {
    SrpBytes data(bytes);
    SeededRandom random(seed);
    for (auto& byte : data) byte = static_cast<std::byte>(random.next());
    return data;
}

TEST(SrpTarget, GrantsALogin) {
    for (const bool full : {false, true}) {
        SrpWorld world;
        SrpInitiator& initiator = world.add();
        initiator.full_login = full;
        initiator.login.tag = 0x1122334455667788;
        world.log_in(initiator);
        ASSERT_TRUE(initiator.granted);
        EXPECT_EQ(initiator.granted->tag.value(), 0x1122334455667788u);
        EXPECT_EQ(initiator.granted->req_lim_delta, 128u);
        EXPECT_EQ(initiator.granted->max_it_iu_len, 8276u);
        EXPECT_EQ(initiator.granted->buf_fmt, srpw::formats_known);
        EXPECT_EQ(initiator.granted->rsp_flags, 0);
        EXPECT_EQ(world.target->connections(), 1u);
    }
}

TEST(SrpTarget, RejectsForEveryReason) {
    struct Case {
        const char* what;
        void (*spoil)(srpw::LoginReq&);
        RejectReason reason;
    };
    device::srp::TargetOptions options;
    options.login.target_port = {7, 8};
    options.login.allowed = {{0, 1}};
    SrpWorld world(options);
    for (const Case& c :
         {Case{"too long units", [](srpw::LoginReq& l) { l.req_it_iu_len = 8277; }, RejectReason::iu_too_large},
          {"too short units", [](srpw::LoginReq& l) { l.req_it_iu_len = 63; }, RejectReason::iu_too_large},
          {"another port", [](srpw::LoginReq& l) { l.target_port.second = 9; }, RejectReason::unable_to_associate},
          {"format", [](srpw::LoginReq& l) { l.req_buf_fmt = 0x0008; }, RejectReason::unsupported_format},
          {"multichannel action", [](srpw::LoginReq& l) { l.req_flags = 2; }, RejectReason::multichannel_unsupported},
          {"initiator", [](srpw::LoginReq& l) { l.initiator_port.second = 2; }, RejectReason::channel_limit}}) {
        SrpInitiator& initiator = world.add();
        initiator.login.tag = 5;
        initiator.login.initiator_port = {0, 1};
        initiator.login.target_port = {7, 8};
        c.spoil(initiator.login);
        world.log_in(initiator);
        ASSERT_TRUE(initiator.rejection) << c.what;
        EXPECT_EQ(initiator.rejection->reason, static_cast<std::uint32_t>(c.reason)) << c.what;
        EXPECT_EQ(initiator.rejection->tag.value(), 5u);
        EXPECT_EQ(initiator.rejection->buf_fmt, srpw::formats_known);
    }
    SrpInitiator& initiator = world.add();
    initiator.raw_login = SrpBytes(20);
    world.log_in(initiator);
    ASSERT_TRUE(initiator.rejection);
    EXPECT_EQ(initiator.rejection->reason, static_cast<std::uint32_t>(RejectReason::unable_to_establish));
    EXPECT_EQ(world.target->connections(), 0u);
}

// The initiator's own memory is registered first, then what the target wants: buffers, tables, units.
TEST(SrpTarget, ADeviceThatRegistersTooLittleIsShortOfResources) {
    for (const unsigned granted : {1u, 2u, 3u, 4u}) {
        unsigned left = granted;
        fabric::rdma::InProcessOptions network;
        network.refuse_registration = [&] { return left == 0 || left-- == 0; };
        SrpWorld world({}, {}, network);
        SrpInitiator& initiator = world.add();
        world.log_in(initiator);
        EXPECT_EQ(initiator.granted.has_value(), granted == 4);
        if (granted == 4) continue;
        ASSERT_TRUE(initiator.rejection);
        EXPECT_EQ(initiator.rejection->reason, static_cast<std::uint32_t>(RejectReason::insufficient_resources));
        EXPECT_EQ(world.target->connections(), 0u);
    }
}

TEST(SrpTarget, ChannelsOfOneInitiator) {
    device::srp::TargetOptions options;
    options.login.max_channels = 3;
    SrpWorld world(options);
    SrpInitiator& first = world.connect(1, srpw::multichannel_single);
    EXPECT_EQ(first.granted->rsp_flags, srpw::result_no_other);
    EXPECT_EQ(world.connect(1, srpw::multichannel_multi).granted->rsp_flags, srpw::result_maintained);
    EXPECT_EQ(world.connect(1, srpw::multichannel_multi).granted->rsp_flags, srpw::result_maintained);
    SrpInitiator& one_too_many = world.add();
    one_too_many.login.initiator_port.second = 1;
    one_too_many.login.req_flags = srpw::multichannel_multi;
    world.log_in(one_too_many);
    ASSERT_TRUE(one_too_many.rejection);
    EXPECT_EQ(one_too_many.rejection->reason, static_cast<std::uint32_t>(RejectReason::channel_limit));
    SrpInitiator& other = world.connect(2);
    // A unit attention is told once, whichever channel asks.
    EXPECT_EQ(world.run(*world.initiators[1], wire::scsi::build_test_unit_ready()).status(),
              ScsiStatus::check_condition);
    EXPECT_EQ(world.run(*world.initiators[2], wire::scsi::build_test_unit_ready()).status(), ScsiStatus::good);
    SrpInitiator& anew = world.connect(1, srpw::multichannel_single);
    EXPECT_EQ(anew.granted->rsp_flags, srpw::result_terminated);
    EXPECT_TRUE(world.turn_until([&] { return world.target->connections() == 2; }));
    EXPECT_TRUE(first.disconnected_);
    EXPECT_FALSE(other.disconnected_);
}

TEST(SrpTarget, DataByADirectDescriptor) {
    for (const bool pinned : {false, true}) {  // memory of the medium is lent where registering it costs nothing
        fabric::rdma::InProcessOptions network;
        network.limits.cheap_ranges = !pinned;
        SrpWorld world({}, {}, network);
        SrpInitiator& initiator = world.connect();
        world.attend(initiator);
        SrpBytes data = pattern(256 * 1024, 1), back(data.size());
        const auto written = world.run(initiator, wire::scsi::build_write(64, 512), data, true);
        EXPECT_EQ(written.status(), ScsiStatus::good);
        EXPECT_EQ(written.rsp.flags, 0);
        EXPECT_EQ(written.rsp.req_lim_delta, 1u);
        EXPECT_EQ(written.rsp.tag.value(), 77u);
        const auto read = world.run(initiator, wire::scsi::build_read(64, 512), back, false);
        EXPECT_EQ(read.status(), ScsiStatus::good);
        EXPECT_EQ(read.rsp.flags, 0);
        EXPECT_EQ(back, data);
    }
}

TEST(SrpTarget, ResidualsAreToldBothWays) {
    SrpWorld world;
    SrpInitiator& initiator = world.connect();
    world.attend(initiator);
    SrpBytes data(8192);
    auto answer = world.run(initiator, wire::scsi::build_read(0, 8), data, false);  // more room than data
    EXPECT_EQ(answer.rsp.flags, srpw::data_in_underflow);
    EXPECT_EQ(answer.rsp.data_in_res_cnt, 4096u);
    answer = world.run(initiator, wire::scsi::build_read(0, 32), data, false);  // less
    EXPECT_EQ(answer.rsp.flags, srpw::data_in_overflow);
    EXPECT_EQ(answer.rsp.data_in_res_cnt, 8192u);
    answer = world.run(initiator, wire::scsi::build_write(0, 8), data, true);
    EXPECT_EQ(answer.rsp.flags, srpw::data_out_underflow);
    EXPECT_EQ(answer.rsp.data_out_res_cnt, 4096u);
    data.resize(255);
    answer = world.run(initiator, wire::scsi::build_inquiry(255), data, false);
    EXPECT_EQ(answer.rsp.flags, srpw::data_in_underflow);
    EXPECT_EQ(answer.rsp.data_in_res_cnt, 255u - 74);
    EXPECT_EQ(std::to_integer<int>(data[8]), 'M');
    // A failure moves nothing.
    data.resize(512);
    answer = world.run(initiator, wire::scsi::build_read(1 << 20, 1), data, false);
    EXPECT_EQ(answer.status(), ScsiStatus::check_condition);
    ASSERT_TRUE(answer.sense);
    EXPECT_EQ(answer.sense->code, asc::lba_out_of_range);
    EXPECT_EQ(answer.rsp.flags, srpw::data_in_underflow | srpw::sense_valid);
    EXPECT_EQ(answer.rsp.data_in_res_cnt, 512u);
}

/// Descriptors of `count` scattered pieces of `piece` bytes of `memory`, in reverse order.
std::vector<srpw::Descriptor> scattered(const SrpBytes& memory, std::uint32_t rkey, unsigned count,
                                        std::uint32_t piece) {
    std::vector<srpw::Descriptor> list;
    for (unsigned i = count; i-- > 0;) {
        list.push_back({.address = reinterpret_cast<std::uintptr_t>(memory.data()) + std::uint64_t{i} * piece,
                        .key = rkey,
                        .bytes = piece});
    }
    return list;
}

SrpBytes indirect(const std::vector<srpw::Descriptor>& list, std::uint32_t table_key, unsigned in_unit) {
    srpw::IndirectHeader header;
    header.table = {.address = reinterpret_cast<std::uintptr_t>(list.data()),
                    .key = table_key,
                    .bytes = static_cast<std::uint32_t>(list.size() * sizeof(srpw::Descriptor))};
    std::uint32_t total = 0;
    for (const auto& descriptor : list) total += descriptor.bytes;
    header.data_bytes = total;
    SrpBytes bytes;
    append(bytes, header);
    for (unsigned i = 0; i < in_unit; ++i) append(bytes, list[i]);
    return bytes;
}

// The whole list in the unit, a part of it, none of it: what is not there is fetched.
TEST(SrpTarget, DataByIndirectDescriptors) {
    SrpWorld world;
    SrpInitiator& initiator = world.connect();
    world.attend(initiator);
    constexpr std::uint32_t piece = 512 + 128;  // pieces of a block and a part
    for (const unsigned in_unit : {64u, 12u, 0u}) {
        constexpr unsigned count = 64;
        SrpBytes memory = pattern(count * piece, in_unit + 5);
        const std::uint32_t rkey = initiator.domain().register_range(memory.data(), memory.size(), all_access);
        auto list = scattered(memory, rkey, count, piece);
        const std::uint32_t table_key =
            initiator.domain().register_range(reinterpret_cast<std::byte*>(list.data()),
                                              list.size() * sizeof(srpw::Descriptor), fabric::rdma::access_remote_read);
        const auto descriptors = indirect(list, table_key, in_unit);
        constexpr std::uint32_t blocks = count * piece / 512;
        const auto written =
            world.exchange(initiator, SrpWorld::command(wire::scsi::build_write(8, blocks), 9, 0, 0x20, descriptors,
                                                        static_cast<std::uint8_t>(in_unit), 0));
        EXPECT_EQ(written.status(), ScsiStatus::good) << in_unit;
        EXPECT_EQ(written.rsp.flags, 0);
        const SrpBytes before = memory;
        std::ranges::fill(memory, std::byte{0});
        const auto read =
            world.exchange(initiator, SrpWorld::command(wire::scsi::build_read(8, blocks), 10, 0, 0x02, descriptors, 0,
                                                        static_cast<std::uint8_t>(in_unit)));
        EXPECT_EQ(read.status(), ScsiStatus::good);
        EXPECT_EQ(memory, before) << in_unit;
        initiator.domain().unregister(rkey);
        initiator.domain().unregister(table_key);
    }
}

TEST(SrpTarget, EightMebibytesOf2048PagesAreOneCommand) {
    SrpWorld world({}, {{.lun = 0, .device = SrpWorld::ram(16 << 20)}});
    SrpInitiator& initiator = world.connect();
    world.attend(initiator);
    SrpBytes memory = pattern(8 << 20, 3);
    const std::uint32_t rkey = initiator.domain().register_range(memory.data(), memory.size(), all_access);
    auto list = scattered(memory, rkey, 2048, 4096);
    const std::uint32_t table_key = initiator.domain().register_range(
        reinterpret_cast<std::byte*>(list.data()), list.size() * sizeof(srpw::Descriptor), all_access);
    const auto descriptors = indirect(list, table_key, 255);
    const auto written = world.exchange(
        initiator, SrpWorld::command(wire::scsi::build_write(0, 16384), 9, 0, 0x20, descriptors, 255, 0));
    EXPECT_EQ(written.status(), ScsiStatus::good);
    EXPECT_EQ(written.rsp.flags, 0);
    const SrpBytes before = memory;
    std::ranges::fill(memory, std::byte{0});
    const auto read = world.exchange(
        initiator, SrpWorld::command(wire::scsi::build_read(0, 16384), 10, 0, 0x02, descriptors, 0, 255));
    EXPECT_EQ(read.status(), ScsiStatus::good);
    EXPECT_TRUE(memory == before);
    initiator.domain().unregister(rkey);
    initiator.domain().unregister(table_key);
}

TEST(SrpTarget, ImmediateData) {
    for (const std::uint16_t offset : {std::uint16_t{68}, std::uint16_t{52}, std::uint16_t{500}}) {
        SrpWorld world;
        SrpInitiator& initiator = world.connect(1, srpw::flag_immediate, offset);
        EXPECT_EQ(initiator.granted->rsp_flags, srpw::flag_immediate);
        world.attend(initiator);
        SrpBytes data = pattern(4096, offset), back(data.size());
        SrpBytes descriptor;
        append(descriptor, srpw::ImmediateHeader{.bytes = 4096});
        SrpBytes unit = SrpWorld::command(wire::scsi::build_write(3, 8), 1, 0, 0x30, descriptor);
        unit.resize(offset);
        unit.insert(unit.end(), data.begin(), data.end());
        const auto written = world.exchange(initiator, unit);
        EXPECT_EQ(written.status(), ScsiStatus::good);
        EXPECT_EQ(written.rsp.flags, 0);
        EXPECT_EQ(world.run(initiator, wire::scsi::build_read(3, 8), back, false).status(), ScsiStatus::good);
        EXPECT_EQ(back, data);
    }
    // An offset within the command is not agreed on.
    SrpWorld world;
    EXPECT_EQ(world.connect(1, srpw::flag_immediate, 48).granted->rsp_flags, 0);
}

TEST(SrpTarget, LunsAreReportedAndAbsentOnesSaySo) {
    SrpWorld world;
    SrpInitiator& initiator = world.connect();
    SrpBytes data(64);
    for (const unsigned lun : {0u, 5u}) {
        EXPECT_EQ(world.run(initiator, wire::scsi::build_report_luns(64), data, false, lun).status(), ScsiStatus::good);
        be32 bytes;
        std::memcpy(static_cast<void*>(&bytes), data.data(), sizeof bytes);
        EXPECT_EQ(bytes, 16u);
        be64 second;
        std::memcpy(static_cast<void*>(&second), data.data() + 16, sizeof second);
        EXPECT_EQ(srpw::decode_lun(second), 300u);
    }
    data.assign(36, std::byte{});
    EXPECT_EQ(world.run(initiator, wire::scsi::build_inquiry(36), data, false, 5).status(), ScsiStatus::good);
    EXPECT_EQ(std::to_integer<int>(data[0]), wire::scsi::peripheral_no_unit);
    const auto answer = world.run(initiator, wire::scsi::build_test_unit_ready(), 5);
    EXPECT_EQ(answer.status(), ScsiStatus::check_condition);
    ASSERT_TRUE(answer.sense);
    EXPECT_EQ(answer.sense->code, asc::logical_unit_not_supported);
    world.attend(initiator, 300);
    EXPECT_EQ(world.run(initiator, wire::scsi::build_test_unit_ready(), 300).status(), ScsiStatus::good);
}

TEST(SrpTarget, BuffersAreWaitedForInOrder) {
    device::srp::TargetOptions options;
    options.max_transfer_bytes = 1 << 20;
    options.buffer_bytes = 1 << 20;  // one large command at a time
    fabric::rdma::InProcessOptions network;
    network.limits.cheap_ranges = false;
    SrpWorld world(options, {}, network);
    SrpInitiator& initiator = world.connect();
    SrpInitiator& other = world.connect(2);
    world.attend(initiator);
    world.attend(other);
    std::vector<SrpBytes> memory;
    for (unsigned i = 0; i < 40; ++i) {
        SrpInitiator& from = i % 2 == 0 ? initiator : other;
        memory.push_back(pattern(i % 5 == 0 ? 1 << 20 : 4096, i));
        SrpBytes& data = memory.back();
        const std::uint32_t rkey = from.domain().register_range(data.data(), data.size(), all_access);
        SrpBytes descriptors;
        append(descriptors, srpw::Descriptor{.address = reinterpret_cast<std::uintptr_t>(data.data()),
                                             .key = rkey,
                                             .bytes = static_cast<std::uint32_t>(data.size())});
        ASSERT_TRUE(from.send(SrpWorld::command(
            wire::scsi::build_write(0, static_cast<std::uint32_t>(data.size() / 512)), i, 0, 0x10, descriptors)));
    }
    for (unsigned i = 0; i < 40; ++i)
        EXPECT_EQ(world.next_answer(i % 2 == 0 ? initiator : other).status(), ScsiStatus::good) << i;
}

TEST(SrpTarget, TaskManagement) {
    SrpWorld world;
    SrpInitiator& initiator = world.connect();
    SrpInitiator& other = world.connect(2);
    world.attend(initiator);
    world.attend(other);
    using srpw::ResponseCode;
    using srpw::TaskFunction;
    for (const auto function : {TaskFunction::abort_task, TaskFunction::abort_task_set})
        EXPECT_EQ(world.exchange(initiator, SrpWorld::task(function, 3, 0, 99)).code, ResponseCode::success);
    EXPECT_EQ(world.exchange(initiator, SrpWorld::task(TaskFunction::clear_aca, 3)).code, ResponseCode::not_supported);
    EXPECT_EQ(world.exchange(initiator, SrpWorld::task(TaskFunction::lun_reset, 3, 5)).code, ResponseCode::failed);
    EXPECT_EQ(world.run(other, wire::scsi::build_test_unit_ready()).status(), ScsiStatus::good);
    EXPECT_EQ(world.exchange(initiator, SrpWorld::task(TaskFunction::clear_task_set, 3)).code, ResponseCode::success);
    EXPECT_EQ(world.run(other, wire::scsi::build_test_unit_ready()).sense->code,
              asc::commands_cleared_by_another_initiator);
    EXPECT_EQ(world.exchange(initiator, SrpWorld::task(TaskFunction::lun_reset, 3)).code, ResponseCode::success);
    EXPECT_EQ(world.run(other, wire::scsi::build_test_unit_ready()).sense->code, asc::device_reset);
    EXPECT_EQ(world.run(initiator, wire::scsi::build_test_unit_ready()).status(), ScsiStatus::good);
}

// What waits for memory is ended by its abort, without an answer of its own; its credit comes with the next.
TEST(SrpTarget, AnAbortedCommandHasNoAnswer) {
    device::srp::TargetOptions options;
    options.max_transfer_bytes = 1 << 20;
    options.buffer_bytes = 1 << 20;
    driver::null::Options slow{.bytes = 64 << 20, .disk = {}};
    slow.latency = std::chrono::seconds(1);
    fabric::rdma::InProcessOptions network;
    network.limits.cheap_ranges = false;
    SrpWorld world(options, {{.lun = 0, .device = *driver::null::open(slow)}}, network);
    SrpInitiator& initiator = world.connect();
    world.attend(initiator);
    const std::uint32_t credits = initiator.credits;
    SrpBytes data(1 << 20);
    const std::uint32_t rkey = initiator.domain().register_range(data.data(), data.size(), all_access);
    SrpBytes descriptors;
    append(descriptors, srpw::Descriptor{.address = reinterpret_cast<std::uintptr_t>(data.data()),
                                         .key = rkey,
                                         .bytes = static_cast<std::uint32_t>(data.size())});
    for (std::uint64_t tag = 1; tag <= 3; ++tag)
        ASSERT_TRUE(initiator.send(SrpWorld::command(wire::scsi::build_read(0, 2048), tag, 0, 0x01, descriptors)));
    initiator.credits -= 4;  // with the task
    world.turn(20);
    const auto answer = world.exchange(initiator, SrpWorld::task(srpw::TaskFunction::abort_task, 50, 0, 2));
    EXPECT_EQ(answer.code, srpw::ResponseCode::success);
    EXPECT_EQ(answer.rsp.tag.value(), 50u);
    EXPECT_EQ(answer.rsp.req_lim_delta, 2u);
    for (const std::uint64_t tag : {1u, 3u}) {
        world.clock.advance(std::chrono::seconds(2));
        EXPECT_EQ(world.next_answer(initiator).rsp.tag.value(), tag);
    }
    EXPECT_EQ(initiator.credits, credits);
    // All of the set: whatever is where.
    for (std::uint64_t tag = 1; tag <= 3; ++tag)
        ASSERT_TRUE(initiator.send(SrpWorld::command(wire::scsi::build_read(0, 2048), tag, 0, 0x01, descriptors)));
    initiator.credits -= 3;
    world.turn(20);
    ASSERT_TRUE(initiator.send(SrpWorld::task(srpw::TaskFunction::abort_task_set, 51)));
    --initiator.credits;
    world.turn(20);
    world.clock.advance(std::chrono::seconds(2));
    EXPECT_EQ(world.next_answer(initiator).rsp.tag.value(), 51u);
    EXPECT_EQ(initiator.credits, credits);
    initiator.domain().unregister(rkey);
}

// Both ends live in the initiator's reactor: when that goes, nothing of the target's may be left there.
TEST(SrpTarget, NothingIsLeftInAReactorThatGoes) {
    SrpWorld world;
    auto reactor = std::make_unique<ManualReactor>(world.clock, world.random);
    auto initiator = std::make_unique<SrpInitiator>(world.network, *reactor);
    initiator->start();
    for (unsigned i = 0; i < 100; ++i) reactor->run_once(Reactor::Sleep::no);
    ASSERT_TRUE(initiator->granted);
    ASSERT_TRUE(initiator->send(SrpWorld::command(wire::scsi::build_test_unit_ready(), 1)));
    EXPECT_EQ(world.target->connections(), 1u);
    initiator.reset();
    EXPECT_EQ(world.target->connections(), 0u);
    reactor.reset();
}

TEST(SrpTarget, ConnectionsEndUnderLoadAndWithTheTarget) {
    SrpWorld world;
    for (unsigned round = 0; round < 3; ++round) {
        SrpInitiator& initiator = world.connect(round);
        for (std::uint64_t tag = 0; tag < 20; ++tag)
            ASSERT_TRUE(initiator.send(SrpWorld::command(wire::scsi::build_test_unit_ready(), tag)));
        if (round == 1) world.turn(1);
        if (round == 2) {
            SrpBytes logout;
            append(logout, srpw::Short{.opcode = static_cast<std::uint8_t>(srpw::Opcode::i_logout)});
            ASSERT_TRUE(initiator.send(logout));
            EXPECT_TRUE(world.turn_until([&] { return initiator.disconnected_; }));
        }
        world.initiators.clear();
        EXPECT_TRUE(world.turn_until([&] { return world.target->connections() == 0; }));
    }
    world.connect(7);
    bool done = false;
    world.target->shutdown([&] { done = true; });
    EXPECT_TRUE(world.turn_until([&] { return done; }));
    EXPECT_TRUE(world.turn_until([&] { return world.initiators.back()->disconnected_; }));
    SrpInitiator& late = world.add();
    world.log_in(late);
    EXPECT_TRUE(late.rejection);
}

}  // namespace
}  // namespace mqblk::test
