// SPDX-License-Identifier: Apache-2.0
//
// A target that does not let a host connect: silent, ill, or refusing. The host says why, in its time, and no later.
#include "host_support.h"
#include "scripted_target.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <chrono>

namespace mqblk::test {
namespace {

namespace nvme = wire::nvme;
using namespace std::chrono_literals;
using Wire = ScriptedTarget::Wire;

/// Where no test should need the time that they allow.
driver::nvme::HostOptions patient_options() {
    auto options = quick_options();
    options.connect_timeout = 30s;
    options.ctrl_loss_tmo = driver::nvme::HostOptions{}.ctrl_loss_tmo;
    return options;
}

/// Answers nothing from the command on that the predicate picks.
struct Silence {
    const char* name;
    bool (*begins)(const nvme::Command&);
};
bool is_property(const nvme::Command& command, std::uint8_t type, std::uint32_t offset) {
    const auto property = std::bit_cast<nvme::PropertyCommand>(command);
    return command.opcode == nvme::admin_opcode::fabrics && property.type == type && property.offset == offset;
}
class SilentWhileConnecting : public testing::TestWithParam<Silence> {};
// However long a command may take later on: who waits for a connection waits for connect_timeout.
TEST_P(SilentWhileConnecting, IsNotWaitedFor) {
    std::atomic<bool> silent{false};
    ScriptedTarget target({.command = [&](Wire&, const nvme::Command& command, auto) {
        if (GetParam().begins(command)) silent = true;
        return silent.load();
    }});
    HostSide host;
    auto options = patient_options();
    options.connect_timeout = 500ms;
    options.admin_timeout = 600s;
    const auto before = std::chrono::steady_clock::now();
    const auto controller = host.connect(target.port(), ScriptedTarget::nqn, options);
    EXPECT_LT(std::chrono::steady_clock::now() - before, 60s);
    ASSERT_FALSE(controller);
    EXPECT_NE(controller.error().message().find("no answer to"), std::string::npos) << controller.error().message();
}
INSTANTIATE_TEST_SUITE_P(
    From, SilentWhileConnecting,
    testing::Values(
        Silence{"capabilities",
                [](const auto& c) { return is_property(c, nvme::fabrics_type::property_get, nvme::property::cap); }},
        Silence{"enable",
                [](const auto& c) { return is_property(c, nvme::fabrics_type::property_set, nvme::property::cc); }},
        Silence{"ready",
                [](const auto& c) { return is_property(c, nvme::fabrics_type::property_get, nvme::property::csts); }},
        Silence{"identify", [](const auto& c) { return c.opcode == nvme::admin_opcode::identify; }},
        Silence{"features", [](const auto& c) { return c.opcode == nvme::admin_opcode::set_features; }},
        Silence{"scan",
                [](const auto& c) {
                    return c.opcode == nvme::admin_opcode::identify && (c.cdw10 & 0xff) == nvme::cns::active_namespaces;
                }}),
    [](const auto& of) { return std::string(of.param.name); });

// All ones is what a register reads as when nothing is there; and a controller can be ready and fatally ill.
TEST(HostileConnect, AFatalStatusIsNotReady) {
    for (const std::uint32_t status : {0xffffffffu, 3u}) {
        ScriptedTarget target({.command = [&](Wire& wire, const nvme::Command& command, auto) {
            if (!is_property(command, nvme::fabrics_type::property_get, nvme::property::csts)) return false;
            wire.respond(command.command_id, 0, status);
            return true;
        }});
        HostSide host;
        const auto controller = host.connect(target.port(), ScriptedTarget::nqn, patient_options());
        ASSERT_FALSE(controller);
        EXPECT_NE(controller.error().message().find("fatal status"), std::string::npos) << controller.error().message();
    }
}

// What the target refuses is no fault of the command line, and the sentence names the status.
TEST(HostileConnect, RefusalsNameTheirStatus) {
    struct Refused {
        std::uint8_t opcode;
        const char* says;
    };
    for (const auto& [opcode, says] :
         {Refused{nvme::admin_opcode::set_features,
                  "Set Features failed with status 0x4002 (Invalid Field in Command)"},
          Refused{nvme::admin_opcode::identify,
                  "Identify Controller failed with status 0x4002 (Invalid Field in Command)"}}) {
        ScriptedTarget target({.command = [&](Wire& wire, const nvme::Command& command, auto) {
            if (wire.queue_id != 0 || command.opcode != opcode) return false;
            wire.respond(command.command_id, nvme::status::permanent(nvme::status::invalid_field));
            return true;
        }});
        HostSide host;
        const auto controller = host.connect(target.port(), ScriptedTarget::nqn, patient_options());
        ASSERT_FALSE(controller);
        EXPECT_NE(controller.error().message().find(says), std::string::npos) << controller.error().message();
        EXPECT_NE(controller.error().code(), Errc::invalid_argument);
    }
}

// A host that is no longer allowed is told so for good: its I/O does not wait for ctrl_loss_tmo.
TEST(HostileConnect, ADefiniteRefusalEndsReconnecting) {
    std::atomic<bool> allowed{true};
    ScriptedTarget target({.command = [&](Wire& wire, const nvme::Command& command, auto) {
        if (allowed) return false;
        const auto connect = std::bit_cast<nvme::ConnectCommand>(command);
        if (command.opcode == nvme::admin_opcode::fabrics && connect.type == nvme::fabrics_type::connect) {
            wire.respond(command.command_id, nvme::status::permanent(nvme::status::connect_invalid_host));
            return true;
        }
        wire.send(std::array<std::byte, 24>{}.data(), 24);  // nothing that the protocol knows: the connection ends
        return true;
    }});
    HostSide host;
    auto options = patient_options();
    options.ctrl_loss_tmo = 3600s;
    const auto controller = host.connect(target.port(), ScriptedTarget::nqn, options);
    ASSERT_TRUE(controller) << controller.error().message();
    {
        const OpenNamespace ns(**controller);
        std::vector<std::byte> memory(4096);
        ASSERT_EQ(run_bio(*ns.channel, Op::read, 0, memory), Status::ok);
        allowed = false;
        EXPECT_EQ(run_bio(*ns.channel, Op::read, 0, memory), Status::transport);
        EXPECT_EQ((*controller)->state(), driver::nvme::ControllerState::dead);
    }
    host.shut_down(**controller);
}

/// Connecting to a target whose controller is described wrongly.
struct BadController {
    const char* name;
    std::function<void(nvme::IdentifyController&)> spoil;
    const char* says;
};
class HostileController : public testing::TestWithParam<BadController> {};
TEST_P(HostileController, IsRefusedWithASentence) {
    ScriptedTarget target({.controller = GetParam().spoil});
    HostSide host;
    auto options = patient_options();
    options.keep_alive = 5s;
    const auto controller = host.connect(target.port(), ScriptedTarget::nqn, options);
    ASSERT_FALSE(controller);
    EXPECT_NE(controller.error().message().find(GetParam().says), std::string::npos) << controller.error().message();
}
INSTANTIATE_TEST_SUITE_P(
    Identify, HostileController,
    testing::Values(BadController{"another_id", [](auto& c) { c.cntlid = 2; }, "identifier differs"},
                    BadController{"no_keep_alive", [](auto& c) { c.kas = 0; }, "no keep-alive"},
                    BadController{"in_capsule_offset", [](auto& c) { c.icdoff = 1; }, "at an offset"},
                    BadController{"no_sgls", [](auto& c) { c.sgls = 0; }, "SGL"},
                    BadController{"small_capsules", [](auto& c) { c.ioccsz = 3; }, "capsules"},
                    BadController{"entry_size", [](auto& c) { c.sqes = 0x77; }, "64 bytes"}),
    [](const auto& of) { return std::string(of.param.name); });

TEST(HostileConnect, WrongNqnIsExplained) {
    ScriptedTarget target({});
    HostSide host;
    const auto controller = host.connect(target.port(), "nqn.2026-01.test:other", patient_options());
    ASSERT_FALSE(controller);
    EXPECT_EQ(controller.error().code(), Errc::not_found);
    const std::string where = "127.0.0.1:" + std::to_string(target.port());
    EXPECT_NE(controller.error().message().find(where + " has no subsystem 'nqn.2026-01.test:other'; 'mqblk discover " +
                                                where + "'"),
              std::string::npos)
        << controller.error().message();
}

}  // namespace
}  // namespace mqblk::test
