// SPDX-License-Identifier: Apache-2.0
//
// PDU formats byte for byte, and the header checks against the tables of the TCP transport specification.
#include "wire/nvme_tcp.h"

#include "base/random.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace mqblk::wire::nvme_tcp {
namespace {

template <class T>
std::string hex(const T& pdu, std::size_t bytes = sizeof(T)) {
    std::string text;
    const auto* at = reinterpret_cast<const unsigned char*>(&pdu);
    for (std::size_t i = 0; i < bytes; ++i) {
        constexpr char digits[] = "0123456789abcdef";
        text += {digits[at[i] >> 4], digits[at[i] & 15]};
    }
    return text;
}

CommonHeader common(PduType type, std::uint8_t flags, std::uint8_t hlen, std::uint8_t pdo, std::uint32_t plen) {
    return {static_cast<std::uint8_t>(type), flags, hlen, pdo, plen};
}

TEST(NvmeTcpPdu, GoldenBytes) {
    IcReq ic_req{.ch = common(PduType::ic_req, 0, 128, 0, 128), .pfv = 0, .hpda = 3, .dgst = 3, .maxr2t = 0x01020304};
    EXPECT_EQ(hex(ic_req, 20),
              "000080008000000000000303"
              "04030201"
              "00000000");
    IcResp ic_resp{
        .ch = common(PduType::ic_resp, 0, 128, 0, 128), .pfv = 0, .cpda = 1, .dgst = 2, .maxh2cdata = 0x20000};
    EXPECT_EQ(hex(ic_resp, 20),
              "010080008000000000000102"
              "00000200"
              "00000000");
    CapsuleResp response{.ch = common(PduType::capsule_resp, 1, 24, 0, 28), .completion = {}};
    response.completion.result = 0x1122334455667788;
    response.completion.sq_head = 0x0102;
    response.completion.sq_id = 3;
    response.completion.command_id = 0xf00d;
    response.completion.status = 0x8004;
    EXPECT_EQ(hex(response),
              "050118001c000000"
              "8877665544332211"
              "0201"
              "0300"
              "0df0"
              "0480");
    H2CData h2c{.ch = common(PduType::h2c_data, 4, 24, 24, 4120),
                .cccid = 0x1234,
                .ttag = 0x5678,
                .datao = 0x1000,
                .datal = 0x1000};
    EXPECT_EQ(hex(h2c),
              "0604181818100000"
              "3412"
              "7856"
              "00100000"
              "00100000"
              "00000000");
    C2HData c2h{.ch = common(PduType::c2h_data, 12, 24, 24, 536), .cccid = 0x1234, .datao = 0x200, .datal = 0x200};
    EXPECT_EQ(hex(c2h),
              "070c181818020000"
              "3412"
              "0000"
              "00020000"
              "00020000"
              "00000000");
    R2T r2t{.ch = common(PduType::r2t, 0, 24, 0, 24), .cccid = 1, .ttag = 2, .r2to = 0x10000, .r2tl = 0x8000};
    EXPECT_EQ(hex(r2t),
              "0900180018000000"
              "0100"
              "0200"
              "00000100"
              "00800000"
              "00000000");
    CapsuleCmd command{.ch = common(PduType::capsule_cmd, 0, 72, 0, 72), .command = {}};
    command.command.opcode = 2;
    command.command.flags = 0x40;
    command.command.command_id = 0x0a0b;
    command.command.namespace_id = 7;
    command.command.data = {.address = 0, .length = 4096, .reserved = {}, .type = 0x5a};
    command.command.cdw10 = 0x99;
    EXPECT_EQ(hex(command, 52),
              "0400480048000000"
              "02400b0a"
              "07000000"
              "0000000000000000"
              "0000000000000000"
              "0000000000000000"
              "00100000"
              "0000005a"
              "99000000");
}

TEST(NvmeTcpPdu, GoldenTermReq) {
    const auto offending = common(PduType::h2c_data, 0xff, 23, 24, 100);
    std::array<std::byte, sizeof(TermReq) + max_term_data_bytes> out;
    const auto bytes = std::as_bytes(std::span(&offending, 1));
    const Violation violation{FatalStatus::invalid_header_field, 2, ""};
    ASSERT_EQ(build_term_req(Sender::controller, violation, bytes, out), 32u);
    EXPECT_EQ(hex(out, 32),
              "0300180020000000"
              "0100"
              "02000000"
              "00000000000000000000"
              "06ff171864000000");
    ASSERT_EQ(build_term_req(Sender::host, violation, std::vector<std::byte>(200), out), 152u);
    EXPECT_EQ(hex(out, 8), "0200180098000000");
}

struct Case {
    const char* name;
    CommonHeader header;
    PduRules rules;
    std::optional<Violation> expected;  // none: accepted
    std::uint32_t data_bytes = 0;
};

constexpr PduRules from_host(bool header_digest = false, bool data_digest = false, std::uint32_t alignment = 4) {
    return {Sender::host, true, header_digest, data_digest, alignment, 8192, 65536};
}
constexpr PduRules from_controller(bool header_digest = false, bool data_digest = false) {
    return {Sender::controller, true, header_digest, data_digest, 4, 0, UINT32_MAX};
}
constexpr PduRules fresh(Sender sender) {
    return {.sender = sender};
}
constexpr Violation field(std::uint32_t fei) {
    return {FatalStatus::invalid_header_field, fei, ""};
}
constexpr Violation sequence{FatalStatus::sequence_error, 0, ""};

TEST(NvmeTcpPdu, HeaderTable) {
    using enum PduType;
    const Case cases[] = {
        {"ICReq", common(ic_req, 0, 128, 0, 128), fresh(Sender::host), {}},
        {"ICReq too long", common(ic_req, 0, 128, 0, 129), fresh(Sender::host), field(4)},
        {"ICReq with data offset", common(ic_req, 0, 128, 128, 128), fresh(Sender::host), field(3)},
        {"ICReq short header", common(ic_req, 0, 127, 0, 128), fresh(Sender::host), field(2)},
        {"second ICReq", common(ic_req, 0, 128, 0, 128), from_host(), sequence},
        {"ICResp to the controller", common(ic_resp, 0, 128, 0, 128), fresh(Sender::host), field(0)},
        {"ICResp", common(ic_resp, 0, 128, 0, 128), fresh(Sender::controller), {}},
        {"command first", common(capsule_cmd, 0, 72, 0, 72), fresh(Sender::host), sequence},
        {"data first", common(h2c_data, 4, 24, 24, 28), fresh(Sender::host), sequence},
        {"unknown type 8", common(PduType{8}, 0, 24, 0, 24), from_host(), field(0)},
        {"unknown type 10", common(PduType{10}, 0, 24, 0, 24), from_host(), field(0)},
        {"unknown type 255", common(PduType{255}, 0, 24, 0, 24), from_host(), field(0)},
        {"R2T from the host", common(r2t, 0, 24, 0, 24), from_host(), field(0)},
        {"command", common(capsule_cmd, 0, 72, 0, 72), from_host(), {}},
        {"command, no room", common(capsule_cmd, 0, 72, 0, 71), from_host(), field(4)},
        {"command with data", common(capsule_cmd, 0, 72, 72, 72 + 512), from_host(), {}, 512},
        {"command with most data", common(capsule_cmd, 0, 72, 72, 72 + 8192), from_host(), {}, 8192},
        {"command with too much data", common(capsule_cmd, 0, 72, 72, 72 + 8193), from_host(), field(4)},
        {"command of absurd length", common(capsule_cmd, 0, 72, 72, 0xffffffff), from_host(), field(4)},
        {"command, length zero", common(capsule_cmd, 0, 72, 0, 0), from_host(), field(4)},
        {"data offset without data", common(capsule_cmd, 0, 72, 72, 72), from_host(), field(4)},
        {"data without data offset", common(capsule_cmd, 0, 72, 0, 72 + 512), from_host(), field(4)},
        {"data offset in the header", common(capsule_cmd, 0, 72, 68, 72 + 512), from_host(), field(3)},
        {"data offset unaligned", common(capsule_cmd, 0, 72, 73, 73 + 512), from_host(), field(3)},
        {"data offset not as agreed", common(capsule_cmd, 0, 72, 72, 72 + 512), from_host(false, false, 128), field(3)},
        {"data offset as agreed", common(capsule_cmd, 0, 72, 128, 128 + 512), from_host(false, false, 128), {}, 512},
        {"header digest missing", common(capsule_cmd, 0, 72, 0, 72), from_host(true),
         Violation{FatalStatus::header_digest_error, 0, ""}},
        {"header digest not agreed", common(capsule_cmd, 1, 72, 0, 76), from_host(), field(1)},
        {"header digest", common(capsule_cmd, 1, 72, 0, 76), from_host(true), {}},
        {"header digest not counted", common(capsule_cmd, 1, 72, 0, 72), from_host(true), field(4)},
        {"data over the header digest", common(capsule_cmd, 1, 72, 72, 76 + 512), from_host(true), field(3)},
        {"data digest without data", common(capsule_cmd, 2, 72, 0, 72), from_host(false, true), field(1)},
        {"no data, data digests agreed", common(capsule_cmd, 0, 72, 0, 72), from_host(false, true), {}},
        {"data digest missing", common(capsule_cmd, 0, 72, 72, 72 + 516), from_host(false, true), field(1)},
        {"data digest not agreed", common(capsule_cmd, 2, 72, 72, 72 + 516), from_host(), field(1)},
        {"both digests", common(capsule_cmd, 3, 72, 76, 76 + 512 + 4), from_host(true, true), {}, 512},
        {"data digest alone", common(h2c_data, 2, 24, 24, 24 + 4), from_host(false, true), field(4)},
        {"H2CData", common(h2c_data, 4, 24, 24, 24 + 65536), from_host(), {}, 65536},
        {"H2CData above MAXH2CDATA", common(h2c_data, 4, 24, 24, 24 + 65537), from_host(),
         Violation{FatalStatus::limit_exceeded, 4, ""}},
        {"H2CData of absurd length", common(h2c_data, 0, 24, 24, 0xffffffff), from_host(),
         Violation{FatalStatus::limit_exceeded, 4, ""}},
        {"H2CData without data", common(h2c_data, 4, 24, 0, 24), from_host(), field(3)},
        {"H2CTermReq", common(h2c_term_req, 0, 24, 0, 24 + 128), from_host(), {}, 128},
        {"H2CTermReq before ICReq", common(h2c_term_req, 0, 24, 0, 24), fresh(Sender::host), {}},
        {"H2CTermReq too long", common(h2c_term_req, 0, 24, 0, 153), from_host(), field(4)},
        {"H2CTermReq too short", common(h2c_term_req, 0, 24, 0, 23), from_host(), field(4)},
        {"response", common(capsule_resp, 0, 24, 0, 24), from_controller(), {}},
        {"response with data", common(capsule_resp, 0, 24, 24, 28), from_controller(), field(3)},
        {"C2HData SUCCESS", common(c2h_data, 12, 24, 24, 24 + 4096), from_controller(), {}, 4096},
        {"C2HData SUCCESS, not last", common(c2h_data, 8, 24, 24, 24 + 4096), from_controller(), field(1)},
        {"R2T", common(r2t, 1, 24, 0, 28), from_controller(true, true), {}},
        {"R2T of another length", common(r2t, 0, 24, 0, 32), from_controller(), field(4)},
    };
    for (const Case& test : cases) {
        SCOPED_TRACE(test.name);
        const auto result = check_header(test.header, test.rules);
        ASSERT_EQ(result.has_value(), !test.expected.has_value()) << (result ? "" : result.error().what);
        if (test.expected) {
            EXPECT_EQ(result.error().fes, test.expected->fes) << result.error().what;
            EXPECT_EQ(result.error().fei, test.expected->fei) << result.error().what;
        } else {
            EXPECT_EQ(result->data_bytes, test.data_bytes);
            EXPECT_EQ(result->pdu_bytes, test.header.plen);
        }
    }
}

// Whatever the eight bytes are: accepted PDUs account for every byte of PLEN, and nothing exceeds its limit.
TEST(NvmeTcpPdu, EveryHeaderLengthAndOffset) {
    SeededRandom random(2);
    for (unsigned type = 0; type < 12; ++type) {
        for (unsigned hlen = 0; hlen < 256; ++hlen) {
            for (unsigned pdo = 0; pdo < 256; ++pdo) {
                PduRules rules = random.below(2) != 0 ? from_host() : from_controller();
                rules.header_digest = random.below(2) != 0;
                rules.data_digest = random.below(2) != 0;
                rules.initialized = random.below(4) != 0;
                const auto flags = static_cast<std::uint8_t>(random.below(16));
                const auto plen = static_cast<std::uint32_t>(random.below(4) != 0 ? random.below(600) : random.next());
                const auto result = check_header(
                    common(PduType(type), flags, static_cast<std::uint8_t>(hlen), static_cast<std::uint8_t>(pdo), plen),
                    rules);
                if (!result) {
                    ASSERT_NE(result.error().what, nullptr);
                    continue;
                }
                ASSERT_TRUE(hlen == 24 || hlen == 72 || hlen == 128);
                const std::uint64_t front =
                    result->data_bytes > 0 ? result->data_offset : hlen + (result->header_digest ? 4u : 0u);
                ASSERT_GE(front, hlen + (result->header_digest ? 4u : 0u));
                ASSERT_EQ(front + result->data_bytes + (result->data_digest ? 4u : 0u), plen);
            }
        }
    }
}

TEST(NvmeTcpPdu, Fields) {
    const auto judge = [](auto pdu, const CommonHeader& ch, const PduRules& rules) -> std::optional<Violation> {
        pdu.ch = ch;
        const auto shape = check_header(ch, rules);
        EXPECT_TRUE(shape.has_value());
        const Violation* violation = check_fields(std::as_bytes(std::span(&pdu, 1)), *shape);
        return violation != nullptr ? std::optional(*violation) : std::nullopt;
    };
    const auto expect = [](const std::optional<Violation>& found, FatalStatus fes, std::uint32_t fei) {
        ASSERT_TRUE(found);
        EXPECT_EQ(found->fes, fes);
        EXPECT_EQ(found->fei, fei);
    };
    const auto ic = common(PduType::ic_req, 0, 128, 0, 128), ic_answer = common(PduType::ic_resp, 0, 128, 0, 128);
    EXPECT_FALSE(judge(IcReq{.hpda = 31, .maxr2t = UINT32_MAX}, ic, fresh(Sender::host)));
    expect(judge(IcReq{.pfv = 1}, ic, fresh(Sender::host)), FatalStatus::unsupported_parameter, 8);
    expect(judge(IcReq{.hpda = 32}, ic, fresh(Sender::host)), FatalStatus::unsupported_parameter, 10);
    EXPECT_FALSE(judge(IcResp{.cpda = 31, .maxh2cdata = 4096}, ic_answer, fresh(Sender::controller)));
    expect(judge(IcResp{.pfv = 0x100, .maxh2cdata = 4096}, ic_answer, fresh(Sender::controller)),
           FatalStatus::unsupported_parameter, 8);
    expect(judge(IcResp{.cpda = 255, .maxh2cdata = 4096}, ic_answer, fresh(Sender::controller)),
           FatalStatus::unsupported_parameter, 10);
    for (const std::uint32_t most : {0u, 4095u, 4098u, 0xffffffffu}) {
        expect(judge(IcResp{.maxh2cdata = most}, ic_answer, fresh(Sender::controller)),
               FatalStatus::invalid_header_field, 12);
    }
    const auto data = common(PduType::h2c_data, 4, 24, 24, 24 + 4096);
    EXPECT_FALSE(judge(H2CData{.datal = 4096}, data, from_host()));
    for (const std::uint32_t length : {0u, 4095u, 4097u, 0xffffffffu}) {
        expect(judge(H2CData{.datal = length}, data, from_host()), FatalStatus::invalid_header_field, 16);
    }
    const auto ready = common(PduType::r2t, 0, 24, 0, 24);
    EXPECT_FALSE(judge(R2T{.r2tl = 1}, ready, from_controller()));
    expect(judge(R2T{.r2tl = 0}, ready, from_controller()), FatalStatus::invalid_header_field, 16);
}

}  // namespace
}  // namespace mqblk::wire::nvme_tcp
