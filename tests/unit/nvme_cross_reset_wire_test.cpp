// SPDX-License-Identifier: Apache-2.0
//
// Cross-Controller Reset as it travels, byte for byte, and what a host makes of the answers: the log page, the time
// that a controller may live on.
#include "driver/nvme/controller_fence.h"
#include "wire/nvme_cross_reset.h"
#include "wire/nvme_identify.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>

namespace mqblk::wire::nvme {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

template <class T>
unsigned byte_of(const T& value, std::size_t offset) {
    return reinterpret_cast<const unsigned char*>(&value)[offset];
}

TEST(CrossResetWire, Command) {
    Command command;
    command.opcode = admin_opcode::cross_controller_reset;
    const ControllerInstance instance{0x1234, 0x56, 0x0807060504030201};
    set_impacted_controller(command, instance);
    const std::array<unsigned char, 24> dwords_10_to_15{0x34, 0x12, 0x56, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
    EXPECT_EQ(byte_of(command, 0), 0x38u);
    EXPECT_EQ(std::memcmp(reinterpret_cast<const char*>(&command) + 40, dwords_10_to_15.data(), 24), 0);
    EXPECT_EQ(impacted_controller(command), instance);
    command.cdw10 = 0xff561234;  // reserved bits are not looked at
    EXPECT_EQ(impacted_controller(command), instance);
}

TEST(CrossResetWire, IdentifyController) {
    const auto page = std::make_unique<IdentifyController>();
    page->ciu = 0xaa;
    page->cirn = 0x0807060504030201;
    page->cqt = 0x0403;
    page->ccrl = 0xbb;
    EXPECT_EQ(byte_of(*page, 135), 0xaau);
    for (unsigned i = 0; i < 8; ++i) EXPECT_EQ(byte_of(*page, 136 + i), i + 1);
    EXPECT_EQ(byte_of(*page, 386), 3u);
    EXPECT_EQ(byte_of(*page, 387), 4u);
    EXPECT_EQ(byte_of(*page, 1807), 0xbbu);
}

TEST(CrossResetWire, LogPage) {
    using driver::nvme::cross_reset_state;
    CrossResetLogHeader header;
    header.entries = 3;
    const auto entry = [](std::uint16_t id, std::uint8_t status) {
        CrossResetLogEntry made;
        made.controller_id = id;
        made.uniquifier = 1;
        made.status = status;
        return made;
    };
    const std::array entries{entry(5, cross_reset_status::failed), entry(6, cross_reset_status::success),
                             entry(5, cross_reset_status::in_progress), entry(7, cross_reset_status::success)};
    EXPECT_EQ(byte_of(entries, 14), cross_reset_status::success);
    EXPECT_EQ(cross_reset_state(header, entries, {5, 1, 9}), cross_reset_status::in_progress);
    EXPECT_EQ(cross_reset_state(header, entries, {6, 1, 9}), cross_reset_status::success);
    EXPECT_EQ(cross_reset_state(header, entries, {6, 2, 9}), std::nullopt);
    EXPECT_EQ(cross_reset_state(header, entries, {7, 1, 9}), std::nullopt) << "beyond what the header counts";
    header.entries = 0xffff;
    EXPECT_EQ(cross_reset_state(header, entries, {7, 1, 9}), cross_reset_status::success) << "and no further than read";
}

TEST(CrossResetWire, HowLongAControllerMayLiveOn) {
    using driver::nvme::longest_afterlife;
    driver::nvme::ControllerFacts facts;
    facts.keep_alive_granularity_ms = 1000;
    EXPECT_EQ(longest_afterlife(seconds(5), facts), seconds(15))
        << "two time-outs and, nothing stated, one to come to rest";
    facts.quiesce_ms = 700;
    EXPECT_EQ(longest_afterlife(seconds(5), facts), milliseconds(10'700));
    EXPECT_EQ(longest_afterlife(milliseconds(4001), facts), milliseconds(10'700)) << "in the target's units";
    facts.traffic_based_keep_alive = true;
    EXPECT_EQ(longest_afterlife(seconds(5), facts), milliseconds(15'700));
    facts.keep_alive_granularity_ms = 0;
    EXPECT_EQ(longest_afterlife(seconds(5), facts), milliseconds(15'700));
    EXPECT_EQ(longest_afterlife(seconds(0), facts), seconds(30));
}

}  // namespace
}  // namespace mqblk::wire::nvme
