// SPDX-License-Identifier: Apache-2.0
//
// The MegaRAID model misbehaving on demand, one test for each way; task management, which is how drivers meet it; and
// how faults are written.
#include "device/megaraid/fault.h"
#include "support/megaraid_host.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace mqblk::test {
namespace {

using namespace std::chrono_literals;
using device::megaraid::Fault;
using device::megaraid::FaultKind;
using mrw::MfiStatus;
using mrw::TaskResponse;
using mrw::TaskType;
namespace scsi = wire::scsi;

constexpr std::uint16_t handle_of(unsigned disk) {
    return static_cast<std::uint16_t>(device::megaraid::first_handle + disk);
}

class MegaraidFault : public testing::Test {
  protected:
    void SetUp() override { ASSERT_TRUE(host.start()); }
    MrDone read_volume(std::uint64_t lba, std::uint32_t blocks = 8, unsigned volume = 0) {
        return host.run_volume(scsi::build_read(lba, blocks), volume, blocks * 512);
    }
    void inject(const std::string& text) {
        auto fault = device::megaraid::parse_fault(text);
        ASSERT_TRUE(fault) << fault.error().message();
        host.controller().inject(*fault);
    }
    /// At the k-th command from here.
    void inject_at(std::uint64_t k, const std::string& kind, const std::string& keys = "") {
        inject(kind + "@" + std::to_string(host.controller().counters().requests + k) + keys);
    }
    void post_read(std::uint16_t smid, unsigned disk = 0) {
        host.prepare_fast(smid, scsi::build_read(0, 8), disk, host.ranges(4096u * smid, 4096));
        host.post(smid, mrw::RequestType::fp_io);
    }
    MrHost host;
};

TEST_F(MegaraidFault, MediumErrorAtItsBlocksOnly) {
    inject("medium-error,ld=0,lba=1000,blocks=8");
    EXPECT_EQ(read_volume(992).status, MfiStatus::ok);
    EXPECT_EQ(read_volume(1000, 8, 1).status, MfiStatus::ok) << "the other volume";
    for (int i = 0; i < 3; ++i) {
        const MrDone done = read_volume(996);
        EXPECT_EQ(done.status, MfiStatus::scsi_done_with_error);
        ASSERT_TRUE(done.sense);
        EXPECT_EQ(done.sense->code, scsi::asc::unrecovered_read_error);
        EXPECT_EQ(done.sense->information, 1000u);
    }
    host.controller().heal();
    EXPECT_EQ(read_volume(996).status, MfiStatus::ok);
}

TEST_F(MegaraidFault, AStatusOnce) {
    inject_at(2, "status", ",status=8");
    EXPECT_EQ(read_volume(0).status, MfiStatus::ok);
    EXPECT_EQ(read_volume(0).scsi_status, scsi::Status::busy);
    EXPECT_EQ(read_volume(0).status, MfiStatus::ok);
    inject("io-failed");
    EXPECT_EQ(read_volume(0).status, MfiStatus::scsi_io_failed);
    inject("io-failed,status=0x33");
    EXPECT_EQ(read_volume(0).status, MfiStatus::ld_offline);
}

TEST_F(MegaraidFault, OneSlowDisk) {
    inject("late@0x0,pd=1,by=5s");
    post_read(1, 1);
    post_read(2, 0);
    EXPECT_EQ(host.wait_next()->smid, 2);
    const Time before = host.world().now();
    EXPECT_EQ(host.wait_next()->smid, 1);
    EXPECT_GE(host.world().now() - before, 4s);
}

TEST_F(MegaraidFault, ACompletionTwice) {
    inject("twice");
    post_read(1);
    EXPECT_EQ(host.wait_next()->smid, 1);
    EXPECT_EQ(host.wait_next()->smid, 1);
    host.settle();
    EXPECT_FALSE(host.next());
}

TEST_F(MegaraidFault, ALostCompletionIsFoundByAnAbort) {
    inject("lost,pd=0");
    post_read(1);
    host.run_for(60s);
    EXPECT_FALSE(host.next());
    EXPECT_EQ(host.run_task(TaskType::query_task, handle_of(0), false, 1), TaskResponse::succeeded);
    EXPECT_EQ(host.run_task(TaskType::abort_task, handle_of(0), false, 1), TaskResponse::complete);
    EXPECT_EQ(host.others, std::vector<std::uint16_t>{1}) << "its own reply comes first";
    EXPECT_EQ(host.done(1).status, MfiStatus::scsi_io_failed);
    EXPECT_EQ(host.done(1).scsi_status, scsi::Status::task_aborted);
    EXPECT_EQ(host.run_task(TaskType::query_task, handle_of(0), false, 1), TaskResponse::complete);
    EXPECT_EQ(host.run_task(TaskType::abort_task, handle_of(0), false, 1), TaskResponse::complete);
    EXPECT_EQ(host.controller().in_flight(), 0u);
}

TEST_F(MegaraidFault, ATargetResetEndsAllOfItsCommands) {
    inject("late@0x0,by=100s");
    for (std::uint16_t smid = 1; smid <= 20; ++smid) post_read(smid, smid % 2);
    for (std::uint16_t smid = 21; smid <= 25; ++smid) {
        host.prepare(smid, scsi::build_read(0, 8), 1, host.ranges(0, 4096));
        host.post(smid, mrw::RequestType::ld_io);
    }
    EXPECT_EQ(host.run_task(TaskType::target_reset, handle_of(1), false), TaskResponse::complete);
    EXPECT_EQ(host.others.size(), 10u);
    for (const auto smid : host.others) EXPECT_EQ(smid % 2, 1);
    host.others.clear();
    EXPECT_EQ(host.run_task(TaskType::target_reset, 1, true), TaskResponse::complete);
    EXPECT_EQ(host.others.size(), 5u);
    EXPECT_EQ(host.controller().in_flight(), 10u);
    EXPECT_EQ(host.controller().counters().aborted, 15u);
}

TEST_F(MegaraidFault, ATaskInterruptsAfterWhatItEnded) {
    ASSERT_TRUE(host.function().enable_interrupts(pci::InterruptType::msix, 2));
    std::vector<unsigned> order;
    std::unique_ptr<pci::Interrupt> interrupts[2];
    for (const unsigned vector : {1u, 0u}) {
        auto made = host.function().interrupt(vector, host.reactor(), [&order, vector] { order.push_back(vector); });
        ASSERT_TRUE(made);
        interrupts[vector] = std::move(*made);
        interrupts[vector]->arm();
    }
    inject("late,pd=0,by=100s");
    host.prepare_fast(1, scsi::build_read(0, 8), 0, host.ranges(0, 4096));
    host.post(1, mrw::RequestType::fp_io, 1);
    EXPECT_EQ(host.run_task(TaskType::abort_task, handle_of(0), false, 1), TaskResponse::complete);
    host.run_for(1s);
    EXPECT_EQ(order, (std::vector<unsigned>{1, 0})) << "the task's reply is in queue 0";
}

TEST_F(MegaraidFault, TaskManagementThatCannotBe) {
    EXPECT_EQ(host.run_task(TaskType::abort_task, handle_of(200), false, 1), TaskResponse::invalid_frame);
    EXPECT_EQ(host.run_task(TaskType::abort_task, 7, true, 1), TaskResponse::invalid_frame);
    EXPECT_EQ(host.run_task(static_cast<TaskType>(99), handle_of(0), false), TaskResponse::not_supported);
    EXPECT_EQ(host.run_task(TaskType::abort_task, handle_of(0), false, 901), TaskResponse::complete) << "itself";
    EXPECT_EQ(host.run_task(TaskType::abort_task, handle_of(0), false, 60000), TaskResponse::complete);
}

TEST_F(MegaraidFault, AnAbortAnsweredWrongly) {
    inject("late,by=30s");
    post_read(1);
    inject("wrong-abort,response=5");
    EXPECT_EQ(host.run_task(TaskType::abort_task, handle_of(0), false, 1), TaskResponse::failed);
    inject("wrong-abort");
    EXPECT_EQ(host.run_task(TaskType::abort_task, handle_of(0), false, 1), TaskResponse::complete);
    EXPECT_TRUE(host.others.empty()) << "it goes on all the same";
    const auto late = host.wait_next();
    ASSERT_TRUE(late);
    EXPECT_EQ(late->smid, 1);
    EXPECT_EQ(host.done(1).status, MfiStatus::ok);
}

TEST_F(MegaraidFault, TheFirmwareFaultsAndAResetHelps) {
    for (std::uint16_t smid = 1; smid <= 3; ++smid) {
        if (smid == 1) inject_at(3, "firmware-fault");
        post_read(smid);
    }
    host.settle();
    EXPECT_EQ(host.state(), mrw::State::fault);
    EXPECT_NE(host.read(mrw::reg::scratch_pad) & mrw::state_reset_adapter, 0u);
    while (host.next()) continue;
    post_read(4);
    host.run_for(60s);
    EXPECT_FALSE(host.next()) << "nobody is there";
    host.write(mrw::reg::doorbell, mrw::doorbell_reset_flags);
    host.settle();
    EXPECT_EQ(host.state(), mrw::State::fault) << "that is not enough";
    EXPECT_EQ(host.read(mrw::reg::doorbell), 0u);
    host.diag_reset();
    ASSERT_TRUE(host.start());
    EXPECT_EQ(read_volume(0).status, MfiStatus::ok);
}

TEST_F(MegaraidFault, TheFirmwareFaultsForGood) {
    inject_at(1, "firmware-fault", ",for-good=1");
    post_read(1);
    host.settle();
    EXPECT_EQ(host.read(mrw::reg::scratch_pad), 0xf0000000u);
    host.diag_reset();
    host.run_for(200s);
    EXPECT_EQ(host.state(), mrw::State::fault);
    EXPECT_EQ(host.read(mrw::reg::host_diag), 0u) << "the reset itself ends";
}

TEST_F(MegaraidFault, FewerCommandsAfterAReset) {
    inject("fewer-commands,commands=100");
    EXPECT_EQ(host.commands(), 1007u);
    host.diag_reset();
    ASSERT_TRUE(host.start());
    EXPECT_EQ(host.commands(), 99u);
    inject("late@0x0,by=1s");
    for (std::uint16_t smid = 1; smid <= 100; ++smid) post_read(smid);
    host.settle();
    EXPECT_EQ(host.controller().in_flight(), 100u);
    post_read(101);
    host.settle();
    EXPECT_EQ(host.state(), mrw::State::fault) << "more than it takes";
}

TEST_F(MegaraidFault, ADcmdTakesTwoMinutes) {
    inject("slow-dcmd,opcode=0x01010000");
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::ctrl_event_get_info, 20), MfiStatus::ok);
    const Time before = host.world().now();
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::ctrl_get_info, 0x800), MfiStatus::ok);
    EXPECT_GE(host.world().now() - before, 120s);
    inject("refuse-dcmd,opcode=0x03010100");
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::ld_list_query, 268), MfiStatus::invalid_dcmd);
    EXPECT_EQ(host.run_dcmd(mrw::dcmd::ld_list_query, 268), MfiStatus::ok);
}

TEST_F(MegaraidFault, ADiskIsPulledAndPutBack) {
    inject_at(1, "pull", ",pd=1,for=10s");
    post_read(1, 1);
    ASSERT_TRUE(host.wait_next());
    EXPECT_EQ(host.done(1).status, MfiStatus::device_not_found);
    host.run_for(11s);
    post_read(1, 1);
    ASSERT_TRUE(host.wait_next());
    EXPECT_EQ(host.done(1).status, MfiStatus::ok);
}

TEST_F(MegaraidFault, StopIsTheEnd) {
    host.write(mrw::reg::doorbell, mrw::doorbell_stop_adapter);
    host.settle();
    EXPECT_EQ(host.state(), mrw::State::fault);
}

TEST(MegaraidFaultText, EveryKindAndItsKeys) {
    const auto parse = [](const char* text) {
        auto fault = device::megaraid::parse_fault(text);
        EXPECT_TRUE(fault) << (fault ? "" : fault.error().message());
        return fault.value_or(Fault{});
    };
    Fault fault = parse("medium-error@7x2,pd=3,lba=0x10,blocks=8");
    EXPECT_EQ(fault.command, 7u);
    EXPECT_EQ(fault.count, 2u);
    EXPECT_EQ(fault.disk, 3);
    EXPECT_EQ(fault.lba, 16u);
    EXPECT_EQ(parse("medium-error").count, 0u) << "for ever";
    EXPECT_EQ(parse("slow-dcmd").duration, 2min);
    EXPECT_EQ(parse("status,key=4,asc=0x4400").sense.code, 0x4400);
    EXPECT_TRUE(parse("firmware-fault,for-good=1").permanent);
    EXPECT_EQ(parse("wrong-abort,response=0x80").response, TaskResponse::queued_on_ioc);
}

TEST(MegaraidFaultText, RefusalsNameWhatIsAllowed) {
    const auto why = [](const char* text) {
        const auto fault = device::megaraid::parse_fault(text);
        return fault ? std::string() : fault.error().message();
    };
    EXPECT_NE(why("explode").find("there are medium-error, status, io-failed"), std::string::npos);
    EXPECT_NE(why("lost,by=1s").find("lost has no 'by'; it takes: pd, ld"), std::string::npos);
    EXPECT_NE(why("late,by=soon").find("by=soon"), std::string::npos);
    EXPECT_NE(why("late,by=9223372036s").find("must not be over a year"), std::string::npos);
    EXPECT_NE(why("late,pd=256").find("from 0 to 255"), std::string::npos);
    EXPECT_NE(why("late,pd=1").find("say how late"), std::string::npos);
    EXPECT_NE(why("medium-error,blocks=0").find("from 1 to"), std::string::npos);
    EXPECT_EQ(device::megaraid::parse_fault("medium-error,ld=0,lba=7")->blocks, 1u);
    EXPECT_NE(why("pull").find("say which disk"), std::string::npos);
    EXPECT_NE(why("fewer-commands").find("say how many"), std::string::npos);
    EXPECT_NE(why("lost@x").find("the command after '@'"), std::string::npos);
}

TEST(MegaraidFaultText, TheDocumentExplainsEachKindByAnExample) {
    std::ifstream file(std::filesystem::path(MQBLK_SOURCE_DIR) / "docs" / "uris.md");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto all = device::megaraid::fault_help();
    EXPECT_EQ(all.size(), static_cast<std::size_t>(FaultKind::fewer_commands) + 1);
    for (const auto& [kind, keys, meaning, example] : all) {
        const std::string row =
            "| `" + std::string(kind) + "` | " + keys + " | " + meaning + " | `" + std::string(example) + "` |\n";
        EXPECT_NE(text.find(row), std::string::npos) << "docs/uris.md lacks " << row;
        EXPECT_TRUE(example.starts_with(kind));
        EXPECT_TRUE(device::megaraid::parse_fault(example)) << example;
    }
}

TEST_F(MegaraidFault, IsOfADiskOrVolumeThatIsThere) {
    const auto check = [this](const char* text) {
        const auto good = host.controller().check(*device::megaraid::parse_fault(text));
        return good ? std::string() : good.error().message();
    };
    EXPECT_EQ(check("lost,pd=1"), "");
    EXPECT_EQ(check("lost,ld=1"), "");
    EXPECT_EQ(check("lost"), "");
    EXPECT_NE(check("lost,pd=200").find("fault with pd=200: there are pd=0, "), std::string::npos);
    EXPECT_NE(check("lost,ld=9").find("fault with ld=9"), std::string::npos);
    const unsigned member = host.controller().topology().volume(0)->first_disk;
    EXPECT_NE(check(("lost,pd=" + std::to_string(member)).c_str()), "") << "a volume's member is no disk of its own";
}

}  // namespace
}  // namespace mqblk::test
