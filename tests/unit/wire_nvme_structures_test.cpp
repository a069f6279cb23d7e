// SPDX-License-Identifier: Apache-2.0
//
// Golden bytes of the NVMe structures: offsets as the specifications' figures have them, written out by hand.
#include "wire/nvme.h"
#include "wire/nvme_fabrics.h"
#include "wire/nvme_identify.h"
#include "wire/nvme_logs.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace mqblk::wire::nvme {
namespace {

/// Expects just these bytes to be set, by offset; all others are zero.
template <class T>
void expect_bytes(const T& value, const std::map<std::size_t, std::vector<std::uint8_t>>& expected) {
    std::vector<std::uint8_t> wanted(sizeof value), found(sizeof value);
    for (const auto& [offset, bytes] : expected)
        std::copy(bytes.begin(), bytes.end(), wanted.begin() + static_cast<std::ptrdiff_t>(offset));
    std::memcpy(found.data(), &value, sizeof value);
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(found[i], wanted[i]) << "byte " << i;
}

TEST(WireNvme, ReadCommand) {
    Command command;
    command.opcode = io_opcode::read;
    command.flags = flag_psdt_sgl;
    command.command_id = 0x1234;
    command.namespace_id = 0x01020304;
    command.data.address = 0x1122334455667788;
    command.data.length = 0x2000;
    command.data.type = sgl_transport_data;
    set_block_range(command, 0x0a0b0c0d0e0f1011, 16, rw_fua);
    expect_bytes(command,
                 {{0, {0x02, 0x40, 0x34, 0x12, 0x04, 0x03, 0x02, 0x01}},
                  {24, {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00, 0x20, 0x00, 0x00, 0, 0, 0, 0x5a}},
                  {40, {0x11, 0x10, 0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x0f, 0x00, 0x00, 0x40}}});
    EXPECT_EQ(first_block(command), 0x0a0b0c0d0e0f1011u);
    EXPECT_EQ(block_count(command), 16u);
    set_block_range(command, 0, 65536);
    EXPECT_EQ(block_count(command), 65536u);
}

TEST(WireNvme, Completion) {
    Completion completion;
    completion.result = 0x0807060504030201;
    completion.sq_head = 0x0a09;
    completion.sq_id = 0x0c0b;
    completion.command_id = 0x0e0d;
    set_status(completion, status::connect_invalid_parameters | status::do_not_retry);
    expect_bytes(completion, {{0, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0x04, 0x83}}});
    EXPECT_EQ(status_of(completion), 0x4182);
}

TEST(WireNvme, Connect) {
    ConnectCommand command;
    command.command_id = 1;
    command.queue_id = 0x0102;
    command.sq_size = 0x0304;
    command.attributes = connect_disable_flow_control;
    command.keep_alive_ms = 0x05060708;
    expect_bytes(command,
                 {{0, {0x7f, 0x40, 1, 0, 0x01}}, {42, {0x02, 0x01, 0x04, 0x03, 0x04}}, {48, {0x08, 0x07, 0x06, 0x05}}});
    EXPECT_EQ(fabrics_type_of(std::bit_cast<Command>(command)), fabrics_type::connect);

    ConnectData data;
    data.host_id[0] = 0xaa;
    data.host_id[15] = 0xbb;
    data.controller_id = controller_id_dynamic;
    set_text(data.subsystem_nqn, "nqn.s", '\0');
    set_text(data.host_nqn, "nqn.h", '\0');
    expect_bytes(
        data,
        {{0, {0xaa}}, {15, {0xbb, 0xff, 0xff}}, {256, {'n', 'q', 'n', '.', 's'}}, {512, {'n', 'q', 'n', '.', 'h'}}});
    EXPECT_EQ(connect_invalid_in_data(256), 0x10100u);
    EXPECT_EQ(connect_invalid_in_command(44), 44u);
}

TEST(WireNvme, Properties) {
    PropertyCommand command;
    command.type = fabrics_type::property_set;
    command.offset = property::cc;
    command.value = cc::enable | cc::css_csi | cc::entry_sizes;
    expect_bytes(command, {{0, {0x7f, 0x40}}, {44, {0x14}}, {48, {0x61, 0x00, 0x46}}});
    const std::uint64_t capabilities =
        cap::max_queue_entries(1024) | cap::ready_timeout(15) | cap::css_nvm | cap::css_csi;
    EXPECT_EQ(capabilities, 0x000008200f0003ffu);
    EXPECT_EQ(cap::queue_entries_of(capabilities), 1024u);
    EXPECT_EQ(cap::ready_timeout_ms_of(capabilities), 7500u);
}

TEST(WireNvme, DiscoveryEntry) {
    DiscoveryEntry entry;
    entry.transport = transport_type::tcp;
    entry.address_family = address_family::ipv4;
    entry.subsystem_type = subsystem_type::nvme;
    entry.requirements = discovery_requirement::flow_control_may_be_off;
    entry.port_id = 1;
    entry.controller_id = controller_id_dynamic;
    entry.admin_queue_size = 32;
    set_text(entry.service_id, "4420", '\0');
    set_text(entry.subsystem_nqn, "nqn.s", '\0');
    set_text(entry.address, "127.0.0.1", '\0');
    expect_bytes(entry, {{0, {3, 1, 2, 4, 1, 0, 0xff, 0xff, 32, 0}},
                         {32, {'4', '4', '2', '0'}},
                         {256, {'n', 'q', 'n', '.', 's'}},
                         {512, {'1', '2', '7', '.', '0', '.', '0', '.', '1'}}});
}

TEST(WireNvme, NqnFields) {
    std::array<char, nqn_field_bytes> field{};
    EXPECT_FALSE(nqn_of(field)) << "empty";
    field.fill('n');
    EXPECT_FALSE(nqn_of(field)) << "filled to the last byte";
    for (const std::size_t length : {1u, 223u, 224u, 255u}) {
        set_text(field, std::string(length, 'n'), '\0');
        EXPECT_EQ(nqn_of(field).has_value(), length <= 223) << length;
    }
    set_text(field, "nqn.a\nb", '\0');
    EXPECT_FALSE(nqn_of(field)) << "control character";
    set_text(field, "nqn.2026-01.io.mqblk:\xc3\xa4", '\0');
    EXPECT_EQ(nqn_of(field), "nqn.2026-01.io.mqblk:\xc3\xa4");
}

TEST(WireNvme, TextFields) {
    std::array<char, 8> field{};
    set_text(field, "abc", ' ');
    EXPECT_EQ(std::string(field.data(), 8), "abc     ");
    EXPECT_EQ(text_of(field), "abc");
    set_text(field, "0123456789", ' ');
    EXPECT_EQ(text_of(field), "01234567");
    set_text(field, "0123456789", '\0');
    EXPECT_EQ(text_of(field), "0123456");
    set_text(field, "", ' ');
    EXPECT_EQ(text_of(field), "");
}

TEST(WireNvme, Descriptors) {
    std::vector<std::uint8_t> page(4096);
    const auto count = [&] {
        int found = 0;
        const bool good = for_each_descriptor(page, [&](std::uint8_t, auto) { ++found; });
        return good ? found : -1;
    };
    EXPECT_EQ(count(), 0);
    page[0] = descriptor_type::uuid, page[1] = 16;
    page[20] = 99, page[21] = 5;  // unknown: passed over
    page[29] = descriptor_type::csi, page[30] = 1;
    EXPECT_EQ(count(), 2);
    page[30] = 2;
    EXPECT_EQ(count(), -1) << "a CSI of two bytes";
    page.assign(4096, 0);
    page[0] = 99, page[1] = 255;
    for (std::size_t at = 259; at + 4 < page.size(); at += 259) page[at] = 99, page[at + 1] = 255;
    EXPECT_EQ(count(), -1) << "the last runs past the end";
    page.resize(3);
    EXPECT_EQ(count(), 0);
}

TEST(WireNvme, LogRequest) {
    Command command;
    set_log_request(command, log_id::discovery, 0x100000400, 0x400000, log_retain_event);
    EXPECT_EQ(log_page_of(command), 0x70);
    EXPECT_EQ(log_bytes_of(command), 0x400000u);
    EXPECT_EQ(log_offset_of(command), 0x100000400u);
    expect_bytes(command, {{40, {0x70, 0x80, 0xff, 0xff, 0x0f, 0x00}}, {48, {0x00, 0x04, 0, 0, 1}}});
}

TEST(WireNvme, LogStructures) {
    AnaGroup group;
    group.group_id = 1;
    group.namespaces = 2;
    group.change_count = 3;
    group.state = ana_state::optimized;
    expect_bytes(group, {{0, {1, 0, 0, 0, 2, 0, 0, 0, 3}}, {16, {1}}});
    ErrorLogEntry error;
    error.count = 1;
    error.sq_id = 2;
    error.command_id = 3;
    error.status = 4;
    error.parameter_location = 5;
    error.lba = 6;
    error.namespace_id = 7;
    expect_bytes(error, {{0, {1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 0, 0, 0, 0, 0, 0, 7}}});
    EXPECT_EQ(event_result(event_type::notice, notice::discovery_change, log_id::discovery), 0x70f002u);
    EXPECT_EQ(event_type_of(0x70f002), 2u);
    EXPECT_EQ(event_information_of(0x70f002), 0xf0u);
    EXPECT_EQ(event_log_of(0x70f002), 0x70);
    EXPECT_EQ(queue_counts(1, 65535), 0xfffe0000u);
}

TEST(WireNvme, IdentifyController) {
    IdentifyController id;
    set_text(id.sn, "S", ' ');
    id.mdts = 8;
    id.cntlid = 0x0102;
    id.kas = 10;
    id.nn = 0x01020304;
    id.sgls = sgls_supported | sgls_in_capsule_offset;
    id.ioccsz = 1028;
    std::vector<std::uint8_t> serial(20, ' ');
    serial[0] = 'S';
    expect_bytes(
        id,
        {{4, serial}, {77, {8, 0x02, 0x01}}, {320, {10}}, {516, {4, 3, 2, 1}}, {536, {1, 0, 0x10}}, {1792, {4, 4}}});
}

TEST(WireNvme, IdentifyNamespace) {
    IdentifyNamespace id;
    id.nsze = 1, id.ncap = 2, id.nuse = 3;
    id.nmic = nmic_shared;
    id.noiob = 0x0102;
    id.anagrpid = 1;
    id.nguid[0] = 0xab;
    id.lbaf[0].data_shift = 12;
    expect_bytes(id, {{0, {1}}, {8, {2}}, {16, {3}}, {30, {1}}, {46, {2, 1}}, {92, {1}}, {104, {0xab}}, {130, {12}}});
}

}  // namespace
}  // namespace mqblk::wire::nvme
