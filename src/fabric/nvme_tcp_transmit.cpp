// SPDX-License-Identifier: Apache-2.0
//
// The sending half of NvmeTcpStream: a ring of PDUs, and one gathering send for as many of them as fit. Data stay where
// they are; small pieces (headers, digests, padding) are joined in shared staging memory, anew for each send, so that
// a partial send needs no more than a byte count to continue. NVM Express TCP Transport Specification 1.0, section 3.6.
#include "fabric/nvme_tcp_stream.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace mqblk::fabric {

using wire::nvme_tcp::CommonHeader;
using wire::nvme_tcp::digest_bytes;
using wire::nvme_tcp::PduType;

namespace {

constexpr std::byte zeroes[128] = {};
constexpr std::size_t most_per_send = 2u << 20;

// The segment list of one send. Knows how many bytes at the front were sent already and leaves them out.
class Gather {
  public:
    Gather(std::span<Segment> segments, std::span<std::byte> staging, std::size_t skip) noexcept
        : segments_(segments), staging_(staging), skip_(skip) {}

    [[nodiscard]] bool full() const noexcept {
        return count_ + 2 > segments_.size() || bytes_ >= most_per_send || staging_.size() - staged_ < 256;
    }
    void add(const void* from, std::size_t bytes) noexcept {
        const std::size_t left_out = std::min(skip_, bytes);
        skip_ -= left_out;
        bytes -= left_out;
        if (bytes == 0) return;
        auto* data = const_cast<std::byte*>(static_cast<const std::byte*>(from) + left_out);
        bytes_ += bytes;
        if (bytes > 128) {
            segments_[count_++] = {data, bytes};
            joinable_ = false;
            return;
        }
        std::memcpy(staging_.data() + staged_, data, bytes);
        if (joinable_) {
            segments_[count_ - 1].bytes += bytes;
        } else {
            segments_[count_++] = {staging_.data() + staged_, bytes};
            joinable_ = true;
        }
        staged_ += bytes;
    }
    [[nodiscard]] Segments segments() const noexcept { return segments_.first(count_); }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  private:
    std::span<Segment> segments_;
    std::span<std::byte> staging_;
    std::size_t skip_, count_ = 0, bytes_ = 0, staged_ = 0;
    bool joinable_ = false;  // the last segment ends where staging goes on
};

std::uint32_t digest_of(const TxData& data) noexcept {
    Crc32c crc;
    std::size_t left = data.bytes, offset = data.offset;
    for (const Segment* segment = data.segments.data(); left > 0; ++segment) {
        const std::size_t piece = std::min(segment->bytes - offset, left);
        crc.update(segment->data + offset, piece);
        left -= piece;
        offset = 0;
    }
    return crc.value();
}

}  // namespace

NvmeTcpStream::NvmeTcpStream(std::unique_ptr<Connection> connection, NvmeTcpBuffers& buffers, NvmeTcpHandler& handler,
                             const wire::nvme_tcp::PduRules& received)
    : connection_(std::move(connection)), buffers_(buffers), handler_(handler), rules_(received) {}

NvmeTcpStream::~NvmeTcpStream() {
    close();
    assert(chunks_ == 0);
}

void NvmeTcpStream::set_transmit(bool header_digest, bool data_digest, std::uint32_t data_alignment) noexcept {
    transmit_header_digest_ = header_digest;
    transmit_data_digest_ = data_digest;
    transmit_alignment_ = data_alignment;
}

NvmeTcpStream::TxPdu& NvmeTcpStream::push() noexcept {
    if (tail_ - head_ == ring_.size()) {
        std::vector<TxPdu> larger(std::max<std::size_t>(16, 2 * ring_.size()));
        std::uint32_t count = 0;
        for (std::uint32_t i = head_; i != tail_; ++i) larger[count++] = at(i);
        ring_ = std::move(larger);
        head_ = 0;
        tail_ = count;
    }
    return at(tail_++);
}

void NvmeTcpStream::queue_pdu(PduType type, const void* header, std::size_t header_bytes, std::uint8_t flags,
                              const TxData& data, Sent sent, void* context) noexcept {
    if (state_ != State::open) {
        if (sent != nullptr) sent(context);
        return;
    }
    TxPdu& pdu = push();
    std::memcpy(pdu.header, header, header_bytes);
    std::size_t offset = header_bytes + (transmit_header_digest_ ? digest_bytes : 0);
    pdu.header_bytes = static_cast<std::uint8_t>(offset);
    pdu.pad_bytes = 0;
    pdu.data_digest = transmit_data_digest_ && data.bytes > 0;
    if (data.bytes > 0) {
        offset = (offset + transmit_alignment_ - 1) / transmit_alignment_ * transmit_alignment_;
        pdu.pad_bytes = static_cast<std::uint8_t>(offset - pdu.header_bytes);
    }
    pdu.segments = data.segments.data();
    pdu.offset = data.offset;
    pdu.data_bytes = data.bytes;
    pdu.sent = sent;
    pdu.context = context;

    auto& common = *reinterpret_cast<CommonHeader*>(pdu.header);
    common.type = static_cast<std::uint8_t>(type);
    common.flags = static_cast<std::uint8_t>(flags | (transmit_header_digest_ ? wire::nvme_tcp::flag_hdgst : 0) |
                                             (pdu.data_digest ? wire::nvme_tcp::flag_ddgst : 0));
    common.hlen = static_cast<std::uint8_t>(header_bytes);
    common.pdo = static_cast<std::uint8_t>(data.bytes > 0 ? offset : 0);
    common.plen = static_cast<std::uint32_t>(pdu_bytes(pdu));
    if (transmit_header_digest_) {
        const le32 digest = Crc32c::of(pdu.header, header_bytes);
        std::memcpy(pdu.header + header_bytes, &digest, sizeof(digest));
    }
    if (pdu.data_digest) pdu.digest = digest_of(data);
}

std::size_t NvmeTcpStream::pdu_bytes(const TxPdu& pdu) noexcept {
    return std::size_t{pdu.header_bytes} + pdu.pad_bytes + pdu.data_bytes + (pdu.data_digest ? digest_bytes : 0);
}

// Initialization and termination PDUs have their bytes in `control_`, longer than a ring entry holds.
void NvmeTcpStream::queue_control(unsigned slot, std::size_t bytes) noexcept {
    control_segments_[slot] = {control_[slot].data(), bytes};
    TxPdu& pdu = push();
    pdu = {};
    pdu.segments = &control_segments_[slot];
    pdu.data_bytes = static_cast<std::uint32_t>(bytes);
}

template <class Header>
void NvmeTcpStream::queue_initialization(Header header) noexcept {
    if (state_ != State::open) return;
    header.ch.type = static_cast<std::uint8_t>(Header::type);
    header.ch.flags = 0;
    header.ch.hlen = sizeof(Header);
    header.ch.pdo = 0;
    header.ch.plen = sizeof(Header);
    std::memcpy(control_[0].data(), &header, sizeof(Header));
    queue_control(0, sizeof(Header));
}

void NvmeTcpStream::send(const wire::nvme_tcp::IcReq& request) noexcept {
    queue_initialization(request);
}
void NvmeTcpStream::send(const wire::nvme_tcp::IcResp& response) noexcept {
    queue_initialization(response);
}

std::size_t NvmeTcpStream::flush() noexcept {
    std::size_t went = 0;
    while (unsent() && state_ != State::closed) {
        Gather gather(buffers_.segments(), buffers_.staging(), head_sent_);
        std::uint32_t index = head_;
        for (; index != tail_ && !gather.full(); ++index) {
            const TxPdu& pdu = at(index);
            gather.add(pdu.header, pdu.header_bytes);
            gather.add(zeroes, pdu.pad_bytes);
            std::size_t left = pdu.data_bytes, offset = pdu.offset;
            for (const Segment* segment = pdu.segments; left > 0 && !gather.full(); ++segment) {
                const std::size_t piece = std::min(segment->bytes - offset, left);
                gather.add(segment->data + offset, piece);
                left -= piece;
                offset = 0;
            }
            if (left > 0) break;
            if (pdu.data_digest) gather.add(&pdu.digest, sizeof(pdu.digest));
        }
        const IoResult result = connection_->send(gather.segments(), index != tail_);
        if (result.bytes == 0 && result.state != IoResult::would_block && result.state != IoResult::progress) {
            end(result.state == IoResult::failed ? result.error_number : 0);
            return went;
        }
        blocked_ = result.bytes < gather.bytes();
        went += result.bytes;
        consume(result.bytes);
        if (blocked_) return went;
    }
    blocked_ = false;
    return went;
}

void NvmeTcpStream::consume(std::size_t sent_bytes) noexcept {
    head_sent_ += sent_bytes;
    while (head_ != tail_) {
        const TxPdu& pdu = at(head_);
        const std::size_t bytes = pdu_bytes(pdu);
        if (head_sent_ < bytes) return;
        head_sent_ -= bytes;
        const Sent sent = pdu.sent;
        void* const context = pdu.context;
        ++head_;
        if (sent != nullptr) sent(context);  // may push: the entry is no longer ours to look at
    }
}

// After the beginning of a PDU the peer still gets its rest, or it could not find the TermReq behind it. The others
// shrink to nothing; those behind a partial one keep their place, so that Sent runs in order.
void NvmeTcpStream::drop_unsent() noexcept {
    const bool partial = head_sent_ > 0 && state_ == State::terminated;
    for (std::uint32_t i = partial ? head_ + 1 : head_; i != tail_; ++i) {
        TxPdu& pdu = at(i);
        pdu.header_bytes = pdu.pad_bytes = 0;
        pdu.data_bytes = 0;
        pdu.data_digest = false;
    }
    if (partial) return;
    head_sent_ = 0;
    consume(0);
}

void NvmeTcpStream::terminate(const wire::nvme_tcp::Violation& violation,
                              std::span<const std::byte> offending) noexcept {
    if (state_ != State::open) return;
    const wire::nvme_tcp::Sender self = rules_.sender == wire::nvme_tcp::Sender::host
                                            ? wire::nvme_tcp::Sender::controller
                                            : wire::nvme_tcp::Sender::host;
    const std::size_t bytes = wire::nvme_tcp::build_term_req(self, violation, offending, control_[1]);
    state_ = State::terminated;
    step_ = RxStep::header;  // nothing is written to the owner's memory any more
    bulk_ = false;
    drop_unsent();
    queue_control(1, bytes);
}

void NvmeTcpStream::retire() noexcept {
    if (state_ == State::closed) return;
    retired_ = take_connection();
}

std::unique_ptr<Connection> NvmeTcpStream::take_connection() noexcept {
    auto connection = std::move(connection_);
    close();
    return connection;
}

void NvmeTcpStream::close() noexcept {
    if (state_ == State::closed) return;
    state_ = State::closed;
    connection_.reset();
    drop_unsent();
    blocked_ = false;
    if (!receiving_) drop_chunk();
}

}  // namespace mqblk::fabric
