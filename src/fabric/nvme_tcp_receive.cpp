// SPDX-License-Identifier: Apache-2.0
//
// The receiving half of NvmeTcpStream. One chunk of memory is filled by one receive() a pass and parsed PDU by PDU;
// what is left of it between passes is never more than one incomplete header or one incomplete in-place PDU. Large data
// bypass the chunk. NVM Express TCP Transport Specification 1.0, section 3.6.
#include "fabric/nvme_tcp_stream.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>
#include <utility>

namespace mqblk::fabric {

using wire::nvme_tcp::CommonHeader;
using wire::nvme_tcp::digest_bytes;
using wire::nvme_tcp::FatalStatus;
using wire::nvme_tcp::Violation;

namespace {

std::uint32_t read_digest(const std::byte* bytes) noexcept {
    le32 digest;
    std::memcpy(&digest, bytes, sizeof(digest));
    return digest;
}

}  // namespace

NvmeTcpBuffers::NvmeTcpBuffers() : staging_(new std::byte[gather_bytes]) {}

NvmeTcpBuffers::~NvmeTcpBuffers() {
    while (free_ != nullptr) {
        RxChunk* chunk = free_;
        free_ = chunk->next;
        ::operator delete(chunk->bytes, std::align_val_t{4096});
        delete chunk;
    }
}

RxChunk* NvmeTcpBuffers::take() noexcept {
    if (RxChunk* chunk = free_; chunk != nullptr) {
        free_ = chunk->next;
        --free_count_;
        return chunk;
    }
    auto* chunk = new (std::nothrow) RxChunk{};
    if (chunk == nullptr) return nullptr;
    chunk->bytes = static_cast<std::byte*>(::operator new(chunk_bytes, std::align_val_t{4096}, std::nothrow));
    if (chunk->bytes == nullptr) {
        delete chunk;
        return nullptr;
    }
    return chunk;
}

void NvmeTcpBuffers::give(RxChunk* chunk) noexcept {
    if (free_count_ >= kept_chunks) {
        ::operator delete(chunk->bytes, std::align_val_t{4096});
        delete chunk;
        return;
    }
    chunk->next = free_;
    free_ = chunk;
    ++free_count_;
}

RxChunk* NvmeTcpStream::hold() noexcept {
    ++chunk_->references;
    return chunk_;
}

void NvmeTcpStream::release(RxChunk* chunk) noexcept {
    assert(chunk->stream == this && chunk->references > 0);
    if (--chunk->references > 0) return;
    --chunks_;
    buffers_.give(chunk);
}

void NvmeTcpStream::drop_chunk() noexcept {
    if (chunk_ != nullptr) release(std::exchange(chunk_, nullptr));
    begin_ = end_ = 0;
}

std::size_t NvmeTcpStream::receive() noexcept {
    if (state_ == State::closed || !make_room()) return 0;
    receiving_ = true;
    std::size_t direct = 0;
    const std::span<Segment> scratch = buffers_.segments();
    const std::size_t count = receive_segments(scratch, direct);
    const IoResult result = connection_->receive(scratch.first(count));
    if (result.bytes > 0) {
        const std::size_t straight = std::min(result.bytes, direct);
        if (straight > 0) absorb(straight, nullptr);
        end_ += static_cast<std::uint32_t>(result.bytes - straight);
        parse();
    } else if (result.state != IoResult::would_block) {
        end(result.state == IoResult::failed ? result.error_number : 0);
    }
    receiving_ = false;
    if (state_ == State::closed || unused()) drop_chunk();
    return result.bytes;
}

// A chunk in which nothing lies goes back after every look at the socket: the stream looked at next takes the same
// memory, still in the cache, and however many streams there are, few chunks do.
bool NvmeTcpStream::unused() const noexcept {
    return chunk_ != nullptr && chunk_->references == 1 && available() == 0 && step_ != RxStep::in_place;
}

// The chunk gets room for what comes next: another header, or the rest of an in-place PDU.
bool NvmeTcpStream::make_room() noexcept {
    if (chunk_ == nullptr) {
        if (chunks_ >= max_chunks || (chunk_ = buffers_.take()) == nullptr) return false;
        chunk_->stream = this;
        chunk_->references = 1;
        ++chunks_;
        std::memcpy(chunk_->bytes, header_.data(), stashed_);
        end_ = std::exchange(stashed_, 0);
        return true;
    }
    constexpr auto size = static_cast<std::uint32_t>(NvmeTcpBuffers::chunk_bytes);
    const bool shared = chunk_->references > 1;
    if (begin_ == end_ && !shared) begin_ = end_ = 0;
    if (step_ == RxStep::in_place ? size - begin_ >= pdu_.shape.pdu_bytes : size - end_ >= least_window) return true;
    if (!shared) {
        std::memmove(chunk_->bytes, chunk_->bytes + begin_, available());
    } else {
        RxChunk* fresh = chunks_ < max_chunks ? buffers_.take() : nullptr;
        if (fresh == nullptr) return step_ != RxStep::in_place && size - begin_ >= header_room && end_ < size;
        std::memcpy(fresh->bytes, chunk_->bytes + begin_, available());
        --chunk_->references;
        chunk_ = fresh;
        chunk_->stream = this;
        chunk_->references = 1;
        ++chunks_;
    }
    end_ -= begin_;
    begin_ = 0;
    return true;
}

// Where the next bytes go: the owner's segments for large data, then the chunk. `direct` counts the former.
std::size_t NvmeTcpStream::receive_segments(std::span<Segment> out, std::size_t& direct) const noexcept {
    std::size_t count = 0;
    if (step_ == RxStep::data && place_.kind == Placement::scatter && data_left_ >= direct_bytes) {
        std::size_t index = place_index_, offset = place_offset_;
        while (direct < data_left_ && count + 1 < out.size()) {
            const Segment& segment = place_.segments[index];
            const std::size_t bytes = std::min<std::size_t>(segment.bytes - offset, data_left_ - direct);
            if (bytes > 0) out[count++] = {segment.data + offset, bytes};
            direct += bytes;
            ++index;
            offset = 0;
        }
        if (direct < data_left_) return count;
    }
    std::size_t room = NvmeTcpBuffers::chunk_bytes - end_;
    if (bulk_ && (step_ == RxStep::header || direct > 0)) room = std::min<std::size_t>(room, bulk_window);
    out[count++] = {chunk_->bytes + end_, room};
    return count;
}

// Advances the data of the present PDU by bytes that lie at `from`, or (null) already in the owner's segments.
void NvmeTcpStream::absorb(std::size_t bytes, const std::byte* from) noexcept {
    data_left_ -= static_cast<std::uint32_t>(bytes);
    if (place_.kind != Placement::scatter) {
        if (pdu_.shape.data_digest && from != nullptr) crc_.update(from, bytes);
        return;
    }
    while (bytes > 0) {
        const Segment& segment = place_.segments[place_index_];
        const std::size_t piece = std::min(segment.bytes - place_offset_, bytes);
        std::byte* to = segment.data + place_offset_;
        if (from != nullptr && piece > 0) {
            std::memcpy(to, from, piece);
            from += piece;
        }
        if (pdu_.shape.data_digest) crc_.update(to, piece);
        bytes -= piece;
        place_offset_ += piece;
        if (place_offset_ == segment.bytes) {
            ++place_index_;
            place_offset_ = 0;
        }
    }
}

void NvmeTcpStream::parse() noexcept {
    bool more = true;
    while (more && state_ == State::open) {
        switch (step_) {
            case RxStep::header:
                more = parse_header();
                break;
            case RxStep::in_place:
                more = deliver_in_place();
                break;
            case RxStep::data:
                more = take_data();
                break;
            case RxStep::data_digest:
                more = finish_data();
                break;
        }
    }
    if (state_ == State::terminated) {
        begin_ = end_;
        step_ = RxStep::header;
    }
}

bool NvmeTcpStream::parse_header() noexcept {
    if (available() < sizeof(CommonHeader)) return false;
    const std::byte* bytes = chunk_->bytes + begin_;
    const auto& common = *reinterpret_cast<const CommonHeader*>(bytes);
    const auto shape = wire::nvme_tcp::check_header(common, rules_);
    if (!shape) {
        violate(shape.error(), {bytes, std::min<std::size_t>(available(), wire::nvme_tcp::max_term_data_bytes)});
        return false;
    }
    const std::uint32_t header_end = shape->header_bytes + (shape->header_digest ? digest_bytes : 0);
    if (available() < (shape->data_bytes > 0 ? shape->data_offset : header_end)) return false;

    const std::span header(bytes, shape->header_bytes);
    if (shape->header_digest) {
        const std::uint32_t digest = read_digest(bytes + shape->header_bytes);
        if (digest != Crc32c::of(bytes, shape->header_bytes)) {
            violate({FatalStatus::header_digest_error, digest, "wrong header digest"}, header);
            return false;
        }
    }
    if (const Violation* violation = wire::nvme_tcp::check_fields(header, *shape)) {
        violate(*violation, header);
        return false;
    }
    pdu_ = {*shape, header};
    place_ = handler_.on_pdu(pdu_);
    if (state_ != State::open) return false;
    if (place_.kind == Placement::refuse) {
        violate(place_.violation, header);
        return false;
    }
    if (shape->data_bytes == 0) {
        bulk_ = bulk_ && shape->type != wire::nvme_tcp::PduType::capsule_cmd;
        begin_ += header_end;
        return true;
    }
    return begin_data();
}

bool NvmeTcpStream::begin_data() noexcept {
    const auto& shape = pdu_.shape;
    bulk_ = place_.kind == Placement::scatter && shape.data_bytes >= direct_bytes;
    if (place_.kind == Placement::in_place) {
        assert(shape.data_bytes <= max_in_place);
        step_ = RxStep::in_place;
        if (available() < shape.pdu_bytes) keep_header();
        return true;
    }
    if (available() < shape.pdu_bytes) keep_header();
    begin_ += shape.data_offset;
    data_left_ = shape.data_bytes;
    place_index_ = 0;
    place_offset_ = place_.offset;
    crc_.reset();
    step_ = RxStep::data;
    return true;
}

// The chunk will be reused before the data are complete; the header is still needed then.
void NvmeTcpStream::keep_header() noexcept {
    std::copy(pdu_.header.begin(), pdu_.header.end(), header_.begin());
    pdu_.header = std::span(header_).first(pdu_.header.size());
}

bool NvmeTcpStream::deliver_in_place() noexcept {
    const auto& shape = pdu_.shape;
    if (available() < shape.pdu_bytes) return false;
    std::byte* data = chunk_->bytes + begin_ + shape.data_offset;
    const bool digest_ok =
        !shape.data_digest || Crc32c::of(data, shape.data_bytes) == read_digest(data + shape.data_bytes);
    step_ = RxStep::header;
    begin_ += shape.pdu_bytes;
    handler_.on_data(pdu_, data, digest_ok);
    return true;
}

bool NvmeTcpStream::take_data() noexcept {
    const std::size_t bytes = std::min(available(), data_left_);
    absorb(bytes, chunk_->bytes + begin_);
    begin_ += static_cast<std::uint32_t>(bytes);
    if (data_left_ > 0) return false;
    step_ = RxStep::data_digest;
    return true;
}

bool NvmeTcpStream::finish_data() noexcept {
    bool digest_ok = true;
    if (pdu_.shape.data_digest) {
        if (available() < digest_bytes) return false;
        digest_ok = read_digest(chunk_->bytes + begin_) == crc_.value();
        begin_ += digest_bytes;
    }
    step_ = RxStep::header;
    handler_.on_data(pdu_, nullptr, digest_ok);
    return true;
}

void NvmeTcpStream::violate(const Violation& violation, std::span<const std::byte> offending) noexcept {
    terminate(violation, offending);
    handler_.on_violation(violation);
}

void NvmeTcpStream::end(int error_number) noexcept {
    close();
    handler_.on_closed(error_number);
}

bool NvmeTcpStream::rest() noexcept {
    if (!receiving_ && chunk_ != nullptr && step_ != RxStep::in_place &&
        (step_ == RxStep::header || available() == 0)) {
        const std::uint32_t beginning = available();  // of a header: the parser leaves no more
        std::memcpy(header_.data(), chunk_->bytes + begin_, beginning);
        drop_chunk();
        stashed_ = beginning;
    }
    if (!unsent() && ring_.size() > 0) {
        ring_ = {};
        head_ = tail_ = 0;
    }
    return chunks_ == 0 && ring_.empty();
}

}  // namespace mqblk::fabric
