// SPDX-License-Identifier: Apache-2.0
//
// The queue pair over TCP without sockets: what it sends, byte for byte, and what it makes of what comes.
#include "base/crc32c.h"
#include "support/tcp_pair_exerciser.h"

#include <gtest/gtest.h>

namespace mqblk::test {
namespace {

namespace tcp = wire::nvme_tcp;
using Transfer = driver::nvme::Transfer;

template <class Pdu>
Pdu header_of(std::uint8_t flags, std::size_t data_bytes) {
    Pdu pdu{};
    pdu.ch.type = static_cast<std::uint8_t>(Pdu::type);
    pdu.ch.flags = flags;
    pdu.ch.hlen = sizeof(Pdu);
    pdu.ch.pdo = data_bytes > 0 ? sizeof(Pdu) : 0;
    pdu.ch.plen = static_cast<std::uint32_t>(sizeof(Pdu) + data_bytes);
    return pdu;
}

tcp::CapsuleResp response(std::uint16_t id, std::uint16_t status = 0) {
    auto pdu = header_of<tcp::CapsuleResp>(0, 0);
    pdu.completion.command_id = id;
    wire::nvme::set_status(pdu.completion, status);
    return pdu;
}

tcp::C2HData data(std::uint16_t id, std::uint32_t offset, std::uint32_t bytes, std::uint8_t flags) {
    auto pdu = header_of<tcp::C2HData>(flags, bytes);
    pdu.cccid = id;
    pdu.datao = offset;
    pdu.datal = bytes;
    return pdu;
}

tcp::R2T r2t(std::uint16_t id, std::uint16_t tag, std::uint32_t offset, std::uint32_t bytes) {
    auto pdu = header_of<tcp::R2T>(0, 0);
    pdu.cccid = id;
    pdu.ttag = tag;
    pdu.r2to = offset;
    pdu.r2tl = bytes;
    return pdu;
}

TEST(NvmeHostTcpPair, InitializesAsSpecified) {
    TcpPairExerciser ex({.header_digest = true, .data_digest = true, .in_capsule_bytes = 4096});
    const auto sent = ex.sent();
    ASSERT_EQ(sent.size(), 128u);
    const std::uint8_t head[] = {0, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0};
    EXPECT_EQ(std::memcmp(sent.data(), head, sizeof(head)), 0);
    EXPECT_FALSE(ex.pair->initialized());
    ex.accept(3);
    EXPECT_TRUE(ex.pair->initialized());
    EXPECT_FALSE(ex.pair->lost());
}

TEST(NvmeHostTcpPair, RefusesOtherDigestsThanAsked) {
    for (const std::uint8_t granted : {0, 1, 2}) {
        TcpPairExerciser ex({.header_digest = true, .data_digest = true, .in_capsule_bytes = 4096});
        ex.accept(granted);
        EXPECT_TRUE(ex.pair->lost()) << unsigned{granted};
    }
    TcpPairExerciser ex({.in_capsule_bytes = 4096});
    ex.accept(1);
    EXPECT_TRUE(ex.pair->lost());
}

TEST(NvmeHostTcpPair, SmallWriteTravelsInItsCapsule) {
    TcpPairExerciser ex({.in_capsule_bytes = 4096});
    ex.accept();
    static_cast<void>(ex.sent());
    auto& slot = ex.submit(9, Transfer::to_target, 4096);
    const auto sent = ex.sent();
    ASSERT_EQ(sent.size(), 72u + 4096);
    const std::uint8_t head[] = {4, 0, 72, 72, 0x48, 0x10, 0, 0};
    EXPECT_EQ(std::memcmp(sent.data(), head, sizeof(head)), 0);
    // The SGL: offset 0 in the capsule, 4096 bytes, type 01h.
    const std::uint8_t sgl[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 1};
    EXPECT_EQ(std::memcmp(sent.data() + 8 + 24, sgl, sizeof(sgl)), 0);
    EXPECT_EQ(std::memcmp(sent.data() + 72, slot.memory.data(), 4096), 0);
    ex.feed_pdu(response(9));
    ex.pump();
    EXPECT_EQ(slot.completions, 1u);
    EXPECT_FALSE(ex.pair->lost());
}

TEST(NvmeHostTcpPair, LargeWriteIsSentAsAsked) {
    TcpPairExerciser ex({.in_capsule_bytes = 4096});
    ex.accept(0, 4096);
    static_cast<void>(ex.sent());
    auto& slot = ex.submit(2, Transfer::to_target, 20000);
    auto sent = ex.sent();
    ASSERT_EQ(sent.size(), 72u);
    EXPECT_EQ(sent[8 + 24 + 15], std::byte{0x5a});
    ex.feed_pdu(r2t(2, 77, 0, 10000));
    ex.feed_pdu(r2t(2, 78, 10000, 10000));
    ex.pump();
    sent = ex.sent();
    std::size_t at = 0, offset = 0;
    for (const unsigned bytes : {4096u, 4096u, 1808u, 4096u, 4096u, 1808u}) {
        ASSERT_GE(sent.size(), at + 24 + bytes);
        tcp::H2CData pdu;
        std::memcpy(&pdu, sent.data() + at, sizeof(pdu));
        EXPECT_EQ(pdu.ch.type, 6);
        EXPECT_EQ(pdu.ch.plen, 24 + bytes);
        EXPECT_EQ(pdu.cccid, 2);
        EXPECT_EQ(pdu.ttag, offset < 10000 ? 77 : 78);
        EXPECT_EQ(pdu.datao, offset);
        EXPECT_EQ(pdu.datal, bytes);
        EXPECT_EQ(pdu.ch.flags, bytes == 1808 ? tcp::flag_last : 0);
        EXPECT_EQ(std::memcmp(sent.data() + at + 24, slot.memory.data() + offset, bytes), 0);
        at += 24 + bytes;
        offset += bytes;
    }
    EXPECT_EQ(at, sent.size());
    ex.feed_pdu(response(2));
    ex.pump();
    EXPECT_EQ(slot.completions, 1u);
}

// The answer to a read cut into pieces of every size up to some, one and several PDUs.
TEST(NvmeHostTcpPair, ReadArrivesHoweverItIsCut) {
    for (std::size_t step = 1; step < 140; step += step < 30 ? 1 : 13) {
        TcpPairExerciser ex({.in_capsule_bytes = 4096}, step);
        ex.accept();
        auto& slot = ex.submit(3, Transfer::to_host, 1000);
        std::vector<std::byte> expected(1000);
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<std::byte>(i * 3);
        ex.feed_pdu(data(3, 0, 400, 0));
        ex.feed(std::span(expected).first(400));
        ex.feed_pdu(data(3, 400, 600, tcp::flag_last | tcp::flag_success));
        ex.feed(std::span(expected).subspan(400));
        ex.pump();
        EXPECT_EQ(slot.completions, 1u) << step;
        EXPECT_TRUE(slot.memory == expected) << step;
        EXPECT_FALSE(ex.pair->lost()) << ex.pair->reason();
    }
}

// A wrong data digest fails that command, with a status that is worth a retry; the connection stays.
TEST(NvmeHostTcpPair, WrongDataDigestEndsTheCommandOnly) {
    for (const bool wrong : {false, true}) {
        TcpPairExerciser ex({.data_digest = true, .in_capsule_bytes = 4096});
        ex.accept(tcp::dgst_data);
        auto& slot = ex.submit(1, Transfer::to_host, 512);
        auto pdu = data(1, 0, 512, tcp::flag_last | tcp::flag_ddgst);
        pdu.ch.plen = pdu.ch.plen + 4;
        const std::vector<std::byte> bytes(512, std::byte{0x33});
        const le32 digest = Crc32c::of(bytes.data(), bytes.size()) ^ (wrong ? 1u : 0u);
        ex.feed_pdu(pdu);
        ex.feed(bytes);
        ex.feed_pdu(digest);
        ex.feed_pdu(response(1));
        ex.pump();
        EXPECT_EQ(slot.completions, 1u);
        EXPECT_EQ(slot.status, wrong ? wire::nvme::status::data_transfer_error : 0);
        EXPECT_FALSE(ex.pair->lost());
    }
}

TEST(NvmeHostTcpPair, WrongHeaderDigestEndsTheConnection) {
    TcpPairExerciser ex({.header_digest = true, .in_capsule_bytes = 4096});
    ex.accept(tcp::dgst_header);
    auto& slot = ex.submit(1, Transfer::none, 0);
    auto pdu = response(1);
    pdu.ch.flags = tcp::flag_hdgst;
    pdu.ch.plen = sizeof(pdu) + 4;
    ex.feed_pdu(pdu);
    ex.feed_pdu(le32(Crc32c::of(&pdu, sizeof(pdu)) + 1));
    ex.pump();
    EXPECT_EQ(slot.completions, 0u);
    EXPECT_TRUE(ex.pair->lost());
}

// An error may come before, between and after data of a read.
TEST(NvmeHostTcpPair, ErrorEndsAReadAtAnyPoint) {
    for (const std::uint32_t before : {0u, 256u, 512u}) {
        TcpPairExerciser ex({.in_capsule_bytes = 4096});
        ex.accept();
        auto& slot = ex.submit(1, Transfer::to_host, 512);
        if (before > 0) {
            ex.feed_pdu(data(1, 0, before, 0));
            ex.feed(std::vector<std::byte>(before));
        }
        ex.feed_pdu(response(1, wire::nvme::status::internal_error));
        ex.pump();
        EXPECT_EQ(slot.completions, 1u);
        EXPECT_EQ(slot.status, wire::nvme::status::internal_error);
        EXPECT_FALSE(ex.pair->lost());
    }
}

// The response must not come while the command's own data still waits to be sent: its memory would be in use.
TEST(NvmeHostTcpPair, ResponseBeforeTheDataIsSentIsALie) {
    TcpPairExerciser ex({.in_capsule_bytes = 4096});
    ex.accept();
    static_cast<void>(ex.sent());
    auto& slot = ex.submit(1, Transfer::to_target, 20000);
    ex.feed_pdu(r2t(1, 1, 0, 20000));
    ex.feed_pdu(response(1));
    ex.pair->poll();  // both arrive in one receive, before anything of the data is sent
    EXPECT_TRUE(ex.pair->lost());
    EXPECT_EQ(slot.completions, 0u);
}

}  // namespace
}  // namespace mqblk::test
