// SPDX-License-Identifier: Apache-2.0
//
// Comparison as the far end of a pipeline: each piece is read from the other side too, then compared.
#include "cli/transfer/endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace mqblk::cli {

Result<std::unique_ptr<CompareEndpoint>> CompareEndpoint::create(Endpoint& other, std::size_t block_bytes,
                                                                 unsigned pieces, std::size_t room) {
    auto buffer = memory::Buffer::allocate(pieces * room);
    if (!buffer) return std::unexpected(buffer.error());
    std::unique_ptr<CompareEndpoint> result(new CompareEndpoint(other, block_bytes, std::move(*buffer)));
    result->shadows_.resize(pieces);
    result->waiting_.resize(pieces, nullptr);
    for (unsigned i = 0; i < pieces; ++i) {
        result->shadows_[i].index = i;
        result->shadows_[i].segment.data = result->memory_.data() + i * room;
    }
    return result;
}

void CompareEndpoint::write(Piece& piece) {
    auto& shadow = shadows_[piece.index];
    piece.state = Piece::State::writing;
    waiting_[piece.index] = &piece;
    shadow.offset = piece.offset;
    shadow.bytes = (piece.bytes + block_bytes_ - 1) / block_bytes_ * block_bytes_;
    other_.read(shadow);
    advance();
}

void CompareEndpoint::advance() {
    for (auto& shadow : shadows_) {
        auto*& piece = waiting_[shadow.index];
        if (piece == nullptr || shadow.state == Piece::State::reading) continue;
        compare(*piece, shadow);
        piece = nullptr;
    }
}

void CompareEndpoint::compare(Piece& piece, Piece& shadow) {
    if (shadow.state == Piece::State::failed) {
        piece.failure = shadow.failure;
        piece.state = Piece::State::failed;
        return;
    }
    piece.state = Piece::State::written;
    const auto* a = piece.segment.data;
    const auto* b = shadow.segment.data;
    const std::size_t common = std::min(piece.bytes, shadow.bytes);
    if (piece.bytes <= shadow.bytes && std::memcmp(a, b, common) == 0) return;
    const auto at = static_cast<std::size_t>(std::mismatch(a, a + common, b).first - a);
    const std::uint64_t offset = piece.offset + at;
    if (difference_ && difference_->offset <= offset) return;
    const auto byte_at = [&](const std::byte* data, std::size_t bytes) {
        return at < bytes ? std::to_integer<unsigned>(data[at]) : 0u;
    };
    difference_ = Difference{offset, byte_at(a, piece.bytes), byte_at(b, shadow.bytes)};
}

}  // namespace mqblk::cli
