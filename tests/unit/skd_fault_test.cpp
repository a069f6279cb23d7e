// SPDX-License-Identifier: Apache-2.0
//
// The S1120 model misbehaving on demand, one test for each way, and how faults are written.
#include "device/skd/fault.h"
#include "support/skd_host.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace mqblk::test {
namespace {

using namespace std::chrono_literals;
using device::skd::Fault;
using device::skd::FaultKind;
using skdw::DriveState;

class SkdFault : public testing::Test {
  protected:
    void SetUp() override { ASSERT_TRUE(host.start()); }
    SkdDone read(std::uint64_t lba, std::uint32_t blocks, std::uint16_t tag = 0x0401) {
        return host.run(scsiw::build_read(lba, blocks), blocks * 512, 0, tag);
    }
    void inject(const char* text) {
        auto fault = device::skd::parse_fault(text);
        ASSERT_TRUE(fault) << fault.error().message();
        host.card().inject(*fault);
    }
    /// At the k-th command from here.
    void inject_at(std::uint64_t k, const std::string& kind, const std::string& keys = "") {
        inject((kind + "@" + std::to_string(host.card().counters().commands + k) + keys).c_str());
    }
    SkdHost host;
};

TEST_F(SkdFault, MediumErrorAtItsBlocksOnly) {
    inject("medium-error,lba=1000,blocks=8");
    EXPECT_EQ(read(992, 8).status, scsiw::Status::good);
    EXPECT_EQ(read(1008, 8).status, scsiw::Status::good);
    for (int i = 0; i < 3; ++i) {
        const SkdDone done = read(996, 8);
        EXPECT_EQ(done.status, scsiw::Status::check_condition);
        ASSERT_TRUE(done.sense);
        EXPECT_EQ(done.sense->key, scsiw::SenseKey::medium_error);
        EXPECT_EQ(done.sense->code, scsiw::asc::unrecovered_read_error);
        EXPECT_EQ(done.sense->information, 1000u);
        EXPECT_EQ(done.bytes, 0u);
    }
    const SkdDone write = host.run(scsiw::build_write(1007, 8), 4096);
    EXPECT_EQ(write.sense->code, scsiw::asc::write_error);
    EXPECT_EQ(write.sense->information, 1007u);
    EXPECT_EQ(host.run(scsiw::build_synchronize_cache()).status, scsiw::Status::good);
    host.card().heal();
    EXPECT_EQ(read(996, 8).status, scsiw::Status::good);
}

TEST_F(SkdFault, AnyKindAtItsBlocksOnly) {
    inject("status,key=0xb,asc=0x4b00,lba=1000,blocks=8");
    inject("busy,for=5s,lba=2000,blocks=8");
    EXPECT_EQ(read(992, 8).status, scsiw::Status::good);
    EXPECT_EQ(host.run(scsiw::build_synchronize_cache()).status, scsiw::Status::good);
    EXPECT_EQ(read(1000, 8).status, scsiw::Status::check_condition);
    EXPECT_EQ(read(1000, 8).status, scsiw::Status::good) << "once";
    EXPECT_EQ(host.state(), DriveState::online);
    EXPECT_EQ(read(1993, 8).status, scsiw::Status::good);
    EXPECT_EQ(host.state(), DriveState::busy);
}

TEST_F(SkdFault, EveryCheckConditionOfTheDriversTable) {
    struct Case {
        unsigned key, asc;
    };
    for (const Case c : {Case{1, 0x0000},
                         {0, 0x0b00},
                         {0, 0x5d00},
                         {1, 0x0b01},
                         {0xb, 0x4b00},
                         {6, 0x0b00},
                         {6, 0x5d00},
                         {6, 0x8030},
                         {6, 0x3f01},
                         {2, 0x0406},
                         {3, 0x1100},
                         {4, 0x4400},
                         {5, 0x2400}}) {
        inject_at(1, "status", ",key=" + std::to_string(c.key) + ",asc=" + std::to_string(c.asc));
        const SkdDone done = read(0, 8);
        EXPECT_EQ(done.status, scsiw::Status::check_condition);
        ASSERT_TRUE(done.sense);
        EXPECT_EQ(static_cast<unsigned>(done.sense->key), c.key);
        EXPECT_EQ(done.sense->code, c.asc);
        EXPECT_EQ(read(0, 8).status, scsiw::Status::good) << "once";
    }
    inject("status,status=0x08");
    EXPECT_EQ(read(0, 8).status, scsiw::Status::busy);
    inject("status,status=0x28");
    EXPECT_EQ(read(0, 8).status, scsiw::Status::task_set_full);
}

TEST_F(SkdFault, LostAndLateAndTwiceAndWrong) {
    inject_at(2, "lost");
    EXPECT_EQ(read(0, 8, 1).status, scsiw::Status::good);
    host.send({{.cdb = scsiw::build_read(0, 8), .tag = 2, .data = {{host.data_address(), 4096}}}});
    EXPECT_FALSE(host.wait_next(60s));
    EXPECT_EQ(host.card().in_flight(), 0u);

    inject("late,by=3s");
    host.send({{.cdb = scsiw::build_read(0, 8), .tag = 3, .data = {{host.data_address(), 4096}}}});
    EXPECT_EQ(read(0, 8, 4).tag, 4) << "others overtake it";
    EXPECT_FALSE(host.wait_next(2900ms));
    EXPECT_EQ(host.wait_next(200ms)->tag, 3);

    inject("twice");
    EXPECT_EQ(read(0, 8, 5).tag, 5);
    EXPECT_EQ(host.wait_next(1s)->tag, 5);

    inject("twice,by=2s");
    EXPECT_EQ(read(0, 8, 6).tag, 6);
    EXPECT_EQ(read(0, 8, 7).tag, 7);
    EXPECT_FALSE(host.wait_next(1900ms));
    EXPECT_EQ(host.wait_next(200ms)->tag, 6) << "a second time, later";
    EXPECT_EQ(host.card().in_flight(), 0u);
    inject("twice,by=2s");
    EXPECT_EQ(read(0, 8, 8).tag, 8);
    host.soft_reset();
    ASSERT_TRUE(host.handshake());
    EXPECT_FALSE(host.wait_next(5s)) << "not after a reset";

    inject("wrong-tag");
    host.send({{.cdb = scsiw::build_read(0, 8), .tag = 0x0406, .data = {{host.data_address(), 4096}}}});
    const auto wrong = host.wait_next();
    ASSERT_TRUE(wrong);
    EXPECT_NE(wrong->tag, 0x0406);
    EXPECT_EQ(wrong->tag & 0x3ff, 0x0006) << "a slot that exists, of another generation";
    EXPECT_FALSE(host.wait_next(1s));
}

TEST_F(SkdFault, StatesAtACommand) {
    host.write(skdw::reg::int_status_host, skdw::cause_acknowledge);
    for (const auto& [kind, state] : {std::pair{"busy", DriveState::busy},
                                      {"sanitize", DriveState::busy_sanitize},
                                      {"erase", DriveState::busy_erase}}) {
        inject_at(3, kind, ",for=5s");
        EXPECT_EQ(read(0, 8, 1).status, scsiw::Status::good);
        EXPECT_EQ(read(0, 8, 2).status, scsiw::Status::good);
        EXPECT_EQ(host.state(), DriveState::online);
        EXPECT_EQ(read(0, 8, 3).status, scsiw::Status::good) << "the command itself is carried out";
        EXPECT_EQ(host.state(), state);
        EXPECT_NE(host.read(skdw::reg::int_status_host) & skdw::cause_state_change, 0u);
        EXPECT_TRUE(host.wait_state(DriveState::online));
    }
}

TEST_F(SkdFault, AnLbaAloneIsOneBlock) {
    inject("medium-error,lba=100");
    EXPECT_EQ(read(0, 8).status, scsiw::Status::good);
    EXPECT_EQ(read(101, 8).status, scsiw::Status::good);
    EXPECT_EQ(read(96, 4).status, scsiw::Status::good);
    EXPECT_EQ(read(100, 1).status, scsiw::Status::check_condition);
    EXPECT_EQ(read(93, 8).status, scsiw::Status::check_condition);
}

TEST_F(SkdFault, FirmwareFaultEndsAllUntilReset) {
    inject_at(2, "late", ",by=10s");
    inject_at(3, "fault");
    EXPECT_EQ(read(0, 8, 1).status, scsiw::Status::good);
    host.send({{.cdb = scsiw::build_read(0, 8), .tag = 2, .data = {{host.data_address(), 4096}}}});
    host.send({{.cdb = scsiw::build_read(0, 8), .tag = 3, .data = {{host.data_address(), 4096}}}});
    ASSERT_TRUE(host.wait_state(DriveState::fault));
    EXPECT_FALSE(host.wait_next(20s)) << "nothing more is told";
    EXPECT_EQ(host.mailbox(0x01000000), 0u);
    host.send({{.cdb = scsiw::build_test_unit_ready(), .tag = 4}});
    EXPECT_FALSE(host.wait_next(1s));
    host.soft_reset();
    ASSERT_TRUE(host.handshake());
    EXPECT_EQ(read(0, 8).status, scsiw::Status::good);
}

TEST_F(SkdFault, TheFirmwareRestartsByItself) {
    host.write(skdw::reg::int_status_host, skdw::cause_acknowledge);
    inject_at(1, "late", ",by=10s");
    inject_at(2, "restart", ",for=3s");
    host.send({{.cdb = scsiw::build_read(0, 8), .tag = 1, .data = {{host.data_address(), 4096}}}});
    host.send({{.cdb = scsiw::build_read(0, 8), .tag = 2, .data = {{host.data_address(), 4096}}}});
    ASSERT_TRUE(host.wait_state(DriveState::soft_reset));
    EXPECT_NE(host.read(skdw::reg::int_status_host) & skdw::cause_state_change, 0u);
    EXPECT_EQ(host.mailbox(0x01000000), 0u) << "nobody listens";
    host.write(skdw::reg::int_status_host, skdw::cause_acknowledge);
    ASSERT_TRUE(host.wait_state(DriveState::init));
    EXPECT_NE(host.read(skdw::reg::int_status_host) & skdw::cause_state_change, 0u);
    EXPECT_EQ(host.card().in_flight(), 0u) << "all is dropped";
    ASSERT_TRUE(host.handshake());
    EXPECT_FALSE(host.wait_next(20s)) << "nothing of before is told";
    EXPECT_EQ(read(0, 8).status, scsiw::Status::good);
}

TEST_F(SkdFault, TheCardDisappearsAndComesBack) {
    inject_at(1, "gone", ",for=4s");
    host.send({{.cdb = scsiw::build_read(0, 8), .tag = 1, .data = {{host.data_address(), 4096}}}});
    ASSERT_TRUE(host.wait_state(DriveState::missing));
    EXPECT_EQ(host.read(skdw::reg::control), 0xffffffffu);
    EXPECT_TRUE(host.function().lost());
    EXPECT_FALSE(host.function().reconnect(Duration{}));
    host.run_for(5s);
    ASSERT_TRUE(host.function().reconnect(Duration{}));
    host.function().set_bus_master(true);
    ASSERT_TRUE(host.start());
    EXPECT_EQ(read(0, 8).status, scsiw::Status::good);
}

TEST_F(SkdFault, ACardThatIsOutComesBackWhateverIsResetMeanwhile) {
    inject_at(1, "gone", ",for=4s");
    host.send({{.cdb = scsiw::build_read(0, 8), .tag = 1, .data = {{host.data_address(), 4096}}}});
    ASSERT_TRUE(host.wait_state(DriveState::missing));
    host.run_for(1s);
    host.card().reset();  // as when the host's process ends
    EXPECT_EQ(host.card().state(), DriveState::missing);
    EXPECT_TRUE(host.card().quiet());
    host.run_for(2s);
    EXPECT_EQ(host.card().state(), DriveState::missing);
    host.run_for(2s);
    EXPECT_EQ(host.card().state(), DriveState::init);
    ASSERT_TRUE(host.function().reconnect(Duration{}));
    host.function().set_bus_master(true);
    ASSERT_TRUE(host.start());
    EXPECT_EQ(read(0, 8).status, scsiw::Status::good);
}

TEST(SkdFaultStart, AnAnswerThatGetsLostStopsTheHandshake) {
    for (const unsigned type : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 9u}) {
        device::skd::Options options;
        options.faults.push_back(device::skd::parse_fault("no-answer,type=" + std::to_string(type)).value());
        SkdHost host(options);
        EXPECT_FALSE(host.start()) << type;
        host.soft_reset();
        EXPECT_TRUE(host.handshake()) << type;
    }
}

TEST(SkdFaultStart, AnotherProtocolIsSaid) {
    device::skd::Options options;
    options.protocol = 0x20;
    SkdHost host(options);
    ASSERT_TRUE(host.wait_state(DriveState::init));
    EXPECT_EQ(skdw::protocol_major_of(host.mailbox(0x01000000)), 2);
}

struct ParseCase {
    const char* text;
    const char* error;  ///< part of it; null: it is good
};

TEST(SkdFaultText, IsReadOrRefusedInASentence) {
    for (const ParseCase c : {
             ParseCase{"medium-error", nullptr},
             {"medium-error@7x3,lba=0x10,blocks=4", nullptr},
             {"status@9,status=0x28", nullptr},
             {"late,by=2s", nullptr},
             {"gone", nullptr},
             {"explode", "no such kind; there are medium-error"},
             {"", "no such kind"},
             {"lost@", "the command after '@'"},
             {"lost@1x", "the count after 'x'"},
             {"lost@abc", "the command after '@'"},
             {"lost,lba=3,blocks=1", nullptr},
             {"restart@5,for=1s,lba=3,blocks=1", nullptr},
             {"lost,by=3s", "lost has no 'by'; it takes: lba, blocks"},
             {"no-answer,lba=3", "no-answer has no 'lba'; it takes: type"},
             {"late,by=3", "by=3"},
             {"late@7,by=8760h", nullptr},
             {"late@7,by=9223372036s", "by=9223372036s: must not be over a year"},
             {"busy,for=8766h", "for=8766h: must not be over a year"},
             {"status,key=16", "key=16"},
             {"medium-error,lba=99999999999999999999", "lba="},
             {"medium-error,,", "a comma without KEY=VALUE after it; medium-error takes: lba, blocks"},
             {"medium-error,", "a comma without KEY=VALUE"},
             {"medium-error,=3", "has no ''"},
             {"medium-error,blocks=0", "blocks=0: must be a number from 1 to"},
             {"lost,lba=1,blocks=1,lba=2", "'lba' is given more than once"},
             {"late", "say how late, as in late,by=2s"},
             {"late,by=0", "say how late"},
             {"no-answer@7", "leave out @7"},
             {"no-answer@0x2,type=1", nullptr},
         }) {
        const auto fault = device::skd::parse_fault(c.text);
        EXPECT_EQ(fault.has_value(), c.error == nullptr) << c.text;
        if (!fault && c.error != nullptr) {
            EXPECT_NE(fault.error().message().find(c.error), std::string::npos) << fault.error().message();
        }
    }
    const Fault fault = device::skd::parse_fault("medium-error@7x3,lba=0x10,blocks=4").value();
    EXPECT_EQ(fault.kind, FaultKind::medium_error);
    EXPECT_EQ(fault.command, 7u);
    EXPECT_EQ(fault.count, 3u);
    EXPECT_EQ(fault.lba, 16u);
    EXPECT_EQ(fault.blocks, 4u);
    EXPECT_EQ(device::skd::parse_fault("medium-error,lba=100")->blocks, 1u);
    EXPECT_EQ(device::skd::parse_fault("medium-error,blocks=9,lba=100")->blocks, 9u);
    EXPECT_EQ(device::skd::parse_fault("lost")->blocks, 0u) << "any command";
    const auto refusal = device::skd::parse_fault("lost@abc,lba=1").error().message();
    EXPECT_EQ(refusal, "fault 'lost@abc,lba=1': the command after '@' must be a number, as in @100");
}

TEST(SkdFaultText, TheDocumentExplainsEachKind) {
    std::ifstream file(std::filesystem::path(MQBLK_SOURCE_DIR) / "docs" / "uris.md");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto all = device::skd::fault_help();
    EXPECT_EQ(all.size(), 14u);
    for (const auto& [kind, keys, meaning, example] : all) {
        const std::string row = "| `" + std::string(kind) + "` | " + keys + " | " + meaning + " |\n";
        EXPECT_NE(text.find(row), std::string::npos) << "docs/uris.md lacks " << row;
    }
}

}  // namespace
}  // namespace mqblk::test
