// SPDX-License-Identifier: Apache-2.0
//
// What a hostile host puts before the MegaRAID model: descriptors, frames and lists that no driver would write. The
// answer is a status, or the firmware's fault; a reset brings it back. Among them what brought down other emulations of
// such controllers: lists of no elements, lists that loop through chains, sizes that wrap, frames that change while
// they are read.
#include "base/random.h"
#include "support/megaraid_host.h"

#include <functional>

namespace mqblk::test {
namespace {

using namespace std::chrono_literals;
using mrw::IeeeSge;
using mrw::MfiStatus;
namespace scsi = wire::scsi;

IeeeSge sge(std::uint64_t address, std::uint32_t bytes, unsigned flags = 0) {
    IeeeSge element;
    element.address = address;
    element.bytes = bytes;
    element.flags = static_cast<std::uint8_t>(flags);
    return element;
}

class MegaraidHostile : public testing::Test {
  protected:
    void SetUp() override { ASSERT_TRUE(host.start()); }

    /// A READ of 8 blocks whose list is `list`, with `chain` in its chain frame.
    MfiStatus run_list(const std::vector<IeeeSge>& list, const std::vector<IeeeSge>& chain = {}) {
        mrw::ScsiIoRequest& request = host.prepare(2, scsi::build_read(0, 8), 0, {});
        request.data_bytes = 4096;
        for (std::size_t i = 0; i < list.size(); ++i) request.sgl[i] = list[i];
        if (!chain.empty()) std::memcpy(host.chains().data(), chain.data(), chain.size() * sizeof(IeeeSge));
        return host.run_prepared(2, mrw::RequestType::ld_io).status;
    }
    std::uint64_t chain_at(std::size_t index = 0) { return host.chains().address(index * sizeof(IeeeSge)); }
    bool works() { return host.run_volume(scsi::build_read(0, 8), 0, 4096).status == MfiStatus::ok; }
    void expect_fault(const char* what) {
        host.settle();
        EXPECT_EQ(host.state(), mrw::State::fault) << what;
        EXPECT_FALSE(host.next()) << what;
        host.diag_reset();
        ASSERT_TRUE(host.start()) << what;
        EXPECT_TRUE(works()) << what;
    }
    MrHost host;
};

TEST_F(MegaraidHostile, ListsThatAreWrong) {
    const std::uint64_t data = host.data_address();
    EXPECT_EQ(run_list({}), MfiStatus::invalid_parameter) << "of no elements";
    EXPECT_EQ(run_list({sge(data, 0)}), MfiStatus::invalid_parameter);
    EXPECT_EQ(run_list({sge(data, 2048, mrw::sge_end_of_list)}), MfiStatus::invalid_parameter) << "too short";
    EXPECT_EQ(run_list({sge(data, 4096, 1)}), MfiStatus::invalid_parameter) << "another address space";
    EXPECT_EQ(run_list({sge(data, 0xffffffff)}), MfiStatus::ok) << "more than is wanted is no harm";
    std::vector<IeeeSge> eight(8, sge(data, 511));
    EXPECT_EQ(run_list(eight), MfiStatus::invalid_parameter);
    // Chains.
    EXPECT_EQ(run_list({sge(chain_at(), 16, 0x80)}, {sge(data, 4096, mrw::sge_end_of_list)}), MfiStatus::ok);
    EXPECT_EQ(run_list({sge(chain_at(), 16, 0x83)}, {sge(data, 4096)}), MfiStatus::ok) << "as Thunderbolt has it";
    EXPECT_EQ(run_list({sge(chain_at(), 16, 0x80)}, {sge(chain_at(), 16, 0x80)}), MfiStatus::invalid_parameter)
        << "a chain that names itself";
    EXPECT_EQ(run_list({sge(chain_at(), 0, 0x80)}, {sge(data, 4096)}), MfiStatus::invalid_parameter);
    EXPECT_EQ(run_list({sge(chain_at(), 24, 0x80)}, {sge(data, 4096)}), MfiStatus::invalid_parameter);
    EXPECT_EQ(run_list({sge(chain_at(), 0xfffffff0, 0x80)}), MfiStatus::invalid_parameter);
    EXPECT_EQ(run_list({sge(chain_at(), 4096 + 16, 0x80)}), MfiStatus::invalid_parameter);
    EXPECT_EQ(run_list({sge(0, 16, 0x80)}), MfiStatus::invalid_parameter);
    EXPECT_EQ(run_list({sge(~std::uint64_t{7}, 16, 0x80)}), MfiStatus::invalid_parameter) << "wraps";
    EXPECT_TRUE(works());
}

TEST_F(MegaraidHostile, DataWhereThereIsNoMemory) {
    for (const std::uint64_t address : {std::uint64_t{0}, ~std::uint64_t{0} - 4095,
                                        host.data_address() + MrHost::data_bytes - 2048, std::uint64_t{1} << 52}) {
        EXPECT_EQ(run_list({sge(address, 4096)}), MfiStatus::invalid_parameter);
        mrw::ScsiIoRequest& request = host.prepare(2, scsi::build_write(0, 8), 0, {});
        request.data_bytes = 4096;
        request.sgl[0] = sge(address, 4096);
        EXPECT_EQ(host.run_prepared(2).status, MfiStatus::invalid_parameter);
    }
    EXPECT_TRUE(works());
}

TEST_F(MegaraidHostile, LengthsThatDisagree) {
    mrw::ScsiIoRequest& request = host.prepare(2, scsi::build_read(0, 8), 0, host.ranges(0, 4096));
    for (const auto& [said, moved] : {std::pair{0xffffffffu, 4096u}, {1000u, 512u}, {511u, 0u}, {0u, 0u}}) {
        request.data_bytes = said;
        request.context.status = 0xff;
        EXPECT_EQ(host.run_prepared(2).status, MfiStatus::ok);
        EXPECT_EQ(host.done(2).bytes, moved);
    }
    EXPECT_EQ(host.run_volume(scsi::build_read(0, 65535), 0, 4096).scsi_status, scsi::Status::check_condition);
    request.io_flags = 31;
    request.data_bytes = 4096;
    EXPECT_EQ(host.run_prepared(2).status, MfiStatus::ok) << "a CDB is no longer than it is";
    request.io_flags = 0;
    EXPECT_EQ(host.run_prepared(2).status, MfiStatus::ok) << "TEST UNIT READY";
    EXPECT_TRUE(works());
}

TEST_F(MegaraidHostile, FunctionsThatThereAreNot) {
    for (const unsigned function : {0x02u, 0x03u, 0x7fu, 0xefu, 0xf2u, 0xffu}) {
        host.prepare(2, scsi::build_read(0, 8), 0, host.ranges(0, 4096)).function = static_cast<std::uint8_t>(function);
        EXPECT_EQ(host.run_prepared(2).status, MfiStatus::invalid_cmd);
    }
    EXPECT_TRUE(works());
}

TEST_F(MegaraidHostile, DescriptorsThatNameNothing) {
    host.post(0, mrw::RequestType::scsi_io);
    expect_fault("SMID 0");
    host.post(1009, mrw::RequestType::scsi_io);
    expect_fault("beyond the last");
    host.post(65535, mrw::RequestType::scsi_io);
    expect_fault("far beyond the last");
    host.bar().write64(mrw::reg::inbound_low_queue_port, mrw::mfa_descriptor(1ull << 50));
    expect_fault("an INIT frame nowhere");
    host.controller().inject(device::megaraid::parse_fault("late,by=1s").value());
    host.prepare(2, scsi::build_read(0, 8), 0, host.ranges(0, 4096));
    host.post(2, mrw::RequestType::ld_io);
    host.post(2, mrw::RequestType::ld_io);
    expect_fault("one frame twice");
    // A queue that there is not: the first one answers.
    host.prepare(2, scsi::build_read(0, 8), 0, host.ranges(0, 4096));
    host.post(2, mrw::RequestType::ld_io, 200);
    const auto reply = host.wait_next();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->queue, 0u);
}

TEST_F(MegaraidHostile, FramesWhereThereIsNoMemory) {
    host.diag_reset();
    ASSERT_TRUE(host.wait_state(mrw::State::ready));
    auto init = host.ioc_init();
    init.request_frames = 1ull << 50;
    ASSERT_EQ(host.post_init(init), MfiStatus::ok);
    host.post(1, mrw::RequestType::ld_io);
    expect_fault("request frames nowhere");
    host.diag_reset();
    ASSERT_TRUE(host.wait_state(mrw::State::ready));
    init = host.ioc_init();
    init.reply_queue = 1ull << 50;
    ASSERT_EQ(host.post_init(init), MfiStatus::ok);
    host.prepare(1, scsi::build_test_unit_ready(), 0, {});
    host.post(1, mrw::RequestType::ld_io);
    expect_fault("reply queues nowhere");
    host.diag_reset();
    ASSERT_TRUE(host.wait_state(mrw::State::ready));
    init = host.ioc_init();
    init.request_frames = ~std::uint64_t{255};
    ASSERT_EQ(host.post_init(init), MfiStatus::ok);
    host.post(1, mrw::RequestType::ld_io);
    expect_fault("request frames that wrap");
}

TEST_F(MegaraidHostile, AReplyQueueThatNobodyReads) {
    host.diag_reset();
    ASSERT_TRUE(host.wait_state(mrw::State::ready));
    auto init = host.ioc_init(1);
    init.reply_queue_depth = 16;
    ASSERT_EQ(host.post_init(init), MfiStatus::ok);
    for (unsigned i = 0; i < 16; ++i) {
        host.prepare(2, scsi::build_test_unit_ready(), 0, {});
        host.post(2, mrw::RequestType::ld_io);
        host.settle();
        EXPECT_EQ(host.state(), i < 15 ? mrw::State::operational : mrw::State::fault) << i;
    }
}

TEST_F(MegaraidHostile, ManagementFramesThatAreWrong) {
    mrw::ScsiIoRequest& request = host.frame(5);
    host.put_management(5, MrHost::dcmd(mrw::dcmd::ctrl_get_info, 2048, host.data_address(), {}));
    request.sgl[0].flags = 0;
    host.post(5, mrw::RequestType::scsi_io);
    expect_fault("no chain");
    host.put_management(5, MrHost::dcmd(mrw::dcmd::ctrl_get_info, 2048, host.data_address(), {}));
    request.sgl[0].address = 1ull << 50;
    host.post(5, mrw::RequestType::scsi_io);
    expect_fault("a frame nowhere");
    const std::function<void(mrw::DcmdFrame&)> wrongs[] = {
        [](mrw::DcmdFrame& f) { f.header.sges = 0; },
        [](mrw::DcmdFrame& f) { f.sgl[0] = f.sgl[7] = 0xff; },
        [](mrw::DcmdFrame& f) {
            f.sgl[8] = 0;
            f.sgl[9] = 0;
        },
        [](mrw::DcmdFrame& f) {
            f.header.flags = mrw::mfi_sgl64;
            f.sgl[7] = 0x80;
        },
    };
    for (const auto& spoil : wrongs) {
        auto frame = MrHost::dcmd(mrw::dcmd::ctrl_get_info, 2048, host.data_address(), {});
        spoil(frame);
        host.put_management(5, frame);
        host.post(5, mrw::RequestType::scsi_io);
        ASSERT_TRUE(host.wait_next());
        EXPECT_EQ(host.management_status(5), MfiStatus::invalid_parameter);
    }
    auto frame = MrHost::dcmd(mrw::dcmd::ctrl_get_info, 2048, host.data_address(), {});
    frame.header.sges = 255;
    frame.header.data_bytes = 0xffffffff;
    host.put_management(5, frame);
    host.post(5, mrw::RequestType::scsi_io);
    ASSERT_TRUE(host.wait_next());
    EXPECT_EQ(host.management_status(5), MfiStatus::ok) << "no more than there is to tell";
    EXPECT_TRUE(works());
}

TEST_F(MegaraidHostile, MoreAtOnceThanThePortTakes) {
    host.prepare(2, scsi::build_read(0, 8), 0, host.ranges(0, 4096));
    for (unsigned i = 0; i < 3000; ++i) host.post(2, mrw::RequestType::ld_io);
    expect_fault("the port is full");
}

TEST_F(MegaraidHostile, SenseWhereThereIsNoMemory) {
    mrw::ScsiIoRequest& request = host.prepare(2, scsi::build_read(1ull << 40, 8), 0, host.ranges(0, 4096));
    request.sense_low = 0xfffffff0;
    EXPECT_EQ(host.run_prepared(2).status, MfiStatus::scsi_done_with_error);
    request.sense_bytes = 0;
    EXPECT_EQ(host.run_prepared(2).status, MfiStatus::scsi_done_with_error);
    EXPECT_TRUE(works());
}

TEST_F(MegaraidHostile, FramesThatChangeWhileTheyAreRead) {
    // The host scribbles over frame and list while commands run; each ends once all the same.
    SeededRandom random(3);
    for (unsigned round = 0; round < 300; ++round) {
        for (std::uint16_t smid = 1; smid <= 16; ++smid) {
            host.prepare(smid, scsi::build_read(8 * smid, 8), smid % 2, host.ranges(4096u * smid, 4096));
            host.post(smid, mrw::RequestType::ld_io);
            auto* const raw = reinterpret_cast<std::byte*>(&host.frame(smid));
            for (int i = 0; i < 4; ++i) raw[random.below(256)] = static_cast<std::byte>(random.next());
        }
        host.settle();
        while (host.next()) continue;
        if (host.state() != mrw::State::operational) {
            host.diag_reset();
            ASSERT_TRUE(host.start());
        }
        ASSERT_LE(host.controller().in_flight(), 16u);
    }
    host.diag_reset();
    ASSERT_TRUE(host.start());
    EXPECT_TRUE(works());
    const auto& counters = host.controller().counters();
    EXPECT_EQ(counters.taken, counters.replies + counters.dropped);
}

TEST_F(MegaraidHostile, RegistersOfEveryWidth) {
    for (unsigned offset = 0; offset < 0x400; ++offset) {
        (void)host.bar().read8(offset);
        if (offset % 2 == 0) (void)host.bar().read16(offset);
        if (offset % 4 == 0) (void)host.bar().read32(offset);
        if (offset % 8 == 0) (void)host.bar().read64(offset);
        host.bar().write8(offset, 0xff);
        if (offset % 2 == 0) host.bar().write16(offset, 0xffff);
    }
    EXPECT_TRUE(works()) << "narrow writes do nothing";
    EXPECT_EQ(host.bar().read8(mrw::reg::scratch_pad + 3), 0xc4);
    EXPECT_EQ(host.bar().read16(mrw::reg::scratch_pad + 2), 0xc400);
}

}  // namespace
}  // namespace mqblk::test
