// SPDX-License-Identifier: Apache-2.0
#include "cli/transfer/pipeline.h"

#include "cli/signals.h"

#include <fmt/format.h>

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

unsigned Pipeline::in_flight() const noexcept {
    return static_cast<unsigned>(std::count_if(ring_.begin(), ring_.end(), [](const Piece& piece) {
        return piece.state == Piece::State::reading || piece.state == Piece::State::writing;
    }));
}

/// A short piece: the source ends here. A stream's length is known now; whoever was asked for more has too little.
void Pipeline::take_end(const std::string& name, Piece& piece) {
    const auto end = piece.offset + piece.bytes;
    const bool untouched = hold_writes_;
    hold_writes_ = false;
    if (all_ != to_the_end) {
        error_.emplace(untouched ? Errc::invalid_argument : Errc::io,
                       fmt::format("{} ended after {} of {} bytes{}", name, end, all_,
                                   untouched ? ", and nothing was written; ask for no more than there is" : ""));
        stopping_ = true;
    } else if (untouched && check_stream_) {
        if (auto ok = check_stream_(end); !ok) {
            error_ = ok.error();
            stopping_ = true;
        }
    }
    all_ = begun_ = end;
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
        if (piece.state == Piece::State::ready && piece.bytes < wanted) take_end(from.name(), piece);
        if (piece.state == Piece::State::ready) pad(piece);
    }
    if (begun_ >= all_ || ring_[read_at_].state != Piece::State::idle) hold_writes_ = false;
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

/// What is in flight may still read and write the pieces: they outlive everything.
void Pipeline::abandon() {
    given_up_ = in_flight();
    static_cast<void>(new memory::Buffer(std::move(memory_)));
    static_cast<void>(new std::vector<Piece>(std::move(ring_)));
}

Result<std::uint64_t> Pipeline::run(Endpoint& from, Endpoint& to, std::uint64_t bytes) {
    if (auto ok = allocate(); !ok) return std::unexpected(ok.error());
    all_ = bytes;
    hold_writes_ = from.is_stream();
    Patience patience(reactor_);
    while (true) {
        if (Signals::caught() != 0 || (stop_ && stop_())) stopping_ = true;
        begin_reads(from);
        begin_writes(to);
        collect();
        const unsigned waiting = in_flight();
        const bool more = !stopping_ && (begun_ < all_ || ring_[write_at_].state == Piece::State::ready);
        if (waiting == 0 && !more) break;
        if (waiting > 0) {
            if (!patience.wait(waiting)) {
                abandon();
                break;
            }
            from.advance();
            to.advance();
            collect();
        }
        progress_.update(written_, all_ == to_the_end ? Progress::unknown : all_);
    }
    if (error_ && given_up_ == 0) return std::unexpected(*error_);
    return written_;
}

}  // namespace mqblk::cli
