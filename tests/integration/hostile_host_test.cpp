// SPDX-License-Identifier: Apache-2.0
//
// Hosts that break the rules of NVMe/TCP, against a real target over loopback: each violation costs its connection,
// with the right status, and nothing else.
#include "scripted_session.h"

#include <gtest/gtest.h>

#include <vector>

namespace mqblk::test {
namespace {

using namespace wire;
using namespace wire::nvme_tcp;
namespace io_opcode = wire::nvme::io_opcode;

constexpr std::uint32_t most_h2c_data = 256 * 1024;

void expect_works(const Served& served) {
    Session session(served, {});
    EXPECT_TRUE(session.read(0, 4096));
}

class HostileHost : public testing::TestWithParam<Digests> {};

// What is right must work, in pieces as odd as those of the attacks.
TEST_P(HostileHost, ValidTransferInOddPieces) {
    Served served;
    for (const std::uint32_t max_r2t : {0u, 1u, 7u}) {
        Session session(served, GetParam(), max_r2t, 127, max_r2t == 7 ? 15 : 0);
        SeededRandom random(max_r2t);
        for (const std::uint32_t bytes : {transfer_bytes, 512u, 1u << 20, 300u * 1024}) {
            const Bytes data = pattern_of(bytes, bytes + max_r2t);
            ASSERT_TRUE(session.io->send(session.io->capsule(ScriptedHost::io(io_opcode::write, 9, 8, bytes / 512))));
            std::uint32_t asked = 0, most_outstanding = 0;
            std::vector<R2T> open;
            std::uint32_t sent = 0;
            while (sent < bytes) {
                while (asked < bytes && open.size() <= max_r2t && (open.empty() || asked < bytes)) {
                    if (!open.empty() && max_r2t == 0) break;
                    const auto r2t = session.io->expect<R2T>();
                    ASSERT_TRUE(r2t);
                    ASSERT_EQ(r2t->cccid, 9);
                    ASSERT_EQ(r2t->r2to, asked);
                    ASSERT_LE(std::uint64_t{asked} + r2t->r2tl, bytes);
                    asked += r2t->r2tl;
                    open.push_back(*r2t);
                    if (open.size() > 3) break;  // the target asks for no more than four at once
                }
                most_outstanding = std::max<std::uint32_t>(most_outstanding, static_cast<std::uint32_t>(open.size()));
                const R2T r2t = open.front();
                open.erase(open.begin());
                for (std::uint32_t done = 0; done < r2t.r2tl;) {
                    const auto piece =
                        static_cast<std::uint32_t>(std::min<std::uint64_t>(1 + random.below(60'000), r2t.r2tl - done));
                    const std::uint32_t at = r2t.r2to + done;
                    ASSERT_TRUE(session.io->send(session.io->h2c_data(
                        9, r2t.ttag, at, std::span(data).subspan(at, piece), done + piece == r2t.r2tl)));
                    done += piece;
                }
                sent += r2t.r2tl;
            }
            if (max_r2t == 0) {
                EXPECT_EQ(most_outstanding, 1u);
            }
            const auto response = session.io->expect<CapsuleResp>();
            ASSERT_TRUE(response);
            EXPECT_EQ(nvme::status_of(response->completion), 0);
            const auto back = session.read(8, bytes);
            ASSERT_TRUE(back);
            EXPECT_TRUE(*back == data) << bytes << " bytes, MAXR2T " << max_r2t;
        }
    }
}

TEST_P(HostileHost, InCapsuleDataAreExact) {
    Served served;
    Session session(served, GetParam());
    for (std::uint32_t bytes = 512; bytes <= 16384; bytes += 512) {
        const Bytes data = pattern_of(bytes, bytes);
        const auto write =
            ScriptedHost::io(io_opcode::write, static_cast<std::uint16_t>(bytes), 100, bytes / 512, 512, true);
        EXPECT_EQ(session.io->run(write, data), 0);
        const auto back = session.read(100, bytes);
        ASSERT_TRUE(back);
        EXPECT_TRUE(*back == data) << bytes;
    }
}

struct BadData {
    const char* name;
    FatalStatus fes;
    std::uint32_t fei;
    /// Makes the PDU from a right one for the whole transfer.
    void (*bend)(H2CData&, Bytes& data, std::uint8_t& flags);
    std::uint32_t first_piece = 0;  ///< bytes rightly sent before
};

void set_length(H2CData& pdu, Bytes& data, std::uint32_t bytes) {
    data.resize(bytes);
    pdu.datal = bytes;
}

const BadData bad_data[] = {
    {"length field 0", FatalStatus::invalid_header_field, 16, [](H2CData& p, Bytes&, std::uint8_t&) { p.datal = 0; }},
    {"length field + 1", FatalStatus::invalid_header_field, 16,
     [](H2CData& p, Bytes&, std::uint8_t&) { p.datal = p.datal + 1; }},
    {"length field 2^32 - 1", FatalStatus::invalid_header_field, 16,
     [](H2CData& p, Bytes&, std::uint8_t&) { p.datal = 0xffffffff; }},
    {"length + 1", FatalStatus::out_of_range, 16,
     [](H2CData& p, Bytes& d, std::uint8_t&) { set_length(p, d, transfer_bytes + 1); }},
    {"length twice", FatalStatus::out_of_range, 16,
     [](H2CData& p, Bytes& d, std::uint8_t&) { set_length(p, d, 2 * transfer_bytes); }},
    {"length above MAXH2CDATA", FatalStatus::limit_exceeded, 4,
     [](H2CData& p, Bytes& d, std::uint8_t&) { set_length(p, d, most_h2c_data + 4); }},
    {"no data", FatalStatus::invalid_header_field, 3, [](H2CData& p, Bytes& d, std::uint8_t&) { set_length(p, d, 0); }},
    {"last piece longer by a byte", FatalStatus::out_of_range, 16,
     [](H2CData& p, Bytes& d, std::uint8_t&) {
         p.datao = 1001;
         set_length(p, d, transfer_bytes - 1001 + 1);
     },
     1001},
    {"overlap of a byte", FatalStatus::out_of_range, 12,
     [](H2CData& p, Bytes& d, std::uint8_t&) {
         p.datao = 1000;
         set_length(p, d, transfer_bytes - 1000);
     },
     1001},
    {"gap of a byte", FatalStatus::out_of_range, 12,
     [](H2CData& p, Bytes& d, std::uint8_t&) {
         p.datao = 1002;
         set_length(p, d, transfer_bytes - 1002);
     },
     1001},
    {"the same piece again", FatalStatus::out_of_range, 12,
     [](H2CData& p, Bytes& d, std::uint8_t& f) {
         set_length(p, d, 1001);
         f = 0;
     },
     1001},
    {"offset 1", FatalStatus::out_of_range, 12, [](H2CData& p, Bytes&, std::uint8_t&) { p.datao = 1; }},
    {"offset past the end", FatalStatus::out_of_range, 12,
     [](H2CData& p, Bytes&, std::uint8_t&) { p.datao = transfer_bytes; }},
    {"offset 2^32 - 1", FatalStatus::out_of_range, 12, [](H2CData& p, Bytes&, std::uint8_t&) { p.datao = 0xffffffff; }},
    {"tag + 1", FatalStatus::sequence_error, 0,
     [](H2CData& p, Bytes&, std::uint8_t&) { p.ttag = static_cast<std::uint16_t>(p.ttag + 1); }},
    {"tag of another generation", FatalStatus::sequence_error, 0,
     [](H2CData& p, Bytes&, std::uint8_t&) { p.ttag = static_cast<std::uint16_t>(p.ttag ^ 0x8000); }},
    {"tag 65535", FatalStatus::sequence_error, 0, [](H2CData& p, Bytes&, std::uint8_t&) { p.ttag = 0xffff; }},
    {"the command's identifier as tag", FatalStatus::sequence_error, 0,
     [](H2CData& p, Bytes&, std::uint8_t&) { p.ttag = p.cccid; }},
    {"another command identifier", FatalStatus::invalid_header_field, 8,
     [](H2CData& p, Bytes&, std::uint8_t&) { p.cccid = static_cast<std::uint16_t>(p.cccid + 1); }},
    {"LAST_PDU too early", FatalStatus::invalid_header_field, 1,
     [](H2CData& p, Bytes& d, std::uint8_t&) { set_length(p, d, 4096); }},
    {"LAST_PDU missing", FatalStatus::invalid_header_field, 1, [](H2CData&, Bytes&, std::uint8_t& f) { f = 0; }},
};

TEST_P(HostileHost, DataThatDifferFromTheR2T) {
    ServedOptions options;
    options.tcp.max_h2c_data_bytes = most_h2c_data;
    Served served(options);
    for (const BadData& bad : bad_data) {
        SCOPED_TRACE(bad.name);
        Session session(served, GetParam());
        const R2T r2t = session.write(0x4321);
        Bytes data = pattern_of(transfer_bytes, 1);
        if (bad.first_piece > 0) {
            ASSERT_TRUE(session.io->send(
                session.io->h2c_data(0x4321, r2t.ttag, 0, std::span(data).first(bad.first_piece), false)));
        }
        H2CData pdu;
        pdu.cccid = 0x4321;
        pdu.ttag = r2t.ttag;
        pdu.datal = transfer_bytes;
        std::uint8_t flags = flag_last;
        bad.bend(pdu, data, flags);
        session.io->send(ScriptedHost::build(pdu, data, GetParam(), flags));
        const auto terminated = session.io->terminated();
        ASSERT_TRUE(terminated);
        EXPECT_EQ(terminated->fes, static_cast<std::uint16_t>(bad.fes));
        EXPECT_EQ(terminated->fei, bad.fei);
    }
    expect_works(served);
}

TEST_P(HostileHost, DataForATagThatIsNotOutstanding) {
    Served served;
    const auto expect_sequence_error = [](ScriptedHost& host, std::uint16_t cccid, std::uint16_t ttag) {
        host.send(host.h2c_data(cccid, ttag, 0, Bytes(4096), true));
        const auto terminated = host.terminated();
        ASSERT_TRUE(terminated);
        EXPECT_EQ(terminated->fes, static_cast<std::uint16_t>(FatalStatus::sequence_error));
    };
    {
        SCOPED_TRACE("of a free slot");
        Session session(served, GetParam());
        expect_sequence_error(*session.io, 1, 0);
    }
    {
        SCOPED_TRACE("of a read");
        Session session(served, GetParam());
        session.io->send(session.io->capsule(ScriptedHost::io(io_opcode::read, 0, 0, 8)));
        expect_sequence_error(*session.io, 0, 0);
    }
    {
        SCOPED_TRACE("of an admin command");
        Session session(served, GetParam());
        nvme::Command event;
        event.opcode = nvme::admin_opcode::async_event_request;
        event.flags = nvme::flag_psdt_sgl;
        event.command_id = 0;
        event.data.type = nvme::sgl_transport_data;
        session.admin->send(session.admin->capsule(event));
        expect_sequence_error(*session.admin, 0, 0);
    }
    {
        SCOPED_TRACE("of a finished command");
        Session session(served, GetParam());
        const R2T r2t = session.write(5, 0, 4096 + 16384);
        const Bytes data = pattern_of(4096 + 16384, 3);
        ASSERT_TRUE(session.io->send(session.io->h2c_data(5, r2t.ttag, 0, data, true)));
        ASSERT_TRUE(session.io->expect<CapsuleResp>());
        expect_sequence_error(*session.io, 5, r2t.ttag);
    }
    {
        SCOPED_TRACE("before Connect");
        const auto host = served.dial();
        ASSERT_TRUE(host->initialize(GetParam()));
        expect_sequence_error(*host, 0, 0);
    }
    expect_works(served);
}

// Nobody makes the target ask for data before it has said who it is; in the capsule they are welcome.
TEST_P(HostileHost, ConnectDataByR2T) {
    Served served;
    const auto host = served.dial();
    ASSERT_TRUE(host->initialize(GetParam()));
    nvme::ConnectCommand connect;
    connect.command_id = 3;
    connect.data.length = sizeof(nvme::ConnectData);
    connect.data.type = nvme::sgl_transport_data;
    connect.sq_size = 31;
    const auto status = host->run(std::bit_cast<nvme::Command>(connect));
    ASSERT_TRUE(status);
    EXPECT_EQ(*status, nvme::status::sgl_invalid_type | nvme::status::do_not_retry);
    const auto connected = host->connect(0, served_nqn, 0xffff);
    ASSERT_TRUE(connected);
    EXPECT_EQ(nvme::status_of(*connected), 0);
    EXPECT_TRUE(host->enable());
}

INSTANTIATE_TEST_SUITE_P(Digests, HostileHost, testing::ValuesIn(all_digests), [](const auto& test) {
    return std::string("H") + (test.param.header ? "1" : "0") + "D" + (test.param.data ? "1" : "0");
});

TEST(HostileHost, WrongDataDigestFailsTheCommandOnly) {
    Served served;
    const Digests digests{true, true};
    Session session(served, digests);
    const Bytes data = pattern_of(transfer_bytes, 4), before = pattern_of(transfer_bytes, 5);
    for (const Bytes* content : {&before, &data}) {
        const R2T r2t = session.write(1);
        auto pdu = session.io->h2c_data(1, r2t.ttag, 0, *content, true);
        if (content == &data) pdu[5000] ^= std::byte{1};
        ASSERT_TRUE(session.io->send(pdu));
        const auto response = session.io->expect<CapsuleResp>();
        ASSERT_TRUE(response);
        EXPECT_EQ(nvme::status_of(response->completion) & nvme::status::code_mask,
                  content == &data ? nvme::status::data_transfer_error : 0);
    }
    EXPECT_TRUE(session.read(0, transfer_bytes) == before) << "nothing of the damaged data may be written";

    const auto write = ScriptedHost::io(io_opcode::write, 2, 0, 8, 512, true);
    auto capsule = session.io->capsule(write, std::span(data).first(4096));
    capsule.back() ^= std::byte{1};
    ASSERT_TRUE(session.io->send(capsule));
    const auto response = session.io->expect<CapsuleResp>();
    ASSERT_TRUE(response);
    EXPECT_EQ(nvme::status_of(response->completion) & nvme::status::code_mask, nvme::status::data_transfer_error);
    EXPECT_TRUE(session.read(0, transfer_bytes) == before);
}

TEST(HostileHost, InCapsuleDataThatDoNotFitTheirCommand) {
    Served served;
    Session session(served, {});
    const Bytes data = pattern_of(8192, 6);
    const auto expect_failure = [&](nvme::Command command, std::size_t bytes) {
        const auto status = session.io->run(command, std::span(data).first(bytes));
        ASSERT_TRUE(status);
        EXPECT_NE(*status & nvme::status::code_mask, 0);
    };
    expect_failure(ScriptedHost::io(io_opcode::write, 1, 0, 8, 512, true), 512);    // the SGL says more
    expect_failure(ScriptedHost::io(io_opcode::write, 2, 0, 8, 512, true), 8192);   // the SGL says less
    expect_failure(ScriptedHost::io(io_opcode::write, 3, 0, 8, 512, true), 0);      // there are none
    expect_failure(ScriptedHost::io(io_opcode::write, 4, 0, 8, 512, false), 4096);  // R2T was asked for
    expect_failure(ScriptedHost::io(io_opcode::read, 5, 0, 8, 512, false), 4096);   // a read has none
    expect_failure(ScriptedHost::io(0xee, 6, 0, 8, 512, true), 4096);               // no such command
    expect_failure(ScriptedHost::io(io_opcode::write, 7, ~0ull - 3, 8, 512, true), 4096);
    EXPECT_TRUE(session.read(0, 4096)) << "all that is the command's fault, not the connection's";
}

struct BadPdu {
    const char* name;
    FatalStatus fes;
    std::uint32_t fei;
    CommonHeader header;
    bool initialized = true;
};

TEST(HostileHost, MalformedPdus) {
    const BadPdu bad[] = {
        {"unknown type", FatalStatus::invalid_header_field, 0, {0x0a, 0, 24, 0, 24u}},
        {"R2T", FatalStatus::invalid_header_field, 0, {9, 0, 24, 0, 24u}},
        {"second ICReq", FatalStatus::sequence_error, 0, {0, 0, 128, 0, 128u}},
        {"command first", FatalStatus::sequence_error, 0, {4, 0, 72, 0, 72u}, false},
        {"header length", FatalStatus::invalid_header_field, 2, {4, 0, 71, 0, 72u}},
        {"digest not agreed", FatalStatus::invalid_header_field, 1, {4, 1, 72, 0, 76u}},
        {"data offset", FatalStatus::invalid_header_field, 3, {4, 0, 72, 71, 100u}},
        {"length 0", FatalStatus::invalid_header_field, 4, {4, 0, 72, 0, 0u}},
        {"length 2^32 - 1", FatalStatus::invalid_header_field, 4, {4, 0, 72, 72, 0xffffffffu}},
        {"more in-capsule data than announced", FatalStatus::invalid_header_field, 4, {4, 0, 72, 72, 72u + 8193}},
    };
    Served served;
    for (const BadPdu& pdu : bad) {
        SCOPED_TRACE(pdu.name);
        const auto host = served.dial();
        if (pdu.initialized) {
            ASSERT_TRUE(host->initialize());
        }
        Bytes bytes(std::max<std::size_t>(pdu.header.hlen, 72));
        std::memcpy(bytes.data(), &pdu.header, sizeof(pdu.header));
        ASSERT_TRUE(host->send(bytes));
        const auto terminated = host->terminated();
        ASSERT_TRUE(terminated);
        EXPECT_EQ(terminated->fes, static_cast<std::uint16_t>(pdu.fes));
        EXPECT_EQ(terminated->fei, pdu.fei);
    }
    for (const auto& [version, hpda, fei] : {std::tuple{1u, 0u, 8u}, std::tuple{0u, 32u, 10u}}) {
        const auto host = served.dial();
        IcReq request;
        request.pfv = static_cast<std::uint16_t>(version);
        request.hpda = static_cast<std::uint8_t>(hpda);
        ASSERT_TRUE(host->send(ScriptedHost::build(request, {}, {})));
        const auto terminated = host->terminated();
        ASSERT_TRUE(terminated);
        EXPECT_EQ(terminated->fes, static_cast<std::uint16_t>(FatalStatus::unsupported_parameter));
        EXPECT_EQ(terminated->fei, fei);
    }
    {
        SCOPED_TRACE("wrong header digest");
        const auto host = served.dial();
        ASSERT_TRUE(host->initialize({true, false}));
        auto capsule = host->capsule(ScriptedHost::io(2, 1, 0, 1));
        capsule[72] ^= std::byte{0x40};
        ASSERT_TRUE(host->send(capsule));
        const auto terminated = host->terminated();
        ASSERT_TRUE(terminated);
        EXPECT_EQ(terminated->fes, static_cast<std::uint16_t>(FatalStatus::header_digest_error));
    }
    expect_works(served);
}

TEST(HostileHost, MoreCommandsThanTheQueueHasEntries) {
    Served served;
    Session session(served, {}, 0, 3);
    for (std::uint16_t id = 0; id < 4; ++id) session.write(id, 0);
    session.io->send(session.io->capsule(ScriptedHost::io(io_opcode::read, 9, 0, 1)));
    const auto terminated = session.io->terminated();
    ASSERT_TRUE(terminated);
    EXPECT_EQ(terminated->fes, static_cast<std::uint16_t>(FatalStatus::sequence_error));
    expect_works(served);
}

// Nobody reads the answers: all buffers are taken, and commands wait. A new host is served all the same.
TEST(HostileHost, FloodOfLargeReads) {
    ServedOptions options;
    options.target.max_transfer_bytes = 1u << 20;
    options.tcp.buffer_bytes = 4u << 20;
    Served served(options);
    Session flood(served, {false, true});  // data digests: nothing is lent, every read takes a buffer
    constexpr std::uint32_t blocks = (1u << 20) / 512;
    Bytes requests;
    for (std::uint16_t id = 0; id < 64; ++id) {
        const auto capsule = flood.io->capsule(ScriptedHost::io(io_opcode::read, id, id * 32u, blocks));
        requests.insert(requests.end(), capsule.begin(), capsule.end());
    }
    ASSERT_TRUE(flood.io->send(requests));
    const auto begin = std::chrono::steady_clock::now();
    const auto other = served.dial();
    ASSERT_TRUE(other->initialize({false, true}));
    const auto connected = other->connect(0, served_nqn, 0xffff);
    ASSERT_TRUE(connected);
    EXPECT_EQ(nvme::status_of(*connected), 0);
    ASSERT_TRUE(other->enable());
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
    for (std::uint16_t id = 0; id < 64; ++id) {
        std::uint32_t bytes = 0;
        for (bool last = false; !last;) {
            const auto pdu = flood.io->receive();
            ASSERT_TRUE(pdu);
            ASSERT_EQ(pdu->type(), PduType::c2h_data);
            const auto header = pdu->as<C2HData>();
            EXPECT_EQ(header.cccid, id) << "whoever waited longer is served first";
            ASSERT_EQ(header.datao, bytes);
            bytes += header.datal;
            last = (header.ch.flags & flag_last) != 0;
            ASSERT_TRUE((header.ch.flags & flag_success) != 0 || !last);
        }
        EXPECT_EQ(bytes, blocks * 512);
    }
}

TEST(HostileHost, SilentHostsAreLetGo) {
    ServedOptions options;
    options.tcp.handshake = std::chrono::milliseconds(100);
    Served served(options);
    const auto silent = served.dial(), half = served.dial(), partial = served.dial();
    ASSERT_TRUE(half->initialize());
    ASSERT_TRUE(partial->send(Bytes(5)));
    std::size_t dropped = 0;
    EXPECT_TRUE(silent->link().ended(dropped));
    EXPECT_TRUE(half->link().ended(dropped));
    EXPECT_TRUE(partial->link().ended(dropped));
    expect_works(served);
}

TEST(HostileHost, ShutdownWithCommandsInFlight) {
    ServedOptions options;
    driver::null::Options disk;
    disk.bytes = 1u << 30;
    disk.latency = std::chrono::milliseconds(50);
    options.device = must(driver::null::open(disk));
    auto served = std::make_unique<Served>(options);
    Session session(*served, {true, true});
    for (std::uint16_t id = 0; id < 16; ++id) {
        session.io->send(session.io->capsule(ScriptedHost::io(io_opcode::read, id, 0, 64)));
    }
    session.write(100);
    served.reset();
    std::size_t dropped = 0;
    EXPECT_TRUE(session.io->link().ended(dropped));
}

}  // namespace
}  // namespace mqblk::test
