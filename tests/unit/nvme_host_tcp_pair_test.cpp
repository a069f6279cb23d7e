// SPDX-License-Identifier: Apache-2.0
//
// The queue pair over TCP without sockets: what it sends, byte for byte, and what it makes of what comes.
#include "base/crc32c.h"
#include "driver/nvme/drain.h"
#include "reactor/simulated.h"
#include "support/tcp_pair_exerciser.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>

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

TEST(NvmeHostTcpPair, TheReasonNamesFatalStatusAndField) {
    struct Case {
        std::uint16_t fes;
        std::uint32_t fei;
        const char* text;
    };
    for (const Case& item :
         {Case{1, 8, "the target ended the connection: FES 1 (invalid PDU header field), at byte 8"},
          Case{2, 0, "FES 2 (PDU sequence error), FEI 0x0"}, Case{3, 0xabc, "FES 3 (header digest error), FEI 0xabc"},
          Case{4, 12, "FES 4 (data transfer out of range), at byte 12"},
          Case{5, 0, "FES 5 (data or R2T limit exceeded), FEI 0x0"},
          Case{6, 10, "FES 6 (unsupported parameter), at byte 10"},
          Case{99, 7, "FES 99 (unknown to NVMe/TCP 1.0), FEI 0x7"}}) {
        TcpPairExerciser ex({.in_capsule_bytes = 4096});
        ex.accept();
        tcp::TermReq request{};
        request.ch.type = static_cast<std::uint8_t>(tcp::PduType::c2h_term_req);
        request.ch.hlen = sizeof(request);
        request.ch.plen = sizeof(request);
        request.fes = item.fes;
        request.fei = item.fei;
        ex.feed_pdu(request);
        ex.pump();
        ASSERT_TRUE(ex.pair->lost());
        EXPECT_NE(ex.pair->reason().find(item.text), std::string::npos) << ex.pair->reason();
    }
}

// After its TermReq a host waits for the target to close; what still comes is nobody's.
TEST(NvmeHostTcpPair, AfterATermReqTheTargetClosesFirst) {
    SimulatedWorld world(1);
    const auto reactor = world.make_reactor();
    TcpPairExerciser ex({.in_capsule_bytes = 4096});
    ex.accept();
    static_cast<void>(ex.sent());
    ex.feed_pdu(response(77));  // to nothing
    ex.pump();
    ASSERT_TRUE(ex.pair->lost());
    auto parting = ex.pair->part();
    EXPECT_FALSE(parting.over);
    ASSERT_NE(parting.connection, nullptr);
    ex.pair.reset();
    const auto sent = ex.sent();
    ASSERT_GE(sent.size(), sizeof(tcp::TermReq));
    EXPECT_EQ(static_cast<tcp::PduType>(sent[0]), tcp::PduType::h2c_term_req);

    auto* const connection = static_cast<MemoryConnection*>(parting.connection.get());
    bool gone = false;
    connection->gone = [&gone](MemoryConnection*) { gone = true; };
    unsigned over = 0;
    driver::nvme::Drain drain(*reactor, std::move(parting.connection), std::chrono::seconds(30), [&over] { ++over; });
    ex.feed(std::vector<std::byte>(100'000));
    EXPECT_TRUE(connection->fire());
    EXPECT_FALSE(gone);
    EXPECT_EQ(over, 0u);
    ex.target->shutdown();
    EXPECT_TRUE(connection->fire());
    EXPECT_TRUE(gone);
    EXPECT_EQ(over, 1u);
}

TEST(NvmeHostTcpPair, ATargetThatDoesNotCloseIsWaitedForNoLonger) {
    SimulatedWorld world(1);
    const auto reactor = world.make_reactor();
    auto ends = connection_pair();
    bool gone = false;
    ends.first->gone = [&gone](MemoryConnection*) { gone = true; };
    unsigned over = 0;
    driver::nvme::Drain drain(*reactor, std::move(ends.first), std::chrono::seconds(30), [&over] { ++over; });
    world.run_for(std::chrono::seconds(29));
    EXPECT_FALSE(gone);
    world.run_for(std::chrono::seconds(2));
    EXPECT_TRUE(gone);
    EXPECT_EQ(over, 0u);
    EXPECT_TRUE(driver::nvme::Drain::ended_by_peer(ECONNRESET));
    EXPECT_FALSE(driver::nvme::Drain::ended_by_peer(ETIMEDOUT));
}

}  // namespace
}  // namespace mqblk::test
