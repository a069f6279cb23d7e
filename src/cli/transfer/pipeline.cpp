// SPDX-License-Identifier: Apache-2.0
#include "cli/transfer/pipeline.h"

#include "cli/signals.h"

#include <algorithm>
#include <cstring>

namespace mqblk::cli {

Result<> Pipeline::allocate() {
    auto buffer = memory::Buffer::allocate(pieces * piece_bytes);
    if (!buffer) return std::unexpected(buffer.error());
    memory_ = std::move(*buffer);
    ring_.resize(pieces);
    for (unsigned i = 0; i < pieces; ++i) {
        ring_[i].index = i;
        ring_[i].room = piece_bytes;
        ring_[i].segment.data = memory_.data() + i * piece_bytes;
    }
    return {};
}

bool Pipeline::in_flight() const noexcept {
    return std::any_of(ring_.begin(), ring_.end(), [](const Piece& piece) {
        return piece.state == Piece::State::reading || piece.state == Piece::State::writing;
    });
}

/// A stream ends with a short piece: its length is known now.
void Pipeline::take_end_of_stream(Piece& piece) {
    all_ = piece.offset + piece.bytes;
    begun_ = all_;
    if (hold_writes_ && check_stream_) {
        if (auto ok = check_stream_(all_); !ok) {
            error_ = ok.error();
            stopping_ = true;
        }
    }
    hold_writes_ = false;
    if (piece.bytes == 0) piece.state = Piece::State::idle;
}

void Pipeline::pad(Piece& piece) noexcept {
    const auto rest = piece.bytes % pad_bytes_;
    if (rest == 0) return;
    std::memset(piece.segment.data + piece.bytes, 0, pad_bytes_ - rest);
    piece.bytes += pad_bytes_ - rest;
}

void Pipeline::begin_reads(Endpoint& from) {
    while (!stopping_ && begun_ < all_ && ring_[read_at_].state == Piece::State::idle) {
        auto& piece = ring_[read_at_];
        piece.offset = begun_;
        piece.bytes = static_cast<std::size_t>(std::min<std::uint64_t>(piece.room, all_ - begun_));
        begun_ += piece.bytes;
        const auto wanted = piece.bytes;
        read_at_ = (read_at_ + 1) % pieces;
        from.read(piece);
        if (piece.state == Piece::State::ready && piece.bytes < wanted) take_end_of_stream(piece);
        if (piece.state == Piece::State::ready) pad(piece);
    }
    if (ring_[read_at_].state != Piece::State::idle) hold_writes_ = false;
}

void Pipeline::begin_writes(Endpoint& to) {
    while (!stopping_ && !hold_writes_ && ring_[write_at_].state == Piece::State::ready) {
        auto& piece = ring_[write_at_];
        write_at_ = (write_at_ + 1) % pieces;
        to.write(piece);
    }
}

void Pipeline::collect() {
    for (auto& piece : ring_) {
        if (piece.state == Piece::State::written) {
            written_ += piece.bytes;
            piece.state = Piece::State::idle;
        } else if (piece.state == Piece::State::failed) {
            if (!error_) error_.emplace(Errc::io, piece.failure);
            piece.state = Piece::State::idle;
            stopping_ = true;
        }
    }
}

Result<std::uint64_t> Pipeline::run(Endpoint& from, Endpoint& to, std::uint64_t bytes) {
    if (auto ok = allocate(); !ok) return std::unexpected(ok.error());
    all_ = bytes;
    hold_writes_ = from.is_stream();
    while (true) {
        if (Signals::caught() != 0 || (stop_ && stop_())) stopping_ = true;
        begin_reads(from);
        begin_writes(to);
        collect();
        const bool waiting = in_flight();
        const bool more = !stopping_ && (begun_ < all_ || ring_[write_at_].state == Piece::State::ready);
        if (!waiting && !more) break;
        if (waiting) {
            reactor_.run_once(Reactor::Sleep::yes);
            from.advance();
            to.advance();
            collect();
        }
        progress_.update(written_, all_ == to_the_end ? written_ : all_);
    }
    if (error_) return std::unexpected(*error_);
    return written_;
}

}  // namespace mqblk::cli
