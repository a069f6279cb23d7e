// SPDX-License-Identifier: Apache-2.0
//
// emulate: a card on a socket, reached as another process reaches it, and refusals in one sentence.
#include "pci/vfio_user_client.h"
#include "program.h"
#include "wire/megaraid.h"
#include "wire/skd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace mqblk::test {
namespace {

using testing::HasSubstr;

class EmulateTest : public testing::Test {
  protected:
    std::vector<std::string> arguments(std::vector<std::string> more) const {
        more.insert(more.begin(), {"emulate", "skd", "--socket", socket_});
        return more;
    }
    void expect_refusal(const std::vector<std::string>& words, int code, const std::string& part) {
        const auto ended = run_program(words);
        EXPECT_EQ(ended.code, code) << ended.err;
        EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
        EXPECT_THAT(ended.err, HasSubstr(part));
        EXPECT_NE(::access(socket_.c_str(), F_OK), 0);
    }

    TemporaryDirectory dir_;
    std::string socket_ = dir_.file("skd.sock");
};

TEST_F(EmulateTest, ServesTheCardToOneClientAfterTheOther) {
    Running server(arguments({"ram://?size=8M"}));
    ASSERT_EQ(server.wait_for_line("ready"), "ready") << server.output();
    EXPECT_THAT(server.output(), HasSubstr("S1120 with ram://?size=8M, 8192KiB, at " + socket_));
    EXPECT_THAT(server.output(), HasSubstr("mqblk bench skd+vfio-user://" + socket_));
    for (int i = 0; i < 3; ++i) {
        auto function = pci::open_vfio_user(socket_);
        ASSERT_TRUE(function) << function.error().message();
        EXPECT_EQ(pci::read_id(**function).vendor, wire::skd::pci_vendor_id);
        EXPECT_EQ((*function)->interrupt_counts().msix, wire::skd::msix_vectors);
        const pci::Bar bar = (*function)->bar(wire::skd::register_bar).value();
        EXPECT_EQ(wire::skd::state_of(bar.read32(wire::skd::reg::status)), wire::skd::DriveState::init);
        EXPECT_EQ(bar.read32(wire::skd::reg::int_mask_host), wire::skd::mask_all)
            << "a client that left is a power cycle";
        bar.write32(wire::skd::reg::int_mask_host, 0);
        bar.write32(wire::skd::reg::msg_to_device, wire::skd::make_message(wire::skd::MessageType::fitfw_init));
        EXPECT_EQ(bar.read32(wire::skd::reg::msg_from_device), 0x01100000u);
    }
    EXPECT_EQ(server.end(SIGTERM), 0);
    EXPECT_NE(::access(socket_.c_str(), F_OK), 0) << "the socket is removed";
}

TEST_F(EmulateTest, SaysItInJsonAndEndsOnCtrlC) {
    Running server(arguments({"null://?size=1G", "--profile", "s1120", "--fault", "lost@7", "--json"}));
    const auto line = server.wait_for_line("{");
    const auto report = nlohmann::json::parse(line);
    EXPECT_EQ(report["ready"], true);
    EXPECT_EQ(report["socket"], socket_);
    EXPECT_EQ(report["uri"], "skd+vfio-user://" + socket_);
    EXPECT_EQ(report["bytes"], 1u << 30);
    EXPECT_EQ(server.end(SIGINT), 0);
}

TEST_F(EmulateTest, RefusesInOneSentence) {
    expect_refusal({"emulate", "skd", "ram://?size=8M"}, 2, "--socket");
    expect_refusal({"emulate", "--socket", socket_}, 2, "subcommand");
    expect_refusal(arguments({}), 2, "DISK-URI");
    expect_refusal(arguments({"ram://?size=8M", "more"}), 2, "'more' is one argument too many");
    expect_refusal({"emulate", "--socket", socket_, "nvme", "ram://"}, 2,
                   "there is no model called \"nvme\"; there are skd, megaraid");
    expect_refusal(arguments({"null://?size=3T"}), 2, "2 TiB at most");
    expect_refusal(arguments({"ram://?size=8M&ro=1"}), 2, "write-protected");
    expect_refusal(arguments({"ram://?size=8M", "--serial", ""}), 2, "must not be empty");
    expect_refusal(arguments({"ram://?size=8M", "--fault", "lost,lba=16384"}), 2, "lba=16384");
    expect_refusal(arguments({"ram://?size=8M", "--profile", "fast"}), 2, "profile=fast: must be none or s1120");
    expect_refusal(arguments({"ram://?size=8M", "--fault", "explode"}), 2, "no such kind");
    expect_refusal(arguments({"ram://?size=8M&block=4096"}), 2, "blocks are 4096 bytes");
    expect_refusal(arguments({"ram://?size=8M", "--serial", "STM\n1"}), 2,
                   "--serial: the serial number has characters");
    expect_refusal(arguments({"ram://?size=8M", "--serial", "STM0000123456"}), 2, "the card has room for 12");
    expect_refusal(arguments({"ram://?size=8M", "--fault", "busy,for=2000000h"}), 2, "must not be over a year");
    expect_refusal(arguments({"ram://?size=8"}), 2, "size=8");
    socket_ = dir_.file("none/skd.sock");
    expect_refusal(arguments({"ram://?size=8M"}), 1, "there is no directory " + dir_.file("none"));
}

TEST_F(EmulateTest, ServesAController) {
    Running server({"emulate", "megaraid", "--socket", socket_, "--jbod", "ram://?size=8M", "--jbod", "null://?size=1G",
                    "--ld", "ram://?size=8M", "--ld", "6x8=ram://?size=16M", "--queues", "12"});
    ASSERT_EQ(server.wait_for_line("ready"), "ready") << server.output();
    EXPECT_THAT(server.output(), HasSubstr("MegaRAID invader with 2 disks and 2 volumes, at " + socket_));
    EXPECT_THAT(server.output(), HasSubstr("disk 1: null://?size=1G, 1024MiB"));
    EXPECT_THAT(server.output(), HasSubstr("volume 1: RAID 6 of 8 disks, ram://?size=16M, "));
    for (int i = 0; i < 2; ++i) {
        auto function = pci::open_vfio_user(socket_);
        ASSERT_TRUE(function) << function.error().message();
        EXPECT_EQ(pci::read_id(**function).device, wire::megaraid::pci_device::invader);
        EXPECT_EQ((*function)->interrupt_counts().msix, 12u);
        const pci::Bar bar = (*function)->bar(1).value();
        EXPECT_EQ(wire::megaraid::state_of(bar.read32(wire::megaraid::reg::scratch_pad)), wire::megaraid::State::ready);
    }
    EXPECT_EQ(server.end(SIGTERM), 0);
}

TEST_F(EmulateTest, AControllerInJsonAndRefused) {
    Running server({"emulate", "megaraid", "--socket", socket_, "--ld", "5=null://?size=1G", "--json"});
    const auto report = nlohmann::json::parse(server.wait_for_line("{"));
    EXPECT_EQ(report["model"], "megaraid");
    EXPECT_EQ(report["uri"], "megaraid+vfio-user://" + socket_ + "/ld/0");
    EXPECT_EQ(report["volumes"][0]["raid"], "RAID 5 of 3 disks");
    EXPECT_EQ(report["volumes"][0]["bytes"], 1u << 30);
    EXPECT_EQ(server.end(SIGINT), 0);
    const auto refused = [this](std::vector<std::string> more, int code, const std::string& part) {
        more.insert(more.begin(), {"emulate", "megaraid", "--socket", socket_});
        expect_refusal(more, code, part);
    };
    refused({"--ld", "7=ram://?size=8M"}, 2, "level=7");
    refused({"--ld", "5x2=ram://?size=8M"}, 2, "5 of 3 to 32");
    refused({"--ld", "6"}, 2, "");
    refused({"--jbod", "ram://?size=8"}, 2, "size=8");
    refused({"--ld", "ram://?size=8M&block=4096"}, 2, "blocks are 4096 bytes");
    refused({"--fault", "explode"}, 2, "no such kind");
    refused({"--generation", "thunderbolt", "--queues", "17"}, 2, "17 reply queues");
}

}  // namespace
}  // namespace mqblk::test
