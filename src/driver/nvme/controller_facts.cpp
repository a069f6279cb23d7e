// SPDX-License-Identifier: Apache-2.0
#include "driver/nvme/controller_facts.h"

#include "wire/nvme_fabrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace mqblk::driver::nvme {

using wire::nvme::IdentifyController;

namespace {

constexpr std::uint32_t command_bytes = 64;
constexpr std::uint32_t most_in_capsule_bytes = 1u << 20;

/// 2^n of the controller's smallest memory pages; 0 where that exceeds what a command can ask for anyway.
std::uint64_t pages_to_bytes(std::uint8_t exponent, std::uint64_t capabilities) {
    const unsigned shift = exponent + wire::nvme::cap::min_page_shift_of(capabilities);
    return exponent == 0 || shift > 31 ? 0 : std::uint64_t{1} << shift;
}

/// Printable characters only: the text goes to terminals and logs.
template <std::size_t Bytes>
std::string clean_text(const std::array<char, Bytes>& field) {
    std::string text(wire::nvme::text_of(field));
    std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
    const auto first = text.find_first_not_of(' ');
    return first == std::string::npos ? std::string() : text.substr(first);
}

Duration retry_delay(std::uint16_t hundreds_of_ms) {
    return std::chrono::milliseconds(100) * hundreds_of_ms;
}

const char* wrong_with(const IdentifyController& page, const ControllerExpectation& expected) {
    if (page.cntlid != expected.controller_id) return "its identifier differs from the one that Connect granted";
    if (page.cntrltype > wire::nvme::controller_type::io) return "it is not an I/O controller";
    if (expected.keep_alive && page.kas == 0) return "it offers no keep-alive";
    if ((page.sqes & 0xf) > 6 || (page.sqes >> 4) < 6) return "its submission queue entries are not of 64 bytes";
    if ((page.cqes & 0xf) > 4 || (page.cqes >> 4) < 4) return "its completion queue entries are not of 16 bytes";
    if (!expected.capsules) return nullptr;
    if (page.icdoff != 0) return "it wants in-capsule data at an offset";
    if ((page.sgls & 3) == 0) return "it does not support SGLs";
    if (page.ioccsz < command_bytes / 16) return "its I/O capsules cannot hold a command";
    if (page.iorcsz < 1) return "its I/O capsules cannot hold a completion";
    return nullptr;
}

}  // namespace

Result<ControllerFacts> read_controller(const IdentifyController& page, const ControllerExpectation& expected) {
    if (const char* const wrong = wrong_with(page, expected)) {
        return fail(Errc::protocol, fmt::format("the controller cannot be used: {} (Identify Controller)", wrong));
    }
    ControllerFacts facts;
    facts.model = clean_text(page.mn);
    facts.serial = clean_text(page.sn);
    facts.firmware = clean_text(page.fr);
    facts.subsystem_nqn = clean_text(page.subnqn);
    facts.controller_id = page.cntlid;
    facts.version = expected.version;
    facts.max_transfer_bytes = pages_to_bytes(page.mdts, expected.capabilities);
    const std::uint64_t capsule_bytes = std::uint64_t{page.ioccsz} * 16;
    const bool in_capsule = (page.sgls & wire::nvme::sgls_in_capsule_offset) != 0 && capsule_bytes > command_bytes;
    facts.in_capsule_bytes =
        in_capsule
            ? static_cast<std::uint32_t>(std::min<std::uint64_t>(capsule_bytes - command_bytes, most_in_capsule_bytes))
            : 0;
    facts.max_commands = page.maxcmd;
    facts.max_namespaces = page.nn;
    facts.keep_alive_granularity_ms = page.kas * 100u;
    facts.traffic_based_keep_alive = (page.ctratt & wire::nvme::ctratt::traffic_based_keep_alive) != 0;
    facts.quiesce_ms = page.cqt;
    facts.instance = {page.cntlid, page.ciu, page.cirn};
    facts.cross_resets = page.ccrl;
    facts.retry_delays = {retry_delay(page.crdt1), retry_delay(page.crdt2), retry_delay(page.crdt3)};
    facts.shutdown_us = page.rtd3e;
    facts.events = page.oaes;
    facts.write_cache = (page.vwc & wire::nvme::vwc_present) != 0;
    facts.dataset_management = (page.oncs & wire::nvme::oncs::dataset_management) != 0;
    facts.write_zeroes = (page.oncs & wire::nvme::oncs::write_zeroes) != 0;
    facts.write_zeroes_bytes = facts.max_transfer_bytes;  // until CNS 06h says better
    return facts;
}

void read_nvm_limits(const wire::nvme::IdentifyControllerNvm& page, std::uint64_t capabilities,
                     ControllerFacts& facts) {
    facts.write_zeroes_bytes = pages_to_bytes(page.wzsl, capabilities);
    std::uint64_t blocks = page.dmrsl;
    if (page.dmsl != 0) blocks = blocks == 0 ? page.dmsl.value() : std::min(blocks, page.dmsl.value());
    facts.discard_blocks = blocks;
}

std::vector<std::pair<std::string, std::string>> describe(const ControllerFacts& facts) {
    const auto bytes = [](std::uint64_t value) {
        return value == 0 ? std::string("no limit") : fmt::format("{}", value);
    };
    const auto yes_no = [](bool value) { return std::string(value ? "yes" : "no"); };
    return {
        {"model", facts.model},
        {"serial", facts.serial},
        {"firmware", facts.firmware},
        {"version", fmt::format("{}.{}.{}", facts.version >> 16, facts.version >> 8 & 0xff, facts.version & 0xff)},
        {"controller_id", fmt::format("{}", facts.controller_id)},
        {"max_transfer_bytes", bytes(facts.max_transfer_bytes)},
        {"in_capsule_bytes", fmt::format("{}", facts.in_capsule_bytes)},
        {"max_commands", facts.max_commands == 0 ? "not stated" : fmt::format("{}", facts.max_commands)},
        {"max_namespaces", fmt::format("{}", facts.max_namespaces)},
        {"keep_alive_granularity_ms", fmt::format("{}", facts.keep_alive_granularity_ms)},
        {"cross_controller_reset", yes_no(facts.cross_resets > 0 && facts.instance.random != 0)},
        {"volatile_write_cache", yes_no(facts.write_cache)},
        {"dataset_management", yes_no(facts.dataset_management)},
        {"write_zeroes", yes_no(facts.write_zeroes)},
    };
}

}  // namespace mqblk::driver::nvme
