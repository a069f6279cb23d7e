// SPDX-License-Identifier: Apache-2.0
//
// What both ends of an NVMe/TCP connection share: PDUs out of a byte stream and into it. One receive and one send per
// pass whatever the number of PDUs; small data are handed out where they arrived, large data go from the socket
// straight into the owner's segments; data are sent by reference. Nothing allocates per PDU. Every header passes the
// checks of wire/nvme_tcp.h and its digest before the owner sees it. One thread (the reactor's).
#pragma once

#include "base/crc32c.h"
#include "fabric/connection.h"
#include "wire/nvme_tcp.h"

#include <mqblk/bio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace mqblk::fabric {

class NvmeTcpStream;

/// A piece of receive memory. In-place data may be held in it (NvmeTcpStream::hold) beyond the callback.
struct RxChunk {
    NvmeTcpStream* stream;     ///< whose data lie in it
    RxChunk* next;             ///< link in the free list
    std::uint32_t references;  ///< holders, the stream itself included
    std::byte* bytes;
};

/// Memory that all streams of one reactor share, so that an idle connection has none of it. Outlives its streams.
class NvmeTcpBuffers {
  public:
    static constexpr std::size_t chunk_bytes = 128 * 1024;
    static constexpr unsigned kept_chunks = 16;
    static constexpr std::size_t gather_segments = 512;
    static constexpr std::size_t gather_bytes = 64 * 1024;

    NvmeTcpBuffers();
    ~NvmeTcpBuffers();
    NvmeTcpBuffers(const NvmeTcpBuffers&) = delete;
    NvmeTcpBuffers& operator=(const NvmeTcpBuffers&) = delete;

    /// Null when memory is out.
    [[nodiscard]] RxChunk* take() noexcept;
    void give(RxChunk*) noexcept;
    /// Scratch for one gathering call: its segment list, and room for small pieces that are worth joining.
    [[nodiscard]] std::span<Segment> segments() noexcept { return segments_; }
    [[nodiscard]] std::span<std::byte> staging() noexcept { return {staging_.get(), gather_bytes}; }

  private:
    RxChunk* free_ = nullptr;
    unsigned free_count_ = 0;
    std::array<Segment, gather_segments> segments_{};
    std::unique_ptr<std::byte[]> staging_;
};

/// A received PDU: its header is complete, its digest right, its fields sound. Valid during the callback.
struct NvmeTcpPdu {
    wire::nvme_tcp::PduShape shape;
    std::span<const std::byte> header;

    /// The header as the type that `shape.type` names.
    template <class Header>
    [[nodiscard]] const Header& as() const noexcept {
        return *reinterpret_cast<const Header*>(header.data());
    }
};

/// Where the owner wants a PDU's data. Ignored for PDUs without.
struct Placement {
    enum Kind : std::uint8_t {
        discard,   ///< read and forget
        in_place,  ///< contiguous in receive memory; at most NvmeTcpStream::max_in_place bytes
        scatter,   ///< into `segments` from `offset` on, which hold at least data_bytes and stay until on_data
        refuse,    ///< `violation`: the connection ends with a TermReq
    };
    Kind kind = discard;
    Segments segments{};
    std::size_t offset = 0;  ///< into segments[0]
    wire::nvme_tcp::Violation violation{};

    [[nodiscard]] static Placement into(Segments to, std::size_t from = 0) noexcept {
        return {.kind = scatter, .segments = to, .offset = from};
    }
    [[nodiscard]] static Placement refused(wire::nvme_tcp::Violation why) noexcept {
        return {.kind = refuse, .violation = why};
    }
};

/// The owner of a stream. Callbacks come from receive() and flush(); they may send, hold, release, change the rules,
/// terminate and close(), but not call receive() or flush() again, nor destroy the stream.
class NvmeTcpHandler {
  public:
    /// A header arrived. PDUs without data are done with this call; for others it says where the data go.
    virtual Placement on_pdu(const NvmeTcpPdu&) noexcept = 0;
    /// All data of the PDU last seen by on_pdu arrived. `in_place`: where they lie, for that placement, else null.
    /// `digest_ok` is false when the data digest does not fit: that ends the command, not the connection.
    virtual void on_data(const NvmeTcpPdu&, std::byte* in_place, bool digest_ok) noexcept = 0;
    /// The peer broke the protocol (found by the stream, or refused by on_pdu). A TermReq is queued; nothing else is
    /// sent or delivered from now on. The owner flushes, waits for on_closed() within a bound of its own, and closes.
    virtual void on_violation(const wire::nvme_tcp::Violation&) noexcept = 0;
    /// The stream ended: the peer closed it (`error_number` 0) or it failed. Nothing else is delivered.
    virtual void on_closed(int error_number) noexcept = 0;

  protected:
    ~NvmeTcpHandler() = default;
};

/// Data of a PDU to send: `bytes` from `segments`, beginning `offset` bytes into the first one. Memory and segment list
/// stay unchanged until Sent.
struct TxData {
    Segments segments{};
    std::size_t offset = 0;
    std::uint32_t bytes = 0;
};
/// The stream no longer refers to the PDU's data, nor to those of PDUs queued before it: they were sent, or will not
/// be. Runs once, in the order of queueing, within flush(), terminate() or close(), or within send() after the end. May
/// send, not destroy.
using Sent = void (*)(void* context) noexcept;

class NvmeTcpStream {
  public:
    static constexpr std::uint32_t max_in_place = NvmeTcpBuffers::chunk_bytes / 2;
    static constexpr unsigned max_chunks = 16;  ///< held by one stream; it reads no more until one is released

    /// `received` judges what comes in.
    NvmeTcpStream(std::unique_ptr<Connection>, NvmeTcpBuffers&, NvmeTcpHandler&,
                  const wire::nvme_tcp::PduRules& received);
    /// Nothing is held any more.
    ~NvmeTcpStream();
    NvmeTcpStream(const NvmeTcpStream&) = delete;
    NvmeTcpStream& operator=(const NvmeTcpStream&) = delete;

    // Receiving.

    /// One receive() of the connection and delivery of every PDU that is complete. Returns how many bytes came.
    std::size_t receive() noexcept;
    /// What was negotiated, for the PDUs that follow.
    void set_rules(const wire::nvme_tcp::PduRules& received) noexcept { rules_ = received; }
    [[nodiscard]] const wire::nvme_tcp::PduRules& rules() const noexcept { return rules_; }
    /// In on_data with data in place: keeps them valid until release(). Every hold is released before the stream goes.
    [[nodiscard]] RxChunk* hold() noexcept;
    void release(RxChunk*) noexcept;

    // Sending.

    /// How PDUs are sent from now on: digests, and the alignment of data in bytes (4 · (n + 1)).
    void set_transmit(bool header_digest, bool data_digest, std::uint32_t data_alignment) noexcept;
    /// Queues a PDU. HLEN, PDO, PLEN, digest flags and digests are filled in here; `flags` are LAST and SUCCESS.
    template <class Header>
    void send(const Header& header, std::uint8_t flags = 0, const TxData& data = {}, Sent sent = nullptr,
              void* context = nullptr) noexcept {
        static_assert(sizeof(Header) <= inline_header_bytes);
        queue_pdu(Header::type, &header, sizeof(Header), flags, data, sent, context);
    }
    void send(const wire::nvme_tcp::IcReq&) noexcept;
    void send(const wire::nvme_tcp::IcResp&) noexcept;
    /// Sends what is queued as far as the connection takes it, in as few send() calls as the segment limit allows.
    /// Returns how many bytes went.
    std::size_t flush() noexcept;
    [[nodiscard]] bool unsent() const noexcept { return head_ != tail_; }
    /// The connection took less than it was offered: arm it for writing before sleeping.
    [[nodiscard]] bool blocked() const noexcept { return blocked_; }

    // Ending.

    /// Drops what is queued (but a PDU partly sent), queues a TermReq and delivers nothing more; as on_violation().
    void terminate(const wire::nvme_tcp::Violation&, std::span<const std::byte> offending) noexcept;
    [[nodiscard]] bool terminated() const noexcept { return state_ == State::terminated; }
    /// Closes the connection at once. Every queued PDU's Sent runs. Idempotent.
    void close() noexcept;
    [[nodiscard]] bool open() const noexcept { return state_ != State::closed; }

    /// The peer has sent the beginning of a PDU and not yet its end.
    [[nodiscard]] bool partial() const noexcept { return step_ != RxStep::header || available() > 0 || stashed_ > 0; }
    /// Gives receive and transmit memory back, as before a long wait. True if it is all back: in-place data that have
    /// come in part, data that are held, and PDUs to send keep theirs.
    bool rest() noexcept;
    [[nodiscard]] Connection& connection() const noexcept { return *connection_; }  ///< while open()

  private:
    static constexpr std::size_t inline_header_bytes = 76;
    enum class State : std::uint8_t { open, terminated, closed };

    // Receiving (nvme_tcp_receive.cpp).
    enum class RxStep : std::uint8_t { header, in_place, data, data_digest };
    static constexpr std::uint32_t direct_bytes = 8192;   // data left from which on they skip the chunk
    static constexpr std::uint32_t header_room = 256;     // the longest header with digest and padding
    static constexpr std::uint32_t bulk_window = 1024;    // read beyond bulk data: the next headers, little else
    static constexpr std::uint32_t least_window = 16384;  // a chunk with less room left is not read into any more
    [[nodiscard]] bool make_room() noexcept;
    [[nodiscard]] std::size_t receive_segments(std::span<Segment>, std::size_t& direct) const noexcept;
    void parse() noexcept;
    [[nodiscard]] bool parse_header() noexcept;
    [[nodiscard]] bool begin_data() noexcept;
    [[nodiscard]] bool deliver_in_place() noexcept;
    [[nodiscard]] bool take_data() noexcept;
    [[nodiscard]] bool finish_data() noexcept;
    void keep_header() noexcept;
    void absorb(std::size_t bytes, const std::byte* from) noexcept;
    void violate(const wire::nvme_tcp::Violation&, std::span<const std::byte> offending) noexcept;
    void end(int error_number) noexcept;
    void drop_chunk() noexcept;
    [[nodiscard]] bool unused() const noexcept;
    [[nodiscard]] std::uint32_t available() const noexcept { return end_ - begin_; }

    // Sending (nvme_tcp_transmit.cpp).
    struct TxPdu {
        std::byte header[inline_header_bytes + wire::nvme_tcp::digest_bytes];
        const Segment* segments;
        std::size_t offset;
        Sent sent;
        void* context;
        std::uint32_t data_bytes;
        le32 digest;
        std::uint8_t header_bytes;  ///< with digest
        std::uint8_t pad_bytes;
        bool data_digest;
    };
    static_assert(sizeof(TxPdu) == 128);
    void queue_pdu(wire::nvme_tcp::PduType, const void* header, std::size_t header_bytes, std::uint8_t flags,
                   const TxData&, Sent, void* context) noexcept;
    void queue_control(unsigned slot, std::size_t bytes) noexcept;
    [[nodiscard]] TxPdu& push() noexcept;
    void consume(std::size_t sent_bytes) noexcept;
    template <class Header>
    void queue_initialization(Header) noexcept;
    void drop_unsent() noexcept;
    [[nodiscard]] static std::size_t pdu_bytes(const TxPdu&) noexcept;
    [[nodiscard]] TxPdu& at(std::uint32_t index) noexcept { return ring_[index & (ring_.size() - 1)]; }

    std::unique_ptr<Connection> connection_;
    NvmeTcpBuffers& buffers_;
    NvmeTcpHandler& handler_;
    wire::nvme_tcp::PduRules rules_;
    State state_ = State::open;

    RxChunk* chunk_ = nullptr;
    std::uint32_t begin_ = 0, end_ = 0;  // unparsed bytes of the chunk
    unsigned chunks_ = 0;                // chunks that this stream reads into or that are held for it
    RxStep step_ = RxStep::header;
    bool bulk_ = false;       // data are being received straight into the owner's segments
    bool receiving_ = false;  // within receive(): the chunk stays
    NvmeTcpPdu pdu_{};
    Placement place_;
    std::uint32_t data_left_ = 0;
    std::size_t place_index_ = 0, place_offset_ = 0;  // where the next data byte goes
    Crc32c crc_;
    std::array<std::byte, header_room> header_;  // of the PDU whose data are on their way, or its beginning in rest()
    std::uint32_t stashed_ = 0;                  // bytes of that beginning

    std::vector<TxPdu> ring_;            ///< size is zero or a power of two
    std::uint32_t head_ = 0, tail_ = 0;  ///< free-running
    std::size_t head_sent_ = 0;          ///< bytes of the head PDU already sent
    std::uint32_t transmit_alignment_ = 4;
    bool transmit_header_digest_ = false, transmit_data_digest_ = false;
    bool blocked_ = false;
    std::array<std::byte, sizeof(wire::nvme_tcp::TermReq) + wire::nvme_tcp::max_term_data_bytes> control_[2];
    Segment control_segments_[2] = {};  // ICReq or ICResp, TermReq
};

}  // namespace mqblk::fabric
