// SPDX-License-Identifier: Apache-2.0
//
// Any bytes into the PDU decoder and the stream around it. The first bytes choose direction, digests, alignment, and
// how the stream is cut; the rest is what the peer sends.
#include "base/random.h"
#include "fabric/nvme_tcp_stream.h"
#include "support/memory_connection.h"

#include <cstdint>
#include <cstdlib>
#include <vector>

namespace {

using namespace mqblk;
using namespace mqblk::wire::nvme_tcp;

class Owner final : public fabric::NvmeTcpHandler {
  public:
    explicit Owner(std::uint8_t choice) : choice_(choice) {}

    fabric::Placement on_pdu(const fabric::NvmeTcpPdu& pdu) noexcept override {
        if (pdu.header.size() != pdu.shape.header_bytes || ended_) std::abort();
        if (pdu.shape.type == PduType::ic_req || pdu.shape.type == PduType::ic_resp) {
            PduRules rules = stream->rules();
            rules.initialized = true;
            rules.header_digest = (choice_ & 1) != 0;
            rules.data_digest = (choice_ & 2) != 0;
            stream->set_rules(rules);
        }
        expected_ = pdu.shape.data_bytes;
        switch ((choice_ >> 2) % 4) {
            case 0:
                return {};
            case 1:
                if (expected_ <= fabric::NvmeTcpStream::max_in_place) return {.kind = fabric::Placement::in_place};
                [[fallthrough]];
            case 2:
                memory_.resize(expected_ + 1);
                segments_ = {{memory_.data(), 1}, {memory_.data() + 1, 0}, {memory_.data() + 1, expected_}};
                if (expected_ > 0) segments_[2].bytes = expected_ - 1 + 1;
                return fabric::Placement::into(segments_, 1);
            default:
                return expected_ % 7 == 3
                           ? fabric::Placement::refused({FatalStatus::sequence_error, 0, "the fuzzer's choice"})
                           : fabric::Placement{};
        }
    }
    void on_data(const fabric::NvmeTcpPdu& pdu, std::byte* in_place, bool) noexcept override {
        if (pdu.shape.data_bytes != expected_ || ended_) std::abort();
        if (in_place == nullptr) return;
        if (held_.size() < 4) held_.push_back(stream->hold());
        sum_ += std::to_integer<unsigned>(in_place[0]) + std::to_integer<unsigned>(in_place[expected_ - 1]);
    }
    void on_violation(const Violation& violation) noexcept override {
        if (violation.what == nullptr || ended_) std::abort();
        ended_ = true;
    }
    void on_closed(int) noexcept override { ended_ = true; }
    void release() {
        for (auto* chunk : held_) stream->release(chunk);
    }

    fabric::NvmeTcpStream* stream = nullptr;

  private:
    const std::uint8_t choice_;
    std::uint32_t expected_ = 0;
    std::vector<std::byte> memory_;
    std::vector<Segment> segments_;
    std::vector<fabric::RxChunk*> held_;
    bool ended_ = false;
    unsigned sum_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    if (size < 4) return 0;
    static fabric::NvmeTcpBuffers buffers;
    auto in = std::make_shared<test::MemoryPipe>(), out = std::make_shared<test::MemoryPipe>();
    const auto* begin = reinterpret_cast<const std::byte*>(bytes);
    in->bytes.assign(begin + 4, begin + size);
    in->ended = true;
    auto connection = std::make_unique<test::MemoryConnection>(in, out);
    SeededRandom random(bytes[1]);
    const std::size_t most = bytes[1] == 0 ? SIZE_MAX : 1 + bytes[1];
    connection->receive_limit = [&] { return most == SIZE_MAX ? most : 1 + random.below(most); };

    PduRules rules;
    rules.sender = (bytes[2] & 1) != 0 ? Sender::controller : Sender::host;
    rules.initialized = (bytes[2] & 2) != 0;
    rules.header_digest = rules.initialized && (bytes[2] & 4) != 0;
    rules.data_digest = rules.initialized && (bytes[2] & 8) != 0;
    rules.data_alignment = 4u * ((bytes[2] >> 4) + 1u);
    rules.max_data = 1u << (12 + bytes[3] % 10);
    Owner owner(bytes[0]);
    fabric::NvmeTcpStream stream(std::move(connection), buffers, owner, rules);
    owner.stream = &stream;
    while (stream.open()) {
        if (stream.receive() == 0 && stream.open()) break;  // it waits for held memory
        stream.flush();
    }
    owner.release();
    return 0;
}
