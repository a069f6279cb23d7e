// SPDX-License-Identifier: Apache-2.0
//
// NvmeTcpStream over a connection in memory that is cut at every byte, with every combination of digests, and with
// every way of placing data.
#include "fabric/nvme_tcp_stream.h"

#include "base/random.h"
#include "support/memory_connection.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace mqblk::fabric {
namespace {

using namespace wire::nvme_tcp;
using test::MemoryConnection;
using test::MemoryPipe;

std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
    std::vector<std::byte> data(bytes);
    SeededRandom random(seed);
    for (auto& byte : data) byte = static_cast<std::byte>(random.next());
    return data;
}

// Cuts a buffer into segments of uneven sizes, empty ones included.
std::vector<Segment> pieces(std::vector<std::byte>& data, SeededRandom& random) {
    std::vector<Segment> segments;
    std::size_t at = 0;
    while (at < data.size()) {
        const std::size_t bytes =
            std::min<std::size_t>(random.below(4) == 0 ? random.below(3) : random.below(3000), data.size() - at);
        segments.push_back({data.data() + at, bytes});
        at += bytes;
    }
    return segments;
}

struct Received {
    PduType type;
    std::uint8_t flags;
    std::uint16_t id;
    std::vector<std::byte> data;
    bool digest_ok = true;
};

// Records PDUs; places data by kind: what `next_kind` says for each PDU in turn.
class Recorder final : public NvmeTcpHandler {
  public:
    Placement on_pdu(const NvmeTcpPdu& pdu) noexcept override {
        Received received{
            pdu.shape.type, static_cast<std::uint8_t>(pdu.shape.flags & (flag_last | flag_success)), 0, {}};
        if (pdu.shape.type == PduType::capsule_cmd) received.id = pdu.as<CapsuleCmd>().command.command_id;
        if (pdu.shape.type == PduType::h2c_data) received.id = pdu.as<H2CData>().cccid;
        if (pdu.shape.type == PduType::c2h_data) received.id = pdu.as<C2HData>().cccid;
        received.data.resize(pdu.shape.data_bytes);
        pdus.push_back(std::move(received));
        if (refuse) return Placement::refused(*refuse);
        if (pdu.shape.data_bytes == 0) return {};
        ++data_expected;
        kind = kinds[pdus.size() % std::size(kinds)];
        if (kind == Placement::in_place && pdu.shape.data_bytes > NvmeTcpStream::max_in_place)
            kind = Placement::scatter;
        if (kind != Placement::scatter) return {.kind = kind};
        segments = pieces(pdus.back().data, random);
        segments.insert(segments.begin(), {front, sizeof(front)});
        return Placement::into(segments, sizeof(front));
    }
    void on_data(const NvmeTcpPdu& pdu, std::byte* in_place, bool digest_ok) noexcept override {
        ++data_seen;
        Received& received = pdus.back();
        EXPECT_EQ(pdu.shape.data_bytes, received.data.size());
        EXPECT_EQ(pdu.shape.type, received.type);
        EXPECT_EQ(in_place != nullptr, kind == Placement::in_place);
        if (pdu.shape.type == PduType::h2c_data) {
            EXPECT_EQ(pdu.as<H2CData>().datal, received.data.size());
        }
        if (in_place != nullptr) {
            std::memcpy(received.data.data(), in_place, received.data.size());
            if (hold_in_place) held.push_back({stream->hold(), in_place, received.data});
        }
        received.digest_ok = digest_ok;
        if (kind == Placement::discard) received.data.clear();
    }
    void on_violation(const Violation& found) noexcept override { violation = found; }
    void on_closed(int error_number) noexcept override { closed = error_number; }

    struct Held {
        RxChunk* chunk;
        std::byte* at;
        std::vector<std::byte> expected;
    };
    std::vector<Placement::Kind> kinds{Placement::scatter};
    std::vector<Received> pdus;
    std::deque<Held> held;
    bool hold_in_place = false;
    NvmeTcpStream* stream = nullptr;
    std::optional<Violation> refuse, violation;
    std::optional<int> closed;
    int data_expected = 0, data_seen = 0;
    SeededRandom random{3};

  private:
    std::byte front[7];
    Placement::Kind kind = Placement::discard;
    std::vector<Segment> segments;
};

PduRules host_rules(bool header_digest, bool data_digest, std::uint32_t alignment = 4) {
    return {Sender::host, true, header_digest, data_digest, alignment, 65536, 1u << 20};
}

// A host's stream whose output a test can take, cut, bend and feed to a controller's.
struct Source {
    explicit Source(bool header_digest, bool data_digest, std::uint32_t alignment = 4) {
        auto connection = std::make_unique<MemoryConnection>(in, out);
        link = connection.get();
        stream.emplace(std::move(connection), buffers, recorder,
                       PduRules{.sender = Sender::controller, .initialized = true});
        stream->set_transmit(header_digest, data_digest, alignment);
    }
    ~Source() { stream->close(); }

    void command(std::uint16_t id, std::vector<std::byte>& data) {
        CapsuleCmd pdu;
        pdu.command.command_id = id;
        segment_lists.push_back(pieces(data, random));
        stream->send(pdu, 0, {segment_lists.back(), 0, static_cast<std::uint32_t>(data.size())}, count_sent, this);
    }
    void h2c_data(std::uint16_t id, std::vector<std::byte>& data, std::uint8_t flags = flag_last) {
        H2CData pdu;
        pdu.cccid = id;
        pdu.datal = static_cast<std::uint32_t>(data.size());
        segment_lists.push_back(pieces(data, random));
        stream->send(pdu, flags, {segment_lists.back(), 0, static_cast<std::uint32_t>(data.size())}, count_sent, this);
    }
    static void count_sent(void* self) noexcept { ++static_cast<Source*>(self)->sent; }

    std::shared_ptr<MemoryPipe> in = std::make_shared<MemoryPipe>(), out = std::make_shared<MemoryPipe>();
    NvmeTcpBuffers buffers;
    Recorder recorder;
    MemoryConnection* link = nullptr;
    std::optional<NvmeTcpStream> stream;
    std::deque<std::vector<Segment>> segment_lists;
    SeededRandom random{4};
    int sent = 0;
};

NvmeTcpBuffers shared_buffers;  // as in a reactor

// The controller's end of it.
struct Sink {
    Sink(const std::vector<std::byte>& bytes, const PduRules& rules, NvmeTcpBuffers& chunks = shared_buffers)
        : buffers(chunks) {
        in->bytes = bytes;
        auto connection = std::make_unique<MemoryConnection>(in, out);
        link = connection.get();
        stream.emplace(std::move(connection), buffers, recorder, rules);
        recorder.stream = &*stream;
    }
    ~Sink() {
        for (auto& held : recorder.held) stream->release(held.chunk);
        stream->close();
    }
    void run() {
        while (stream->receive() > 0) {
        }
    }

    std::shared_ptr<MemoryPipe> in = std::make_shared<MemoryPipe>(), out = std::make_shared<MemoryPipe>();
    NvmeTcpBuffers& buffers;
    Recorder recorder;
    MemoryConnection* link = nullptr;
    std::optional<NvmeTcpStream> stream;
};

struct Options {
    bool header_digest, data_digest;
    std::uint32_t alignment;
};
class NvmeTcpStreamTest : public testing::TestWithParam<Options> {};

void expect_same(const Received& received, std::uint16_t id, const std::vector<std::byte>& data) {
    EXPECT_EQ(received.id, id);
    EXPECT_TRUE(received.digest_ok);
    EXPECT_EQ(received.data, data);
}

// Five PDUs, the stream cut in two at every byte, for each way to place data.
TEST_P(NvmeTcpStreamTest, CutAtEveryByte) {
    const auto [header_digest, data_digest, alignment] = GetParam();
    Source source(header_digest, data_digest, alignment);
    std::vector<std::byte> none, small = pattern(513, 1), large = pattern(9001, 2), byte = pattern(1, 3);
    source.command(1, none);
    source.command(2, small);
    source.h2c_data(3, large);
    source.h2c_data(4, byte);
    source.command(5, none);
    source.stream->flush();
    EXPECT_EQ(source.sent, 5);
    const std::vector<std::byte> bytes = source.out->bytes;
    const PduRules rules = host_rules(header_digest, data_digest, alignment);
    for (const auto kind : {Placement::scatter, Placement::in_place, Placement::discard}) {
        for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
            Sink sink(bytes, rules);
            sink.recorder.kinds = {kind};
            sink.link->receive_limit = [cut, calls = 0]() mutable { return calls++ == 0 ? cut : SIZE_MAX; };
            sink.stream->receive();
            if (cut % 2 != 0) sink.stream->rest();
            sink.run();
            ASSERT_EQ(sink.recorder.pdus.size(), 5u) << cut;
            ASSERT_EQ(sink.recorder.data_seen, 3) << cut;
            if (kind == Placement::discard) continue;
            expect_same(sink.recorder.pdus[0], 1, none);
            expect_same(sink.recorder.pdus[1], 2, small);
            expect_same(sink.recorder.pdus[2], 3, large);
            expect_same(sink.recorder.pdus[3], 4, byte);
            expect_same(sink.recorder.pdus[4], 5, none);
            ASSERT_FALSE(HasFailure()) << "cut at " << cut;
            ASSERT_FALSE(sink.stream->partial());
            ASSERT_TRUE(sink.stream->rest());
        }
    }
}

// Long random sessions: both ends move random numbers of bytes, data of all sizes, every placement, some held.
TEST_P(NvmeTcpStreamTest, RandomSession) {
    const auto [header_digest, data_digest, alignment] = GetParam();
    for (unsigned seed = 0; seed < 20; ++seed) {
        SCOPED_TRACE(seed);
        SeededRandom random(seed);
        Source source(header_digest, data_digest, alignment);
        Sink sink({}, host_rules(header_digest, data_digest, alignment));
        sink.in = source.out;
        sink.stream->close();
        auto connection = std::make_unique<MemoryConnection>(source.out, source.in);
        const std::size_t most = random.below(3) == 0 ? 50 : 100'000;
        connection->receive_limit = [&random, most] { return random.below(most); };
        source.link->send_limit = [&random, most] { return random.below(most); };
        source.out->ended = false;
        sink.stream.emplace(std::move(connection), sink.buffers, sink.recorder,
                            host_rules(header_digest, data_digest, alignment));
        sink.recorder.stream = &*sink.stream;
        sink.recorder.hold_in_place = true;
        sink.recorder.kinds = {Placement::scatter, Placement::in_place, Placement::scatter, Placement::in_place,
                               Placement::scatter};
        std::deque<std::vector<std::byte>> sent;
        const std::size_t pdus = most == 50 ? 10 : 120;
        std::size_t idle = 0;
        while ((sink.recorder.pdus.size() < pdus || sink.recorder.data_seen < sink.recorder.data_expected) &&
               idle < 100'000) {
            ++idle;
            if (sent.size() < pdus && random.below(3) == 0) {
                const std::size_t bytes = random.below(3) == 0 ? random.below(150'000) : random.below(6000);
                sent.push_back(pattern(bytes, static_cast<unsigned>(random.next())));
                const auto id = static_cast<std::uint16_t>(sent.size());
                if (bytes == 0 || (bytes <= 65536 && random.below(2) == 0)) {
                    source.command(id, sent.back());
                } else {
                    source.h2c_data(id, sent.back());
                }
            }
            source.stream->flush();
            sink.stream->receive();
            while (!sink.recorder.held.empty() && random.below(4) == 0) {
                auto& held = sink.recorder.held.front();
                ASSERT_EQ(std::memcmp(held.at, held.expected.data(), held.expected.size()), 0);
                sink.stream->release(held.chunk);
                sink.recorder.held.pop_front();
            }
        }
        ASSERT_EQ(sink.recorder.pdus.size(), pdus);
        for (std::size_t i = 0; i < pdus; ++i) {
            expect_same(sink.recorder.pdus[i], static_cast<std::uint16_t>(i + 1), sent[i]);
            ASSERT_FALSE(HasFailure()) << "PDU " << i;
        }
        EXPECT_EQ(source.sent, static_cast<int>(pdus));
    }
}

INSTANTIATE_TEST_SUITE_P(Digests, NvmeTcpStreamTest,
                         testing::Values(Options{false, false, 4}, Options{true, false, 4}, Options{false, true, 4},
                                         Options{true, true, 4}, Options{true, true, 128}, Options{false, false, 64}),
                         [](const auto& test) {
                             return std::string(test.param.header_digest ? "Header" : "") +
                                    (test.param.data_digest ? "Data" : "") + std::to_string(test.param.alignment);
                         });

std::vector<std::byte> one_command(Source& source, std::size_t bytes) {
    std::vector<std::byte> data = pattern(bytes, 5);
    source.command(9, data);
    source.stream->flush();
    return source.out->bytes;
}

TEST(NvmeTcpStream, WrongHeaderDigestEndsTheConnection) {
    Source source(true, true);
    const auto good = one_command(source, 512);
    for (std::size_t at = 8; at < 76; ++at) {  // the common header's own checks come first
        auto bytes = good;
        bytes[at] ^= std::byte{0x10};
        Sink sink(bytes, host_rules(true, true));
        sink.run();
        ASSERT_TRUE(sink.recorder.violation) << at;
        EXPECT_EQ(sink.recorder.violation->fes, FatalStatus::header_digest_error);
        EXPECT_TRUE(sink.recorder.pdus.empty());
        sink.stream->flush();
        ASSERT_EQ(sink.out->bytes.size(), 24u + 72u);
        EXPECT_EQ(sink.out->bytes[0], std::byte{3});
        EXPECT_EQ(sink.out->bytes[8], std::byte{3});
        EXPECT_EQ(std::memcmp(&sink.out->bytes[10], &bytes[72], 4), 0);  // FEI: the digest received
        EXPECT_EQ(std::memcmp(&sink.out->bytes[24], bytes.data(), 72), 0);
    }
}

TEST(NvmeTcpStream, WrongDataDigestEndsTheCommandOnly) {
    for (const auto kind : {Placement::scatter, Placement::in_place, Placement::discard}) {
        Source source(true, true);
        one_command(source, 512);
        auto bytes = one_command(source, 512);
        bytes[76 + 100] ^= std::byte{1};
        Sink sink(bytes, host_rules(true, true));
        sink.recorder.kinds = {kind};
        sink.run();
        ASSERT_EQ(sink.recorder.pdus.size(), 2u);
        EXPECT_FALSE(sink.recorder.pdus[0].digest_ok);
        EXPECT_TRUE(sink.recorder.pdus[1].digest_ok);
        EXPECT_FALSE(sink.recorder.violation);
    }
}

TEST(NvmeTcpStream, NothingIsDeliveredOrSentAfterATermReq) {
    Source source(false, false);
    std::vector<std::byte> none;
    source.command(1, none);
    source.command(2, none);
    source.stream->flush();
    Sink sink(source.out->bytes, host_rules(false, false));
    sink.recorder.refuse = Violation{FatalStatus::out_of_range, 12, "refused"};
    sink.run();
    EXPECT_EQ(sink.recorder.pdus.size(), 1u);
    ASSERT_TRUE(sink.stream->terminated());
    static int sent;
    sent = 0;
    sink.stream->send(CapsuleResp{}, 0, {}, [](void*) noexcept { ++sent; });
    EXPECT_EQ(sent, 1) << "a PDU that will not be sent must release its data at once";
    sink.stream->flush();
    ASSERT_EQ(sink.out->bytes.size(), 24u + 72u);
    EXPECT_EQ(sink.out->bytes[8], std::byte{4});
    EXPECT_EQ(sink.out->bytes[10], std::byte{12});
    sink.in->bytes.resize(sink.in->bytes.size() + 300'000);  // what the peer still sends is read and dropped
    sink.run();
    EXPECT_EQ(sink.recorder.pdus.size(), 1u);
    sink.in->ended = true;
    sink.run();
    EXPECT_EQ(sink.recorder.closed, 0);
    EXPECT_FALSE(sink.stream->open());
}

// The peer must find the TermReq at a PDU boundary, whatever was half sent before.
TEST(NvmeTcpStream, TermReqFollowsAPartialPduOnly) {
    for (std::size_t cut = 0; cut <= 24 + 700; cut += 31) {
        Source source(false, false);
        std::vector<std::byte> data = pattern(600, 6), more = pattern(600, 7);
        source.h2c_data(1, data);
        source.h2c_data(2, more);
        source.link->send_limit = [cut, calls = 0]() mutable { return calls++ == 0 ? cut : std::size_t{0}; };
        source.stream->flush();
        source.stream->terminate({FatalStatus::sequence_error, 0, "test"}, {});
        EXPECT_EQ(source.sent, cut == 0 ? 2 : cut < 624 ? 0 : cut == 624 ? 2 : 1);
        source.link->send_limit = nullptr;
        source.stream->flush();
        EXPECT_EQ(source.sent, 2);
        const std::size_t before = cut == 0 ? 0 : cut <= 624 ? 624 : 1248;
        ASSERT_EQ(source.out->bytes.size(), before + 24) << cut;
        EXPECT_EQ(source.out->bytes[before], std::byte{2});
    }
}

TEST(NvmeTcpStream, CloseReleasesEverythingQueued) {
    Source source(false, false);
    std::vector<std::byte> data = pattern(100'000, 8);
    for (std::uint16_t i = 0; i < 40; ++i) source.h2c_data(i, data);
    source.link->send_limit = [calls = 0]() mutable { return calls++ == 0 ? std::size_t{250'000} : std::size_t{0}; };
    source.stream->flush();
    EXPECT_EQ(source.sent, 2);
    EXPECT_TRUE(source.stream->blocked());
    source.stream->close();
    EXPECT_EQ(source.sent, 40);
    EXPECT_FALSE(source.stream->unsent());
}

TEST(NvmeTcpStream, AFailedSendClosesOnce) {
    Source source(false, false);
    std::vector<std::byte> none;
    source.out->ended = true;
    source.command(1, none);
    source.stream->flush();
    EXPECT_EQ(source.recorder.closed, 32);
    EXPECT_EQ(source.sent, 1);
    EXPECT_EQ(source.stream->receive(), 0u);
    source.stream->flush();
}

// A stream reads no more while too much of what it received is held, and goes on afterwards.
TEST(NvmeTcpStream, HeldDataBoundReceiveMemory) {
    Source source(false, false);
    std::vector<std::byte> data = pattern(60'000, 9);
    for (std::uint16_t i = 0; i < 80; ++i) source.command(i, data);
    source.stream->flush();
    Sink sink(source.out->bytes, host_rules(false, false));
    sink.recorder.kinds = {Placement::in_place};
    sink.recorder.hold_in_place = true;
    sink.run();
    const std::size_t first = sink.recorder.pdus.size();
    EXPECT_LT(first, 2 * NvmeTcpStream::max_chunks + 2);
    EXPECT_GE(first, NvmeTcpStream::max_chunks);
    EXPECT_FALSE(sink.stream->readable()) << "who polls it would do so for nothing";
    while (!sink.recorder.held.empty()) {
        auto& held = sink.recorder.held.front();
        ASSERT_EQ(std::memcmp(held.at, held.expected.data(), held.expected.size()), 0);
        sink.stream->release(held.chunk);
        sink.recorder.held.pop_front();
        sink.run();
    }
    EXPECT_EQ(sink.recorder.pdus.size(), 80u);
    EXPECT_TRUE(sink.stream->readable());
    EXPECT_TRUE(sink.stream->rest());
}

// However many streams hold data, their memory is bounded, each has a chunk, and all go on as data are released.
TEST(NvmeTcpStream, HeldDataOfAllStreamsAreBounded) {
    constexpr std::size_t most = 8, streams = 6;
    NvmeTcpBuffers buffers(most);
    std::vector<std::byte> data = pattern(60'000, 9);
    Source source(false, false);
    for (std::uint16_t i = 0; i < 20; ++i) source.command(i, data);
    source.stream->flush();
    std::deque<Sink> sinks;
    for (std::size_t i = 0; i < streams; ++i) {
        Sink& sink = sinks.emplace_back(source.out->bytes, host_rules(false, false), buffers);
        sink.recorder.kinds = {Placement::in_place};
        sink.recorder.hold_in_place = true;
    }
    for (Sink& sink : sinks) sink.run();
    EXPECT_LE(buffers.chunks_in_use(), most + streams);
    for (const Sink& sink : sinks) EXPECT_GE(sink.recorder.pdus.size(), 2u) << "each has at least one chunk";
    EXPECT_LE(sinks[0].recorder.held.size(), 2 * most / 2 + 2) << "half is left for others";
    bool more = true;
    while (more) {
        more = false;
        for (Sink& sink : sinks) {
            if (!sink.recorder.held.empty()) {
                sink.stream->release(sink.recorder.held.front().chunk);
                sink.recorder.held.pop_front();
                more = true;
            }
            sink.run();
        }
        EXPECT_LE(buffers.chunks_in_use(), most + streams);
    }
    for (const Sink& sink : sinks) EXPECT_EQ(sink.recorder.pdus.size(), 20u);
}

TEST(NvmeTcpStream, InitializationPdus) {
    Source source(true, true, 64);
    source.stream->send(IcReq{.hpda = 15, .dgst = 3, .maxr2t = 7});
    source.stream->flush();
    ASSERT_EQ(source.out->bytes.size(), 128u);
    Sink sink(source.out->bytes, PduRules{.sender = Sender::host});
    sink.run();
    ASSERT_EQ(sink.recorder.pdus.size(), 1u);
    EXPECT_EQ(sink.recorder.pdus[0].type, PduType::ic_req);
    sink.stream->send(IcResp{.dgst = 3, .maxh2cdata = 4096});
    sink.stream->flush();
    ASSERT_EQ(sink.out->bytes.size(), 128u);
    EXPECT_EQ(sink.out->bytes[0], std::byte{1});
    EXPECT_EQ(sink.out->bytes[4], std::byte{128});
}

}  // namespace
}  // namespace mqblk::fabric
