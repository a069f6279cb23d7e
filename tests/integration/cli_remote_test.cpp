// SPDX-License-Identifier: Apache-2.0
//
// Commands of the program on a target that is within its rights and yet unlike ours.
#include "program.h"
#include "scripted_target.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace mqblk::test {
namespace {

namespace nvme = wire::nvme;

TEST(CliRemote, ZeroWritesZeroesWhereTheTargetRefusesTheOperationItOffers) {
    ScriptedTarget::Script script;
    script.controller = [](nvme::IdentifyController& page) { page.oncs = nvme::oncs::write_zeroes; };
    script.command = [](ScriptedTarget::Wire& wire, const nvme::Command& command, std::span<const std::byte>) {
        if (wire.queue_id == 0 || command.opcode != nvme::io_opcode::write_zeroes) return false;
        wire.respond(command.command_id, nvme::status::command_size_limit_exceeded | nvme::status::do_not_retry);
        return true;
    };
    ScriptedTarget target(script);
    target.fill_memory(std::byte{0xff});
    const std::string uri = "nvme+tcp://127.0.0.1:" + std::to_string(target.port()) + "/" + ScriptedTarget::nqn + "/1";
    const auto ended = run_program({"zero", uri, "--offset", "64k", "--length", "256k"});
    EXPECT_EQ(ended.code, 0) << ended.err;
    const auto memory = target.memory();
    for (std::size_t i = 0; i < memory.size(); ++i) {
        const bool cleared = i >= 64 * 1024 && i < (64 + 256) * 1024;
        ASSERT_EQ(memory[i], cleared ? std::byte{0} : std::byte{0xff}) << i;
    }
}

}  // namespace
}  // namespace mqblk::test
