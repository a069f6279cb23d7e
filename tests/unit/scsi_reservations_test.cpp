// SPDX-License-Identifier: Apache-2.0
//
// Persistent reservations: who may do what under each type, what each service action does to the others, and what is
// left after a restart.
#include "wire/scsi_reservations.h"
#include "device/scsi/reservation_file.h"
#include "unit/scsi_disk_harness.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace mqblk::test {
namespace {

using device::scsi::Nexus;
using scsiw::ReserveOut;
using ScsiStatus = scsiw::Status;
namespace asc = scsiw::asc;

scsiw::TransportId port(std::uint8_t number) {
    std::array<std::uint8_t, 16> id{};
    id[15] = number;
    return scsiw::srp_transport_id(id);
}

Bytes parameters(std::uint64_t key, std::uint64_t service_key, std::uint8_t flags = 0) {
    const scsiw::ReserveOutParameters list{.key = key, .service_key = service_key, .flags = flags};
    Bytes bytes(sizeof list);
    std::memcpy(bytes.data(), &list, sizeof list);
    return bytes;
}

/// A directory that goes with the test.
struct ReservationDirectory {
    ReservationDirectory() {
        char name[] = "/tmp/mqblk-reservations-XXXXXX";
        path = ::mkdtemp(name);
    }
    ~ReservationDirectory() { std::filesystem::remove_all(path); }
    [[nodiscard]] std::string file() const { return path + "/lun0.json"; }
    std::string path;
};

device::scsi::UnitOptions reserving(std::string file = {}) {
    device::scsi::UnitOptions options;
    options.reservations = true;
    options.reservation_file = std::move(file);
    return options;
}

/// Initiators 1, 2 and 3 of one disk, their first unit attention taken.
class SharedDisk : public ScsiDisk {
  public:
    explicit SharedDisk(std::string file = {}) : ScsiDisk(ram(), reserving(std::move(file))) {
        for (const std::uint8_t number : {1, 2, 3}) {
            by_port[number] = Nexus::open(unit, *reactor, unit->initiator(port(number))).value();
            EXPECT_EQ(attention(number), asc::power_on_or_reset);
        }
    }
    ScsiStatus run_as(std::uint8_t number, const scsiw::Cdb& cdb, Bytes out = {}) {
        ScsiExchange& exchange = start_on(*by_port.at(number), cdb, std::move(out));
        finish(exchange);
        last = &exchange;
        return exchange.command.status;
    }
    ScsiStatus reserve(std::uint8_t number, ReserveOut action, std::uint64_t key, std::uint64_t service_key = 0,
                       std::uint8_t type = 0, std::uint8_t flags = 0) {
        return run_as(number, scsiw::build_persistent_reserve_out(static_cast<std::uint8_t>(action), type),
                      parameters(key, service_key, flags));
    }
    /// The pending unit attention, or 0.
    std::uint16_t attention(std::uint8_t number) {
        return run_as(number, scsiw::build_test_unit_ready()) == ScsiStatus::good ? std::uint16_t{0}
                                                                                  : last->command.sense.code;
    }
    [[nodiscard]] std::vector<std::uint64_t> keys(std::uint8_t number = 1) {
        EXPECT_EQ(run_as(number, scsiw::build_persistent_reserve_in(0, 512)), ScsiStatus::good);
        std::vector<std::uint64_t> result;
        const auto header = last->get<scsiw::ReserveInHeader>();
        EXPECT_EQ(last->command.transferred, header.bytes + sizeof header);
        for (std::size_t at = 0; at < header.bytes; at += 8) result.push_back(last->get<be64>(sizeof header + at));
        return result;
    }
    [[nodiscard]] std::uint32_t generation() {
        static_cast<void>(keys());
        return last->get<scsiw::ReserveInHeader>().generation;
    }
    /// Type, and key of the holder.
    [[nodiscard]] std::pair<unsigned, std::uint64_t> reservation(std::uint8_t number = 1) {
        EXPECT_EQ(run_as(number, scsiw::build_persistent_reserve_in(1, 64)), ScsiStatus::good);
        if (last->get<scsiw::ReserveInHeader>().bytes == 0u) return {0, 0};
        const auto held = last->get<scsiw::ReservationDescriptor>(8);
        return {held.scope_type, held.key};
    }

    std::map<std::uint8_t, std::unique_ptr<Nexus>> by_port;
    ScsiExchange* last = nullptr;
};

TEST(ScsiReservations, RegisteringAndKeys) {
    SharedDisk disk;
    EXPECT_EQ(disk.reserve(1, ReserveOut::register_key, 5, 1), ScsiStatus::reservation_conflict);  // it has no key
    EXPECT_EQ(disk.reserve(1, ReserveOut::register_key, 0, 1), ScsiStatus::good);
    EXPECT_EQ(disk.reserve(2, ReserveOut::register_and_ignore, 99, 2), ScsiStatus::good);
    EXPECT_EQ(disk.keys(), (std::vector<std::uint64_t>{1, 2}));
    EXPECT_EQ(disk.generation(), 2u);
    EXPECT_EQ(disk.reserve(1, ReserveOut::register_key, 2, 7), ScsiStatus::reservation_conflict);
    EXPECT_EQ(disk.reserve(1, ReserveOut::register_key, 1, 7), ScsiStatus::good);
    EXPECT_EQ(disk.reserve(2, ReserveOut::register_key, 2, 0), ScsiStatus::good);
    EXPECT_EQ(disk.keys(), (std::vector<std::uint64_t>{7}));
    EXPECT_EQ(disk.generation(), 4u);
    // Without a registration nothing else may be done.
    for (const auto action : {ReserveOut::reserve, ReserveOut::release, ReserveOut::clear, ReserveOut::preempt})
        EXPECT_EQ(disk.reserve(2, action, 2, 7, 1), ScsiStatus::reservation_conflict);
}

TEST(ScsiReservations, WhoMayDoWhat) {
    struct Case {
        std::uint8_t type;
        bool registrant_reads, registrant_writes, stranger_reads, stranger_writes;
    };
    for (const Case& c : {Case{1, true, false, true, false},
                          {3, false, false, false, false},
                          {5, true, true, true, false},
                          {6, true, true, false, false},
                          {7, true, true, true, false},
                          {8, true, true, false, false}}) {
        SharedDisk disk;
        ASSERT_EQ(disk.reserve(1, ReserveOut::register_key, 0, 1), ScsiStatus::good);
        ASSERT_EQ(disk.reserve(2, ReserveOut::register_key, 0, 2), ScsiStatus::good);
        ASSERT_EQ(disk.reserve(1, ReserveOut::reserve, 1, 0, c.type), ScsiStatus::good);
        const auto may = [&](std::uint8_t number, const scsiw::Cdb& cdb, std::size_t bytes = 0) {
            return disk.run_as(number, cdb, Bytes(bytes)) == ScsiStatus::good;
        };
        const auto read = scsiw::build_read(0, 1), write = scsiw::build_write(0, 1);
        EXPECT_TRUE(may(1, read) && may(1, write, 512));
        EXPECT_EQ(may(2, read), c.registrant_reads) << int{c.type};
        EXPECT_EQ(may(2, write, 512), c.registrant_writes) << int{c.type};
        EXPECT_EQ(may(3, read), c.stranger_reads) << int{c.type};
        EXPECT_EQ(may(3, write, 512), c.stranger_writes) << int{c.type};
        EXPECT_EQ(may(3, scsiw::build_write_same(0, 1, false), 512), c.stranger_writes);
        EXPECT_EQ(may(3, scsiw::build_compare_and_write(0, 1), 1024), c.stranger_writes);
        EXPECT_EQ(may(3, scsiw::build_synchronize_cache()), c.stranger_writes);
        EXPECT_EQ(may(3, scsiw::build_mode_sense_6(0x3f, 64)), c.stranger_reads);
        for (const auto& always :
             {scsiw::build_inquiry(36), scsiw::build_test_unit_ready(), scsiw::build_read_capacity_10(),
              scsiw::build_read_capacity_16(32), scsiw::build_report_luns(64), scsiw::build_request_sense(18),
              scsiw::build_start_stop_unit(true), scsiw::build_report_operation_codes(0, 0, 0, 64)})
            EXPECT_TRUE(may(3, always)) << int{always[0]};
        EXPECT_FALSE(may(3, scsiw::build_start_stop_unit(false)));
        // Another reservation is a conflict, the same once more is none.
        EXPECT_EQ(disk.reserve(1, ReserveOut::reserve, 1, 0, c.type), ScsiStatus::good);
        EXPECT_EQ(disk.reserve(2, ReserveOut::reserve, 2, 0, c.type),
                  c.type >= 7 ? ScsiStatus::good : ScsiStatus::reservation_conflict);
        EXPECT_EQ(disk.reserve(2, ReserveOut::reserve, 2, 0, c.type == 1 ? 3 : 1), ScsiStatus::reservation_conflict);
        EXPECT_EQ(disk.reservation(3), (std::pair<unsigned, std::uint64_t>{c.type, c.type >= 7 ? 0 : 1}));
    }
}

TEST(ScsiReservations, ReleaseTellsRegistrants) {
    for (const std::uint8_t type : {1, 3, 5, 6, 7, 8}) {
        SharedDisk disk;
        ASSERT_EQ(disk.reserve(1, ReserveOut::register_key, 0, 1), ScsiStatus::good);
        ASSERT_EQ(disk.reserve(2, ReserveOut::register_key, 0, 2), ScsiStatus::good);
        ASSERT_EQ(disk.reserve(1, ReserveOut::reserve, 1, 0, type), ScsiStatus::good);
        EXPECT_EQ(disk.reserve(1, ReserveOut::release, 1, 0, type == 1 ? 3 : 1), ScsiStatus::check_condition);
        EXPECT_EQ(disk.last->command.sense.code, asc::invalid_release_of_reservation);
        if (type < 7) {
            EXPECT_EQ(disk.reserve(2, ReserveOut::release, 2, 0, type), ScsiStatus::good);  // not its to release
        }
        EXPECT_EQ(disk.reservation().first, type);
        EXPECT_EQ(disk.reserve(1, ReserveOut::release, 1, 0, type), ScsiStatus::good);
        EXPECT_EQ(disk.reservation().first, 0u);
        EXPECT_EQ(disk.attention(2), type >= 5 ? asc::reservations_released : 0) << int{type};
        EXPECT_EQ(disk.attention(3), 0);
        EXPECT_EQ(disk.attention(1), 0);
    }
}

TEST(ScsiReservations, TheLastOfAllRegistrantsEndsTheirReservation) {
    SharedDisk disk;
    ASSERT_EQ(disk.reserve(1, ReserveOut::register_key, 0, 1), ScsiStatus::good);
    ASSERT_EQ(disk.reserve(2, ReserveOut::register_key, 0, 2), ScsiStatus::good);
    ASSERT_EQ(disk.reserve(1, ReserveOut::reserve, 1, 0, 8), ScsiStatus::good);
    EXPECT_EQ(disk.reserve(1, ReserveOut::register_key, 1, 0), ScsiStatus::good);
    EXPECT_EQ(disk.reservation().first, 8u);
    EXPECT_EQ(disk.run_as(1, scsiw::build_read(0, 1)), ScsiStatus::reservation_conflict);
    EXPECT_EQ(disk.reserve(2, ReserveOut::register_key, 2, 0), ScsiStatus::good);
    EXPECT_EQ(disk.reservation().first, 0u);
    EXPECT_EQ(disk.run_as(1, scsiw::build_read(0, 1)), ScsiStatus::good);
}

TEST(ScsiReservations, PreemptTakesOver) {
    SharedDisk disk;
    ASSERT_EQ(disk.reserve(1, ReserveOut::register_key, 0, 1), ScsiStatus::good);
    ASSERT_EQ(disk.reserve(2, ReserveOut::register_key, 0, 2), ScsiStatus::good);
    ASSERT_EQ(disk.reserve(3, ReserveOut::register_key, 0, 2), ScsiStatus::good);
    ASSERT_EQ(disk.reserve(1, ReserveOut::reserve, 1, 0, 1), ScsiStatus::good);
    EXPECT_EQ(disk.reserve(2, ReserveOut::preempt, 2, 9, 1), ScsiStatus::reservation_conflict);  // nobody has key 9
    EXPECT_EQ(disk.reserve(2, ReserveOut::preempt, 2, 0, 1), ScsiStatus::check_condition);
    EXPECT_EQ(disk.reserve(2, ReserveOut::preempt, 2, 1, 3), ScsiStatus::good);
    EXPECT_EQ(disk.reservation(3), (std::pair<unsigned, std::uint64_t>{3, 2}));
    EXPECT_EQ(disk.keys(3), (std::vector<std::uint64_t>{2, 2}));
    EXPECT_EQ(disk.attention(1), asc::registrations_preempted);
    EXPECT_EQ(disk.run_as(1, scsiw::build_write(0, 1), Bytes(512)), ScsiStatus::reservation_conflict);
    // Of a registration that holds nothing only the registration goes.
    ASSERT_EQ(disk.reserve(1, ReserveOut::register_key, 0, 1), ScsiStatus::good);
    EXPECT_EQ(disk.reserve(2, ReserveOut::preempt_and_abort, 2, 1, 0), ScsiStatus::good);
    EXPECT_EQ(disk.attention(1), asc::registrations_preempted);
    EXPECT_EQ(disk.reservation(3).first, 3u);
    // All registrants' is taken with key 0.
    ASSERT_EQ(disk.reserve(2, ReserveOut::release, 2, 0, 3), ScsiStatus::good);
    ASSERT_EQ(disk.reserve(2, ReserveOut::reserve, 2, 0, 7), ScsiStatus::good);
    EXPECT_EQ(disk.reserve(3, ReserveOut::preempt, 2, 0, 1), ScsiStatus::good);
    EXPECT_EQ(disk.reservation(1), (std::pair<unsigned, std::uint64_t>{1, 2}));
    EXPECT_EQ(disk.attention(2), asc::registrations_preempted);
    // Clear takes everything.
    EXPECT_EQ(disk.reserve(3, ReserveOut::clear, 2, 0), ScsiStatus::good);
    EXPECT_TRUE(disk.keys().empty());
    EXPECT_EQ(disk.reservation().first, 0u);
}

// A write that was planned and has its data yet to come must not reach the medium once its initiator is preempted.
TEST(ScsiReservations, APlannedWriteIsFencedByAPreempt) {
    SharedDisk disk;
    ASSERT_EQ(disk.reserve(1, ReserveOut::register_key, 0, 1), ScsiStatus::good);
    ASSERT_EQ(disk.reserve(2, ReserveOut::register_key, 0, 2), ScsiStatus::good);
    ASSERT_EQ(disk.reserve(1, ReserveOut::reserve, 1, 0, 1), ScsiStatus::good);
    device::scsi::Command write;
    write.cdb = scsiw::build_write(0, 1);
    bool done = false;
    write.context = &done;
    write.done = [](device::scsi::Command& command) noexcept { *static_cast<bool*>(command.context) = true; };
    ASSERT_FALSE(disk.by_port[1]->plan(write).refused);
    ASSERT_EQ(disk.reserve(2, ReserveOut::preempt, 2, 1, 1), ScsiStatus::good);
    Bytes data(512, std::byte{0xee});
    const Segment segment{data.data(), data.size()};
    write.data = {&segment, 1};
    disk.by_port[1]->execute(write);
    EXPECT_TRUE(done);
    EXPECT_EQ(write.status, ScsiStatus::reservation_conflict);
    EXPECT_EQ(disk.run_as(2, scsiw::build_read(0, 1)), ScsiStatus::good);
    EXPECT_EQ(disk.last->data, Bytes(512));
}

TEST(ScsiReservations, PreemptAndAbortAsksForTheOthersCommands) {
    SharedDisk disk;
    ASSERT_EQ(disk.reserve(1, ReserveOut::register_key, 0, 1), ScsiStatus::good);
    ASSERT_EQ(disk.reserve(2, ReserveOut::register_key, 0, 2), ScsiStatus::good);
    std::array<unsigned, 4> asked{};
    for (const std::uint8_t number : {1, 2, 3})
        disk.by_port[number]->on_abort([](void* count) noexcept { ++*static_cast<unsigned*>(count); }, &asked[number]);
    ASSERT_EQ(disk.reserve(2, ReserveOut::preempt_and_abort, 2, 1, 1), ScsiStatus::good);
    EXPECT_EQ(asked, (std::array<unsigned, 4>{0, 1, 0, 0}));
}

TEST(ScsiReservations, WrongRequestsAreRefused) {
    SharedDisk disk;
    ASSERT_EQ(disk.reserve(1, ReserveOut::register_key, 0, 1), ScsiStatus::good);
    for (const std::uint8_t type : {0, 2, 4, 9, 15}) {
        EXPECT_EQ(disk.reserve(1, ReserveOut::reserve, 1, 0, type), ScsiStatus::check_condition);
        EXPECT_EQ(disk.last->command.sense.field->byte, 2);
    }
    EXPECT_EQ(disk.reserve(1, ReserveOut::reserve, 1, 0, 0x11), ScsiStatus::check_condition);  // scope
    for (const std::uint8_t flags : {0x01, 0x04, 0x08}) {  // nothing keeps it; other ports; other initiators
        EXPECT_EQ(disk.reserve(1, ReserveOut::register_key, 1, 1, 0, flags), ScsiStatus::check_condition);
        EXPECT_EQ(disk.last->command.sense.code, asc::invalid_field_in_parameter_list);
    }
    auto cdb = scsiw::build_persistent_reserve_out(0, 0);
    cdb[8] = 23;
    EXPECT_EQ(disk.run_as(1, cdb, Bytes(23)), ScsiStatus::check_condition);
    EXPECT_EQ(disk.last->command.sense.code, asc::parameter_list_length_error);
    EXPECT_EQ(disk.run_as(1, scsiw::build_persistent_reserve_out(7, 0), Bytes(24)), ScsiStatus::check_condition);
    EXPECT_EQ(disk.run_as(1, scsiw::build_persistent_reserve_in(4, 64)), ScsiStatus::check_condition);
    ScsiDisk plain(ScsiDisk::ram());  // a disk without
    plain.expect_sense(scsiw::build_persistent_reserve_in(0, 64), scsiw::SenseKey::illegal_request,
                       asc::invalid_operation_code);
}

TEST(ScsiReservations, FullStatusAndCapabilitiesToTheByte) {
    ReservationDirectory directory;
    SharedDisk disk(directory.file());
    ASSERT_EQ(disk.reserve(1, ReserveOut::register_key, 0, 0x0102030405060708, 0, scsiw::reserve_persist),
              ScsiStatus::good);
    ASSERT_EQ(disk.reserve(1, ReserveOut::reserve, 0x0102030405060708, 0, 5), ScsiStatus::good);
    ASSERT_EQ(disk.run_as(2, scsiw::build_persistent_reserve_in(2, 64)), ScsiStatus::good);
    const std::array<std::uint8_t, 8> capabilities{0, 8, 0x01, 0x81, 0xea, 0x01, 0, 0};
    EXPECT_EQ(disk.last->command.transferred, 8u);
    EXPECT_EQ((disk.last->get<std::array<std::uint8_t, 8>>()), capabilities);
    ASSERT_EQ(disk.run_as(2, scsiw::build_persistent_reserve_in(3, 256)), ScsiStatus::good);
    std::array<std::uint8_t, 56> status{0, 0, 0, 1, 0, 0, 0, 48, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 1, 5};
    status[27] = 1;   // relative target port
    status[31] = 24;  // TransportID
    status[32] = 4;   // SRP
    status[55] = 1;   // initiator port 1
    EXPECT_EQ((disk.last->get<std::array<std::uint8_t, 56>>()), status);
    // As much as there is room for.
    ASSERT_EQ(disk.run_as(2, scsiw::build_persistent_reserve_in(3, 10)), ScsiStatus::good);
    EXPECT_EQ(disk.last->command.transferred, 10u);
}

TEST(ScsiReservations, AreKeptOverARestart) {
    ReservationDirectory directory;
    {
        SharedDisk disk(directory.file());
        ASSERT_EQ(disk.reserve(1, ReserveOut::register_key, 0, 1, 0, scsiw::reserve_persist), ScsiStatus::good);
        ASSERT_EQ(disk.reserve(2, ReserveOut::register_key, 0, 2, 0, scsiw::reserve_persist), ScsiStatus::good);
        ASSERT_EQ(disk.reserve(1, ReserveOut::reserve, 1, 0, 3), ScsiStatus::good);
    }
    {
        SharedDisk disk(directory.file());
        EXPECT_EQ(disk.keys(), (std::vector<std::uint64_t>{1, 2}));
        EXPECT_EQ(disk.reservation(), (std::pair<unsigned, std::uint64_t>{3, 1}));
        EXPECT_EQ(disk.run_as(2, scsiw::build_read(0, 1)), ScsiStatus::reservation_conflict);
        EXPECT_EQ(disk.run_as(1, scsiw::build_read(0, 1)), ScsiStatus::good);
        // Told that nothing is to be kept any more, it forgets at the next restart.
        ASSERT_EQ(disk.reserve(2, ReserveOut::register_key, 2, 4), ScsiStatus::good);
    }
    SharedDisk disk(directory.file());
    EXPECT_TRUE(disk.keys().empty());
    EXPECT_EQ(disk.reservation().first, 0u);
}

TEST(ScsiReservations, AFileThatIsNoneIsNeverBelieved) {
    ReservationDirectory directory;
    for (const char* text : {"", "{", "[]", "{\"version\":2}", "{\"version\":1,\"registrations\":[],\"type\":3}",
                             "{\"version\":1,\"registrations\":[{\"initiator\":\"04\",\"key\":\"1\"}],\"type\":0}",
                             "{\"version\":1,\"registrations\":5,\"type\":0}"}) {
        EXPECT_FALSE(device::scsi::parse_reservations(text)) << text;
        std::ofstream(directory.file()) << text;
        const auto unit = device::scsi::LogicalUnit::create(ScsiDisk::ram(), reserving(directory.file()));
        ASSERT_FALSE(unit);
        EXPECT_NE(unit.error().message().find(directory.file()), std::string::npos);
        EXPECT_NE(unit.error().message().find("remove it"), std::string::npos);
    }
    device::scsi::Reservations state;
    state.persist = true;
    state.registrations = {{port(1), 7}, {port(2), ~0ull}};
    state.type = scsiw::ReservationType::exclusive_access;
    state.holder = port(2);
    EXPECT_EQ(device::scsi::parse_reservations(device::scsi::format_reservations(state)).value(), state);
}

// Where it cannot be saved it has not happened.
TEST(ScsiReservations, WhatCannotBeSavedDoesNotHappen) {
    ReservationDirectory directory;
    SharedDisk disk(directory.path + "/none/lun0.json");
    EXPECT_EQ(disk.reserve(1, ReserveOut::register_key, 0, 1, 0, scsiw::reserve_persist), ScsiStatus::check_condition);
    EXPECT_EQ(disk.last->command.sense.key, scsiw::SenseKey::hardware_error);
    EXPECT_TRUE(disk.keys().empty());
}

}  // namespace
}  // namespace mqblk::test
