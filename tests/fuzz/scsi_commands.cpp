// SPDX-License-Identifier: Apache-2.0
//
// A hostile SCSI initiator: any CDBs, with any data, several at once by two nexuses of one disk with reservations.
// Every command ends once; nothing crashes, hangs or leaks. Each step is a byte {nexus, how many bytes of data}, 16 of
// CDB and the data. And the file of reservations, decoded.
#include "base/log.h"
#include "base/steady_clock.h"
#include "device/scsi/nexus.h"
#include "device/scsi/reservation_file.h"
#include "driver/ram/ram.h"
#include "reactor/uring_reactor.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <list>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace {

using namespace mqblk;
namespace scsi = mqblk::device::scsi;

constexpr std::size_t most_steps = 64;
constexpr std::size_t most_bytes = 64 * 1024;

struct Exchange {
    scsi::Command command;
    std::vector<std::byte> data;
    Segment segment{nullptr, 0};
    bool done = false;
};

void ended(scsi::Command& command) noexcept {
    auto& exchange = *static_cast<Exchange*>(command.context);
    if (exchange.done || command.transferred > exchange.data.size()) std::abort();
    exchange.done = true;
}

struct World {
    SteadyClock clock;
    SeededRandom random{1};
    std::unique_ptr<Reactor> reactor = std::move(*make_uring_reactor(clock, random, {}));
};

std::shared_ptr<scsi::LogicalUnit> make_unit() {
    driver::ram::Options ram{.bytes = 1 << 20, .disk = {}};
    scsi::UnitOptions options;
    options.reservations = true;
    return *scsi::LogicalUnit::create(*driver::ram::open(ram), options);
}

void run_steps(World& world, std::span<const std::uint8_t> input) {
    const auto unit = make_unit();
    std::array<std::unique_ptr<scsi::Nexus>, 2> nexuses;
    for (std::uint8_t i = 0; i < nexuses.size(); ++i) {
        std::array<std::uint8_t, 16> port{};
        port[15] = i;
        nexuses[i] = *scsi::Nexus::open(unit, *world.reactor, unit->initiator(wire::scsi::srp_transport_id(port)));
    }
    std::list<Exchange> exchanges;
    for (std::size_t step = 0; step < most_steps && input.size() >= 17; ++step) {
        scsi::Nexus& nexus = *nexuses[input[0] & 1];
        const std::size_t given = std::min<std::size_t>(input[0] >> 1, input.size() - 17);
        Exchange& exchange = exchanges.emplace_back();
        std::copy_n(input.begin() + 1, 16, exchange.command.cdb.begin());
        exchange.command.context = &exchange;
        exchange.command.done = &ended;
        const scsi::Plan plan = nexus.plan(exchange.command);
        std::size_t bytes = std::min<std::size_t>(plan.bytes, most_bytes);
        if (bytes != plan.bytes) bytes -= bytes % plan.granule;
        if (!plan.refused) {
            exchange.data.resize(bytes);
            std::ranges::copy(std::as_bytes(input.subspan(17, std::min(given, bytes))), exchange.data.begin());
            exchange.segment = {exchange.data.data(), bytes};
            if (bytes > 0) exchange.command.data = {&exchange.segment, 1};
            nexus.execute(exchange.command);
            if ((input[0] & 0x80) != 0) nexus.cancel(exchange.command);
        }
        std::array<std::uint8_t, wire::scsi::descriptor_sense_bytes> sense;
        if (plan.refused) static_cast<void>(nexus.build_sense(exchange.command, sense));
        input = input.subspan(17 + given);
        if ((step & 3) != 0) continue;
        world.reactor->run_once(Reactor::Sleep::no);
        for (const auto& each : nexuses) each->poll();
    }
    for (unsigned passes = 0; nexuses[0]->outstanding() + nexuses[1]->outstanding() > 0; ++passes) {
        if (passes > 100000) std::abort();  // a command that does not end
        world.reactor->run_once(Reactor::Sleep::no);
        for (const auto& each : nexuses) each->poll();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    static World world;
    static const bool quiet = (set_log_level(LogLevel::off), true);
    static_cast<void>(quiet);
    if (size == 0) return 0;
    if (bytes[0] == '{') {
        const auto state = scsi::parse_reservations({reinterpret_cast<const char*>(bytes), size});
        if (state && scsi::parse_reservations(scsi::format_reservations(*state)).value() != *state) std::abort();
        return 0;
    }
    run_steps(world, {bytes, size});
    return 0;
}
