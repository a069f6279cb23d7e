// SPDX-License-Identifier: Apache-2.0
//
// Initiators that break the rules: each is refused, or loses its connection, and others do not notice.
#include "driver/null/null.h"
#include "unit/srp_harness.h"

namespace mqblk::test {
namespace {

using srpw::ResponseCode;
using ScsiStatus = wire::scsi::Status;

constexpr std::uint16_t invalid_field_in_unit = 0x0e03;

class SrpHostile : public ::testing::Test {
  protected:
    void SetUp() override {
        world.attend(good);
        world.attend(bad);
    }
    void TearDown() override {
        EXPECT_EQ(world.run(good, wire::scsi::build_test_unit_ready()).status(), ScsiStatus::good);
    }
    void expect_refused(const SrpBytes& unit, const char* what) {
        const auto answer = world.exchange(bad, unit);
        EXPECT_EQ(answer.code, ResponseCode::invalid_fields) << what;
        EXPECT_EQ(answer.status(), ScsiStatus::check_condition) << what;
        ASSERT_TRUE(answer.sense) << what;
        EXPECT_EQ(answer.sense->code, invalid_field_in_unit) << what;
        EXPECT_EQ(answer.rsp.tag.value(), 42u);
        EXPECT_EQ(answer.rsp.req_lim_delta, 1u);
    }
    SrpBytes read(const SrpBytes& descriptors, std::uint8_t format, std::uint8_t count = 0) {
        return SrpWorld::command(wire::scsi::build_read(0, 8), 42, 0, format, descriptors, count, count);
    }
    static SrpBytes list(std::uint32_t table_bytes, std::uint32_t data_bytes, std::vector<srpw::Descriptor> in_unit,
                         std::uint64_t address = 0x1000) {
        SrpBytes bytes;
        append(bytes, srpw::IndirectHeader{.table = {.address = address, .key = 1, .bytes = table_bytes},
                                           .data_bytes = data_bytes});
        for (const auto& descriptor : in_unit) append(bytes, descriptor);
        return bytes;
    }

    SrpWorld world;
    SrpInitiator& good = world.connect(1, srpw::flag_immediate, 68);
    SrpInitiator& bad = world.connect(2, srpw::flag_immediate, 68);
};

TEST_F(SrpHostile, UnitsThatDisagreeWithThemselves) {
    const srpw::Descriptor block{.address = 0x1000, .key = 1, .bytes = 512};
    expect_refused(read({}, 0x01), "a descriptor past the unit");
    expect_refused(read({}, 0x02, 1), "a list past the unit");
    expect_refused(read(list(16, 512, {}), 0x02, 1), "fewer descriptors than stated");
    expect_refused(read(list(16, 1024, {block, block}), 0x02, 2), "more descriptors than the table");
    expect_refused(read(list(32, 1023, {block, block}), 0x02, 2), "another sum");
    expect_refused(read(list(33, 1024, {block, block}), 0x02, 2), "a table that is no multiple");
    expect_refused(read(list(0xfffffff0, 4096, {block}), 0x02, 1), "a table too long");
    expect_refused(read(list(4096, 4096, {}, ~0ull - 100), 0x02, 0), "a table that wraps");
    expect_refused(
        read(list(32, 0xffffffff,
                  {{.address = 0, .key = 1, .bytes = 0xffffffff}, {.address = 0, .key = 1, .bytes = 0xffffffff}}),
             0x02, 2),
        "a sum that wraps");
    expect_refused(read({}, 0x05), "an unknown format");
    expect_refused(read({}, 0x03), "immediate data-in");
    SrpBytes unit = SrpWorld::command(wire::scsi::build_test_unit_ready(), 42);
    unit[31] = std::byte{0xfc};
    expect_refused(unit, "an additional CDB past the unit");
    unit = SrpWorld::command(wire::scsi::build_test_unit_ready(), 42);
    unit[29] = std::byte{4};
    expect_refused(unit, "task attribute ACA");
    unit.resize(20);
    expect_refused(unit, "a command that is cut off");
}

TEST_F(SrpHostile, ImmediateDataThatAreNotThere) {
    SrpBytes descriptor;
    append(descriptor, srpw::ImmediateHeader{.bytes = 4096});
    SrpBytes unit = SrpWorld::command(wire::scsi::build_write(0, 8), 42, 0, 0x30, descriptor);
    expect_refused(unit, "no data");
    unit.resize(68 + 4095);
    expect_refused(unit, "a byte too few");
    unit.resize(68 + 4096);
    unit[48] = std::byte{0xff};
    expect_refused(unit, "a length of almost 4 GiB");
    unit = SrpWorld::command(wire::scsi::build_write(0, 8), 42, 0, 0x31, descriptor);
    unit.resize(68 + 4096);
    expect_refused(unit, "data-in besides");
    SrpInitiator& without = world.connect(3);
    world.attend(without);
    EXPECT_EQ(world.exchange(without, SrpWorld::command(wire::scsi::build_write(0, 8), 42, 0, 0x30, descriptor)).code,
              ResponseCode::invalid_fields);
}

// The external table is the initiator's memory: what is in it is as hostile as the unit.
TEST_F(SrpHostile, ExternalTablesThatDisagree) {
    std::vector<srpw::Descriptor> table(64, {.address = 0x1000, .key = 1, .bytes = 64});
    const std::uint32_t key = bad.domain().register_range(
        reinterpret_cast<std::byte*>(table.data()), table.size() * sizeof table[0], fabric::rdma::access_remote_read);
    SrpBytes descriptors;
    append(descriptors,
           srpw::IndirectHeader{.table = {.address = reinterpret_cast<std::uintptr_t>(table.data()),
                                          .key = key,
                                          .bytes = static_cast<std::uint32_t>(table.size() * sizeof table[0])},
                                .data_bytes = 4096});
    table[63].bytes = 63;
    expect_refused(read(descriptors, 0x02), "a sum that is less");
    table[63].bytes = 0xffffffff;
    expect_refused(read(descriptors, 0x02), "a sum that is more");
    bad.domain().unregister(key);
}

TEST_F(SrpHostile, MemoryThatIsNotThereEndsTheConnection) {
    SrpBytes descriptors;
    append(descriptors, srpw::Descriptor{.address = 0x1000, .key = 0xdead, .bytes = 4096});
    ASSERT_TRUE(bad.send(read(descriptors, 0x01)));
    EXPECT_TRUE(world.turn_until([&] { return bad.disconnected_; }));
    EXPECT_TRUE(world.turn_until([&] { return world.target->connections() == 1; }));
}

TEST_F(SrpHostile, ATableThatIsNotThereEndsTheConnection) {
    ASSERT_TRUE(bad.send(read(list(1024, 4096, {}), 0x02)));
    EXPECT_TRUE(world.turn_until([&] { return bad.disconnected_ && world.target->connections() == 1; }));
}

TEST_F(SrpHostile, ADescriptorThatWrapsEndsTheConnection) {
    SrpBytes descriptors;
    append(descriptors, srpw::Descriptor{.address = ~0ull - 100, .key = 1, .bytes = 4096});
    ASSERT_TRUE(bad.send(read(descriptors, 0x01)));
    EXPECT_TRUE(world.turn_until([&] { return bad.disconnected_ && world.target->connections() == 1; }));
}

TEST_F(SrpHostile, MoreRequestsThanCreditsEndTheConnection) {
    device::srp::TargetOptions options;
    options.login.queue_depth = 4;
    driver::null::Options slow{.bytes = 1 << 20, .disk = {}};
    slow.latency = std::chrono::seconds(1);
    SrpWorld small(options, {{.lun = 0, .device = *driver::null::open(slow)}});
    SrpInitiator& greedy = small.connect();
    EXPECT_EQ(greedy.granted->req_lim_delta, 4u);
    small.attend(greedy);
    const auto verify = wire::scsi::build_blocks({.operation = wire::scsi::opcode::verify_10, .lba = 0, .blocks = 1});
    for (std::uint64_t tag = 0; tag < 4; ++tag) ASSERT_TRUE(greedy.send(SrpWorld::command(verify, tag)));
    small.turn(20);
    EXPECT_FALSE(greedy.disconnected_);
    ASSERT_TRUE(greedy.send(SrpWorld::command(verify, 4)));
    EXPECT_TRUE(small.turn_until([&] { return greedy.disconnected_; }));
    small.clock.advance(std::chrono::seconds(2));
    EXPECT_TRUE(small.turn_until([&] { return small.target->connections() == 0; }));
}

TEST_F(SrpHostile, UnitsLongerThanAgreedEndTheConnection) {
    SrpInitiator& initiator = world.add();
    initiator.login.initiator_port.second = 9;
    initiator.login.req_it_iu_len = 64;
    world.log_in(initiator);
    ASSERT_TRUE(initiator.granted);
    SrpBytes unit = SrpWorld::command(wire::scsi::build_test_unit_ready(), 1);
    unit.resize(65);
    ASSERT_TRUE(initiator.send(unit));
    EXPECT_TRUE(world.turn_until([&] { return initiator.disconnected_; }));
}

// Nothing comes of them, and no credit is lost.
TEST_F(SrpHostile, UnknownUnitsAreIgnored) {
    for (unsigned round = 0; round < 300; ++round) {
        for (const unsigned opcode : {0x00u, 0x04u, 0x40u, 0x41u, 0x42u, 0x80u, 0xc1u, 0xffu}) {
            SrpBytes unit(16, static_cast<std::byte>(opcode));
            ASSERT_TRUE(bad.send(unit));
        }
        ASSERT_TRUE(bad.send({}));
        world.turn(1);
    }
    EXPECT_EQ(world.run(bad, wire::scsi::build_test_unit_ready()).status(), ScsiStatus::good);
    EXPECT_TRUE(bad.answers.empty());
    // A command without a tag cannot be answered: its credit comes back by a request of the target's.
    ASSERT_TRUE(bad.send({std::byte{2}, std::byte{0}}));
    EXPECT_TRUE(world.turn_until([&] { return !bad.answers.empty(); }));
    const auto request = srpw::decode_cred_req(bad.answers.front());
    ASSERT_TRUE(request);
    EXPECT_EQ(request->req_lim_delta, 1u);
    // While it is not answered there is no other.
    bad.answers.clear();
    ASSERT_TRUE(bad.send({std::byte{2}}));
    world.turn(50);
    EXPECT_TRUE(bad.answers.empty());
    SrpBytes response;
    append(response, srpw::Short{.opcode = static_cast<std::uint8_t>(srpw::Opcode::cred_rsp)});
    ASSERT_TRUE(bad.send(response));
    EXPECT_TRUE(world.turn_until([&] { return !bad.answers.empty(); }));
}

// Any bytes, many times over: nothing breaks, and the target stands.
TEST_F(SrpHostile, AnyBytes) {
    constexpr std::uint64_t seed = 20260101;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SeededRandom random(seed);
    for (unsigned round = 0; round < 3000; ++round) {
        if (world.initiators.back()->disconnected_ || world.initiators.size() < 3) {
            if (world.initiators.size() >= 3) world.initiators.pop_back();
            world.turn(20);
            world.connect(100, srpw::flag_immediate, 68);
        }
        SrpInitiator& any = *world.initiators.back();
        SrpBytes unit = random.below(4) == 0 ? SrpWorld::task(srpw::TaskFunction::abort_task_set, round)
                                             : SrpWorld::command(wire::scsi::build_read(0, 8), round);
        unit.resize(48 + random.below(200));
        for (unsigned i = 0; i < random.below(8); ++i)
            unit[1 + random.below(unit.size() - 1)] = static_cast<std::byte>(random.next());
        if (random.below(2) == 0) unit[5] = static_cast<std::byte>(random.below(4) << 4 | random.below(4));
        static_cast<void>(any.send(unit));
        world.turn(2);
        any.answers.clear();
    }
}

}  // namespace
}  // namespace mqblk::test
