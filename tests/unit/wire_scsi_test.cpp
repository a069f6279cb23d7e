// SPDX-License-Identifier: Apache-2.0
//
// Golden bytes of CDBs and sense data, written out by hand from the standards' figures, and reading of hostile bytes.
#include "wire/scsi_cdb.h"
#include "wire/scsi_data.h"

#include "base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace mqblk::wire::scsi {
namespace {

using Bytes = std::vector<std::uint8_t>;

template <class T>
Bytes wire_bytes(const T& value) {
    Bytes bytes(sizeof value);
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

struct CdbCase {
    const char* name;
    Cdb made;
    Bytes expected;  // the rest is zero
};

TEST(WireScsiCdb, GoldenBytes) {
    const CdbCase cases[] = {
        {"read 10", build_read(0x01020304, 0x0506), {0x28, 0, 1, 2, 3, 4, 0, 5, 6, 0}},
        {"write 10 fua_nv", build_write(7, 8, block_fua_nv), {0x2a, 0x02, 0, 0, 0, 7, 0, 0, 8, 0}},
        {"write 10 fua dpo", build_write(7, 8, block_fua | block_dpo), {0x2a, 0x18, 0, 0, 0, 7, 0, 0, 8, 0}},
        {"read 16 for its lba", build_read(0x0102030405, 1), {0x88, 0, 0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0, 1, 0, 0}},
        {"write 16 for its length", build_write(1, 0x10000), {0x8a, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0}},
        {"read 6", build_blocks({.operation = opcode::read_6, .lba = 0x1f2f3f, .blocks = 256}), {8, 0x1f, 0x2f, 0x3f}},
        {"read 12",
         build_blocks({.operation = opcode::read_12, .flags = block_fua, .lba = 0x01020304, .blocks = 0x05060708}),
         {0xa8, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0}},
        {"synchronize cache", build_synchronize_cache(), {0x35}},
        {"synchronize cache 16",
         build_blocks({.operation = opcode::synchronize_cache_16, .lba = 9, .blocks = 3}),
         {0x91, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 3}},
        {"write same 16", build_write_same(2, 3, true), {0x93, 8, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3}},
        {"unmap", build_unmap(24), {0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0}},
        {"test unit ready", build_test_unit_ready(), {0x00}},
        {"inquiry", build_inquiry(0x124), {0x12, 0, 0, 1, 0x24, 0}},
        {"inquiry page", build_inquiry_page(vpd::unit_serial_number, 16), {0x12, 1, 0x80, 0, 0x10, 0}},
        {"read capacity 10", build_read_capacity_10(), {0x25}},
        {"read capacity 16", build_read_capacity_16(32), {0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32}},
        {"request sense", build_request_sense(18), {0x03, 0, 0, 0, 18}},
        {"report luns", build_report_luns(0x1000), {0xa0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0}},
        {"mode sense 6", build_mode_sense_6(mode_page::caching, 192), {0x1a, 0, 8, 0, 192}},
        {"mode sense 10",
         build_mode_sense_10(mode_page::all, 0x0102, PageControl::changeable),
         {0x5a, 0, 0x7f, 0, 0, 0, 0, 1, 2}},
        {"mode select 6", build_mode_select_6(24), {0x15, 0x10, 0, 0, 24}},
        {"mode select 10", build_mode_select_10(28), {0x55, 0x10, 0, 0, 0, 0, 0, 0, 28}},
        {"write buffer", build_write_buffer(512), {0x3b, 2, 0, 0, 0, 0, 0, 2, 0, 0}},
        {"read buffer", build_read_buffer(512), {0x3c, 2, 0, 0, 0, 0, 0, 2, 0, 0}},
        {"start", build_start_stop_unit(true), {0x1b, 0, 0, 0, 1}},
    };
    for (const CdbCase& c : cases) {
        Cdb expected{};
        std::copy(c.expected.begin(), c.expected.end(), expected.begin());
        EXPECT_EQ(c.made, expected) << c.name;
    }
}

TEST(WireScsiCdb, BlockCommandsComeBackAsMade) {
    SeededRandom random(41);
    for (unsigned operation = 0; operation < 256; ++operation) {
        const auto op = static_cast<std::uint8_t>(operation);
        Cdb raw{};
        raw[0] = op;
        ASSERT_EQ(parse_blocks(raw).has_value(), names_blocks(op)) << operation;
        if (!names_blocks(op)) continue;
        for (int i = 0; i < 50; ++i) {
            BlockCdb made{.operation = op, .lba = random.next(), .blocks = static_cast<std::uint32_t>(random.next())};
            const unsigned length = cdb_bytes(op);
            if (length == 6) {
                made.lba &= 0x1fffff;
                made.blocks = made.blocks % 256 + 1;
            } else {
                made.flags = static_cast<std::uint8_t>(random.next());
                made.group = static_cast<std::uint8_t>(random.next());
                if (length == 10) made.blocks &= 0xffff;
                if (length != 16) made.lba &= 0xffffffff;
            }
            made.control = static_cast<std::uint8_t>(random.next());
            const auto read = parse_blocks(build_blocks(made));
            ASSERT_TRUE(read);
            EXPECT_EQ(read->lba, made.lba) << operation;
            EXPECT_EQ(read->blocks, made.blocks) << operation;
            EXPECT_EQ(read->flags, made.flags) << operation;
            EXPECT_EQ(read->group, made.group) << operation;
            EXPECT_EQ(read->control, made.control) << operation;
        }
    }
}

TEST(WireScsiSense, FixedFormatGoldenBytes) {
    Sense sense{.key = SenseKey::medium_error, .code = asc::unrecovered_read_error, .information = 0x01020304};
    EXPECT_EQ(wire_bytes(build_fixed_sense(sense)),
              (Bytes{0xf0, 0, 3, 1, 2, 3, 4, 10, 0, 0, 0, 0, 0x11, 0, 0, 0, 0, 0}));
    Sense field{.key = SenseKey::illegal_request, .code = asc::invalid_field_in_cdb};
    field.field = Sense::FieldPointer{.byte = 2, .in_cdb = true, .bit = 5};
    EXPECT_EQ(wire_bytes(build_fixed_sense(field)),
              (Bytes{0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0, 0, 0xcd, 0, 2}));
    // 64 bits of information do not fit: not valid, zero.
    sense.information = 0x100000000;
    EXPECT_EQ(wire_bytes(build_fixed_sense(sense)),
              (Bytes{0x70, 0, 3, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x11, 0, 0, 0, 0, 0}));
}

TEST(WireScsiSense, DescriptorFormatGoldenBytes) {
    std::array<std::uint8_t, descriptor_sense_bytes> bytes{};
    Sense sense{.key = SenseKey::illegal_request, .code = asc::lba_out_of_range, .information = 0x0102030405060708};
    sense.field = Sense::FieldPointer{.byte = 0x0102, .in_cdb = false, .bit = {}};
    const std::size_t used = build_descriptor_sense(sense, bytes);
    EXPECT_EQ(
        Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(used)),
        (Bytes{0x72, 5, 0x21, 0, 0, 0, 0, 20, 0, 10, 0x80, 0, 1, 2, 3, 4, 5, 6, 7, 8, 2, 6, 0, 0, 0x80, 1, 2, 0}));
}

TEST(WireScsiSense, BothFormatsComeBackAsMade) {
    std::vector<Sense> cases;
    cases.push_back({.key = SenseKey::unit_attention, .code = asc::capacity_changed});
    cases.push_back({.key = SenseKey::medium_error, .code = asc::write_error, .information = 77, .deferred = true});
    cases.push_back({.key = SenseKey::not_ready, .code = asc::becoming_ready, .progress = 0x8000});
    cases.push_back({.key = SenseKey::aborted_command, .code = asc::data_phase_error, .command_specific = 99});
    cases.push_back({.key = SenseKey::illegal_request,
                     .code = asc::invalid_field_in_cdb,
                     .field = Sense::FieldPointer{.byte = 7, .in_cdb = true, .bit = 0}});
    for (const Sense& sense : cases) {
        EXPECT_EQ(parse_sense(wire_bytes(build_fixed_sense(sense))), sense);
        std::array<std::uint8_t, descriptor_sense_bytes> bytes{};
        const std::size_t used = build_descriptor_sense(sense, bytes);
        EXPECT_EQ(parse_sense(std::span(bytes).first(used)), sense);
    }
}

TEST(WireScsiSense, CutAndHostileBytesAreRead) {
    EXPECT_FALSE(parse_sense({}));
    EXPECT_FALSE(parse_sense(Bytes{0x00, 1, 2}));
    EXPECT_FALSE(parse_sense(Bytes{0x74, 1, 2}));
    // A descriptor longer than what is left, and one of length zero in between.
    EXPECT_EQ(parse_sense(Bytes{0x72, 3, 0x11, 0, 0, 0, 0, 200, 0, 10, 0x80})->information, std::nullopt);
    EXPECT_EQ(parse_sense(Bytes{0x72, 5, 0x24, 0, 0, 0, 0, 10, 9, 0, 2, 6, 0, 0, 0xc0, 0, 1, 0})->field->byte, 1);
    // The additional length cuts the code off.
    EXPECT_EQ(parse_sense(Bytes{0x70, 0, 3, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0x11, 0, 0, 0, 0, 0})->code, 0);
    SeededRandom random(42);
    for (int i = 0; i < 20000; ++i) {
        Bytes bytes(random.next() % 64);
        for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
        if (!bytes.empty() && i % 2 == 0) bytes[0] = static_cast<std::uint8_t>(0x70 + random.next() % 4);
        (void)parse_sense(bytes);  // the sanitizers judge
    }
}

TEST(WireScsiData, GoldenBytes) {
    InquiryData inquiry;
    set_text(inquiry.vendor, "MQBLK");
    const Bytes bytes = wire_bytes(inquiry);
    EXPECT_EQ(std::string(bytes.begin() + 8, bytes.begin() + 16), "MQBLK   ");
    EXPECT_EQ(Bytes(bytes.begin(), bytes.begin() + 4), (Bytes{0, 0, 6, 2}));
    EXPECT_EQ(wire_bytes(Capacity10{.last_lba = 0x01020304, .block_bytes = 512}), (Bytes{1, 2, 3, 4, 0, 0, 2, 0}));
    EXPECT_EQ(wire_bytes(UnmapDescriptor{.lba = 0x0102030405060708, .blocks = 0x090a0b0c, .reserved = {}}),
              (Bytes{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0, 0, 0}));
    BlockLimitsPage limits;
    limits.max_unmap_blocks = 0x11223344;
    const Bytes page = wire_bytes(limits);
    EXPECT_EQ(Bytes(page.begin(), page.begin() + 4), (Bytes{0, 0xb0, 0, 60}));
    EXPECT_EQ(Bytes(page.begin() + 20, page.begin() + 24), (Bytes{0x11, 0x22, 0x33, 0x44}));
}

}  // namespace
}  // namespace mqblk::wire::scsi
