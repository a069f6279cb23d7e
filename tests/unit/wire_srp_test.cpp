// SPDX-License-Identifier: Apache-2.0
//
// SRP's information units byte for byte, and what is refused of units that a peer sent.
#include "base/random.h"
#include "wire/srp.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace mqblk::wire::srp {
namespace {

template <class T>
std::vector<std::byte> bytes_of(const T& unit) {
    std::vector<std::byte> result(sizeof unit);
    std::memcpy(result.data(), &unit, sizeof unit);
    return result;
}
template <class T>
void append(std::vector<std::byte>& to, const T& part) {
    const auto bytes = bytes_of(part);
    to.insert(to.end(), bytes.begin(), bytes.end());
}
std::string hex(std::span<const std::byte> bytes) {
    std::string result;
    for (const std::byte each : bytes) {
        constexpr char digits[] = "0123456789abcdef";
        result += digits[std::to_integer<unsigned>(each) >> 4];
        result += digits[std::to_integer<unsigned>(each) & 15];
    }
    return result;
}

TEST(WireSrp, LoginGoldenBytes) {
    LoginReq req;
    req.tag = 0x1122334455667788;
    req.req_it_iu_len = 276;
    req.req_buf_fmt = formats_known;
    req.req_flags = multichannel_multi | flag_immediate;
    req.imm_data_offset = linux_immediate_offset;
    req.initiator_port = {.first = 1, .second = 2};
    req.target_port = {.first = 3, .second = 4};
    EXPECT_EQ(hex(bytes_of(req)),
              "0000000000000000"
              "1122334455667788"
              "0000011400000000"
              "0006810000440000"
              "00000000000000010000000000000002"
              "00000000000000030000000000000004");
    const auto short_form = bytes_of(to_rdma_cm(req));
    EXPECT_EQ(hex(short_form),
              "1122334455667788"
              "0006810000000114"
              "00000000000000010000000000000002"
              "00000000000000030000000000000004"
              "0044000000000000");
    const auto decoded = decode_login_req(short_form, true);
    ASSERT_TRUE(decoded.has_value());
    EXPECT_EQ(hex(bytes_of(*decoded)), hex(bytes_of(req)));
    EXPECT_TRUE(decode_login_req(bytes_of(req), false).has_value());
    EXPECT_FALSE(decode_login_req(std::span(short_form).first(55), true).has_value());
    EXPECT_FALSE(decode_login_req(short_form, false).has_value());
}

TEST(WireSrp, AnswersGoldenBytes) {
    LoginRsp rsp;
    rsp.req_lim_delta = 63;
    rsp.tag = 7;
    rsp.max_it_iu_len = 8276;
    rsp.max_ti_iu_len = 256;
    rsp.buf_fmt = formats_known;
    rsp.rsp_flags = result_terminated;
    EXPECT_EQ(hex(bytes_of(rsp)),
              "c00000000000003f"
              "0000000000000007"
              "0000205400000100"
              "000601" +
                  std::string(50, '0'));
    LoginRej rej;
    rej.reason = static_cast<std::uint32_t>(RejectReason::channel_limit);
    rej.tag = 7;
    rej.buf_fmt = formats_known;
    EXPECT_EQ(hex(bytes_of(rej)),
              "c200000000010006"
              "0000000000000007"
              "0000000000000000"
              "0006000000000000");
    EXPECT_EQ(decode_login_rej(bytes_of(rej))->reason.value(), 0x00010006u);
    EXPECT_FALSE(decode_login_rsp(bytes_of(rej)).has_value());
    EXPECT_FALSE(decode_login_rej(bytes_of(rsp)).has_value());
}

TEST(WireSrp, EveryRejectionHasWords) {
    for (std::uint32_t reason = 0x00010000; reason < 0x00010009; ++reason)
        EXPECT_FALSE(to_words(static_cast<RejectReason>(reason)).empty());
}

Cmd command(unsigned out, unsigned in, unsigned out_count = 0, unsigned in_count = 0) {
    Cmd cmd;
    cmd.buf_fmt = static_cast<std::uint8_t>(out << 4 | in);
    cmd.data_out_desc_cnt = static_cast<std::uint8_t>(out_count);
    cmd.data_in_desc_cnt = static_cast<std::uint8_t>(in_count);
    cmd.tag = 0x0102030405060708;
    cmd.lun = encode_lun(5);
    cmd.cdb[0] = 0x28;
    return cmd;
}
Descriptor descriptor(std::uint64_t address, std::uint32_t key, std::uint32_t bytes) {
    return {.address = address, .key = key, .bytes = bytes};
}

TEST(WireSrp, CommandGoldenBytes) {
    auto unit = bytes_of(command(0, 2, 0, 2));
    IndirectHeader header;
    header.table = descriptor(0x1000, 0xaabb, 32);
    header.data_bytes = 12288;
    append(unit, header);
    append(unit, descriptor(0x10000, 1, 8192));
    append(unit, descriptor(0x20000, 2, 4096));
    EXPECT_EQ(hex(unit),
              "0200000000020002"
              "0102030405060708"
              "00000000"
              "0005000000000000"
              "00000000"
              "28000000000000000000000000000000"
              "00000000000010000000aabb00000020"
              "00003000"
              "00000000000100000000000100002000"
              "00000000000200000000000200001000");
    EXPECT_EQ(unit.size(), indirect_unit_bytes(2));
    const auto view = decode_cmd(unit, {});
    ASSERT_TRUE(view.has_value()) << view.error();
    EXPECT_EQ(view->in.bytes, 12288u);
    EXPECT_EQ(view->in.in_unit(), 2u);
    EXPECT_FALSE(view->in.external());
    EXPECT_EQ(view->in.descriptor(1).address.value(), 0x20000u);
    EXPECT_EQ(view->out.format, DescriptorFormat::none);
}

TEST(WireSrp, BothDirectionsAndAdditionalCdb) {
    auto cmd = command(1, 1);
    cmd.add_cdb_len = 16 | 3;  // the low bits are reserved
    auto unit = bytes_of(cmd);
    unit.resize(unit.size() + 16, std::byte{0xcd});
    append(unit, descriptor(1, 2, 3));
    append(unit, descriptor(4, 5, 6));
    const auto view = decode_cmd(unit, {});
    ASSERT_TRUE(view.has_value()) << view.error();
    EXPECT_EQ(view->additional_cdb.size(), 16u);
    EXPECT_EQ(view->out.bytes, 3u);
    EXPECT_EQ(view->in.bytes, 6u);
}

TEST(WireSrp, ImmediateData) {
    auto unit = bytes_of(command(3, 0));
    append(unit, ImmediateHeader{.bytes = 512});
    unit.resize(linux_immediate_offset + 512, std::byte{7});
    const auto view = decode_cmd(unit, linux_immediate_offset);
    ASSERT_TRUE(view.has_value()) << view.error();
    EXPECT_EQ(view->out.immediate.size(), 512u);
    EXPECT_EQ(view->out.immediate[0], std::byte{7});
    EXPECT_FALSE(decode_cmd(unit, {}).has_value()) << "not agreed on";
    EXPECT_FALSE(decode_cmd(unit, std::uint16_t{51}).has_value()) << "into the descriptor";
    EXPECT_FALSE(decode_cmd(std::span(unit).first(unit.size() - 1), linux_immediate_offset).has_value());
    EXPECT_FALSE(decode_cmd(std::span(unit).first(50), linux_immediate_offset).has_value());
}

TEST(WireSrp, ExternalTable) {
    auto unit = bytes_of(command(2, 0, 1, 0));
    IndirectHeader header;
    header.table = descriptor(0x1000, 9, 300 * 16);
    header.data_bytes = 300 * 4096;
    append(unit, header);
    append(unit, descriptor(0x10000, 1, 4096));
    const auto view = decode_cmd(unit, {});
    ASSERT_TRUE(view.has_value()) << view.error();
    EXPECT_TRUE(view->out.external());
    EXPECT_EQ(view->out.table_descriptors, 300u);
}

struct BadTable {
    unsigned count;
    std::uint32_t table_bytes, data_bytes;
};
TEST(WireSrp, TablesThatDisagreeAreRefused) {
    for (const BadTable& it :
         {BadTable{2, 32, 12287}, BadTable{2, 32, 12289}, BadTable{2, 16, 12288}, BadTable{2, 33, 12288},
          BadTable{3, 48, 12288}, BadTable{2, 48, 1000}, BadTable{2, 0, 12288}}) {
        auto unit = bytes_of(command(0, 2, 0, it.count));
        IndirectHeader header;
        header.table = descriptor(0x1000, 0, it.table_bytes);
        header.data_bytes = it.data_bytes;
        append(unit, header);
        append(unit, descriptor(0x10000, 1, 8192));
        append(unit, descriptor(0x20000, 2, 4096));
        EXPECT_FALSE(decode_cmd(unit, {}).has_value()) << it.count << ' ' << it.table_bytes << ' ' << it.data_bytes;
    }
    // A sum that wraps.
    auto unit = bytes_of(command(0, 2, 0, 2));
    IndirectHeader header;
    header.table = descriptor(0, 0, 32);
    header.data_bytes = 0;
    append(unit, header);
    append(unit, descriptor(0, 1, 0x80000000));
    append(unit, descriptor(0, 2, 0x80000000));
    EXPECT_FALSE(decode_cmd(unit, {}).has_value());
}

TEST(WireSrp, ResponseGoldenBytes) {
    Rsp rsp;
    rsp.req_lim_delta = 1;
    rsp.tag = 5;
    rsp.flags = sense_valid | data_in_underflow;
    rsp.status = 2;
    rsp.data_in_res_cnt = 512;
    rsp.sense_data_len = 3;
    auto unit = bytes_of(rsp);
    for (const int each : {0x70, 0, 5}) unit.push_back(std::byte(each));
    EXPECT_EQ(hex(unit),
              "c100000000000001"
              "0000000000000005"
              "00002202"
              "00000000"
              "00000200"
              "00000003"
              "00000000"
              "700005");
    const auto view = decode_rsp(unit);
    ASSERT_TRUE(view.has_value());
    EXPECT_EQ(view->sense.size(), 3u);
    EXPECT_FALSE(view->code.has_value());
    EXPECT_FALSE(decode_rsp(std::span(unit).first(38)).has_value());

    rsp.flags = rsp_valid | sense_valid;
    rsp.resp_data_len = 4;
    unit = bytes_of(rsp);
    for (const int each : {0, 0, 0, 5, 0x70, 0, 6}) unit.push_back(std::byte(each));
    const auto second = decode_rsp(unit);
    ASSERT_TRUE(second.has_value());
    EXPECT_EQ(second->code, ResponseCode::failed);
    EXPECT_EQ(std::to_integer<int>(second->sense[2]), 6);
    rsp.resp_data_len = 0xfffffffc;  // with the sense it would wrap
    unit = bytes_of(rsp);
    EXPECT_FALSE(decode_rsp(unit).has_value());
}

TEST(WireSrp, RequestsOfTheTarget) {
    CredReq cred;
    cred.req_lim_delta = 4;
    cred.tag = 1;
    EXPECT_EQ(hex(bytes_of(cred)), "81000000000000040000000000000001");
    EXPECT_TRUE(decode_cred_req(bytes_of(cred)).has_value());
    TLogout logout;
    logout.reason = 2;
    EXPECT_EQ(hex(bytes_of(logout)), "80000000000000020000000000000000");
    EXPECT_TRUE(decode_t_logout(bytes_of(logout)).has_value());
    AerReq aer;
    aer.sense_data_len = 2;
    auto unit = bytes_of(aer);
    EXPECT_FALSE(decode_aer_req(unit).has_value());
    unit.resize(38);
    EXPECT_EQ(decode_aer_req(unit)->sense.size(), 2u);
    EXPECT_FALSE(decode_cred_req(unit).has_value());
    TskMgmt task;
    task.function = static_cast<std::uint8_t>(TaskFunction::abort_task);
    task.task_tag = 0x99;
    EXPECT_EQ(hex(bytes_of(task)).substr(60, 20), "01000000000000000099");
    EXPECT_TRUE(decode_tsk_mgmt(bytes_of(task)).has_value());
}

TEST(WireSrp, Luns) {
    for (const unsigned lun : {0u, 1u, 255u, 256u, 16383u}) EXPECT_EQ(decode_lun(encode_lun(lun)), lun);
    EXPECT_EQ(encode_lun(3), 0x0003000000000000u);
    EXPECT_EQ(encode_lun(256), 0x4100000000000000u);
    EXPECT_FALSE(decode_lun(0x0003000000000001).has_value());
    EXPECT_FALSE(decode_lun(0xc101000000000000).has_value());
}

TEST(WireSrp, DecodersStandRandomBytes) {
    constexpr std::uint64_t seed = 20101221;
    SeededRandom random(seed);
    for (unsigned round = 0; round < 20000; ++round) {
        std::vector<std::byte> unit(random.below(160));
        for (std::byte& each : unit) each = random.below(3) == 0 ? std::byte(random.next()) : std::byte{0};
        constexpr std::uint8_t codes[] = {0x00, 0x01, 0x02, 0x80, 0x81, 0x82, 0xc0, 0xc1, 0xc2};
        if (!unit.empty()) unit[0] = std::byte{codes[random.below(sizeof codes)]};
        const auto cmd = decode_cmd(unit, linux_immediate_offset);
        if (cmd) {
            for (const DataDescription* data : {&cmd->out, &cmd->in}) {
                ASSERT_LE(data->descriptors.size(), unit.size()) << "seed " << seed;
                ASSERT_LE(data->immediate.size(), unit.size());
            }
        }
        if (const auto rsp = decode_rsp(unit)) {
            ASSERT_LE(rsp->sense.size() + sizeof(Rsp), unit.size());
        }
        static_cast<void>(decode_aer_req(unit));
        static_cast<void>(decode_login_req(unit, (round & 1) != 0));
        static_cast<void>(decode_login_rsp(unit));
        static_cast<void>(decode_login_rej(unit));
    }
}

}  // namespace
}  // namespace mqblk::wire::srp
