// SPDX-License-Identifier: Apache-2.0
//
// A SCSI disk with one initiator that gives it CDBs, one at a time or several.
#pragma once

#include "block/device_core.h"
#include "device/scsi/nexus.h"
#include "driver/ram/ram.h"
#include "memory/segments.h"
#include "reactor/simulated.h"
#include "unit/block_support.h"
#include "wire/scsi_cdb.h"
#include "wire/scsi_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mqblk::test {

namespace scsiw = wire::scsi;
using Bytes = std::vector<std::byte>;

/// One command with memory of its own.
struct ScsiExchange {
    device::scsi::Command command;
    device::scsi::Plan plan;
    Bytes data;
    Segment segment{nullptr, 0};
    bool refused = false, done = false;

    [[nodiscard]] std::uint8_t byte(std::size_t at) const { return std::to_integer<std::uint8_t>(data.at(at)); }
    template <class T>
    [[nodiscard]] T get(std::size_t offset = 0) const {
        T value;
        std::memcpy(&value, data.data() + offset, sizeof value);
        return value;
    }
};

class ScsiDisk {
  public:
    explicit ScsiDisk(std::shared_ptr<Device> made, device::scsi::UnitOptions options = {})
        : device(std::move(made)),
          unit(device::scsi::LogicalUnit::create(device, std::move(options)).value()),
          nexus(open()) {}
    static std::shared_ptr<Device> ram(std::uint64_t bytes = 16 << 20, unsigned block = 512) {
        driver::ram::Options options{.bytes = bytes, .disk = {}};
        options.disk.block = block;
        return driver::ram::open(options).value();
    }
    std::unique_ptr<device::scsi::Nexus> open() { return device::scsi::Nexus::open(unit, *reactor).value(); }

    /// Plans and executes. `out`: data for the disk; else as much room as planned, or `room` of it.
    ScsiExchange& start(const scsiw::Cdb& cdb, Bytes out = {}, std::optional<std::size_t> room = {}) {
        return start_on(*nexus, cdb, std::move(out), room);
    }
    ScsiExchange& start_on(device::scsi::Nexus& on, const scsiw::Cdb& cdb, Bytes out = {},
                           std::optional<std::size_t> room = {}) {
        ScsiExchange& exchange = exchanges.emplace_back();
        exchange.command.cdb = cdb;
        exchange.command.context = &exchange;
        exchange.command.done = [](device::scsi::Command& command) noexcept {
            auto& self = *static_cast<ScsiExchange*>(command.context);
            EXPECT_FALSE(self.done) << "a command ended twice";
            self.done = true;
        };
        exchange.plan = on.plan(exchange.command);
        exchange.refused = exchange.plan.refused;
        if (exchange.refused) {
            exchange.done = true;
            return exchange;
        }
        exchange.data = std::move(out);
        if (exchange.plan.direction == device::scsi::Direction::to_initiator)
            exchange.data.resize(room.value_or(exchange.plan.bytes));
        exchange.segment = {exchange.data.data(), std::min<std::size_t>(exchange.data.size(), exchange.plan.bytes)};
        if (exchange.segment.bytes > 0) exchange.command.data = {&exchange.segment, 1};
        on.execute(exchange.command);
        return exchange;
    }
    ScsiExchange& run(const scsiw::Cdb& cdb, Bytes out = {}, std::optional<std::size_t> room = {}) {
        ScsiExchange& exchange = start(cdb, std::move(out), room);
        finish(exchange);
        return exchange;
    }
    void finish(const ScsiExchange& exchange) {
        EXPECT_TRUE(world.run_until([&] { return exchange.done; }, std::chrono::seconds(60)) || exchange.done);
    }
    scsiw::Status status(const scsiw::Cdb& cdb, Bytes out = {}) { return run(cdb, std::move(out)).command.status; }

    /// Expects CHECK CONDITION with this sense; returns it.
    scsiw::Sense expect_sense(const scsiw::Cdb& cdb, scsiw::SenseKey key, std::uint16_t code, Bytes out = {}) {
        const ScsiExchange& exchange = run(cdb, std::move(out));
        EXPECT_EQ(exchange.command.status, scsiw::Status::check_condition);
        EXPECT_EQ(exchange.command.sense.key, key);
        EXPECT_EQ(exchange.command.sense.code, code) << std::hex << exchange.command.sense.code;
        return exchange.command.sense;
    }
    void expect_field(const scsiw::Cdb& cdb, std::uint16_t byte, Bytes out = {}) {
        const auto sense =
            expect_sense(cdb, scsiw::SenseKey::illegal_request, scsiw::asc::invalid_field_in_cdb, std::move(out));
        ASSERT_TRUE(sense.field);
        EXPECT_EQ(sense.field->byte, byte);
        EXPECT_TRUE(sense.field->in_cdb);
    }

    SimulatedWorld world{1};
    std::unique_ptr<Reactor> reactor = world.make_reactor();
    std::shared_ptr<Device> device;
    std::shared_ptr<device::scsi::LogicalUnit> unit;
    std::list<ScsiExchange> exchanges;
    std::unique_ptr<device::scsi::Nexus> nexus;
};

inline Bytes scsi_pattern(std::size_t bytes, std::uint64_t seed) {
    Bytes data(bytes);
    SeededRandom random(seed);
    for (auto& byte : data) byte = static_cast<std::byte>(random.next());
    return data;
}

}  // namespace mqblk::test
