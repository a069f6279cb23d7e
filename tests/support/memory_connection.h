// SPDX-License-Identifier: Apache-2.0
//
// A Connection in memory: two byte queues. How many bytes a call moves is the test's to say, so that a stream can be
// cut at any byte. Alone it is scripted (feed, take), as one of a pair it talks to the other end.
#pragma once

#include "fabric/connection.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace mqblk::test {

struct MemoryPipe {
    std::vector<std::byte> bytes;
    std::size_t taken = 0;
    bool ended = false;
    [[nodiscard]] std::size_t waiting() const { return bytes.size() - taken; }
};

class MemoryConnection final : public fabric::Connection {
  public:
    /// Most bytes that the next call moves; 0 makes it block.
    using Limit = std::function<std::size_t()>;

    MemoryConnection(std::shared_ptr<MemoryPipe> in, std::shared_ptr<MemoryPipe> out)
        : in_(std::move(in)), out_(std::move(out)) {}
    ~MemoryConnection() override {
        out_->ended = in_->ended = true;
        if (gone) gone(this);
    }

    /// Runs the callback if the connection is armed and something happened. True if it did.
    bool fire() {
        const bool readable = armed_read && (in_->waiting() > 0 || in_->ended);
        if (!readable && !armed_write) return false;
        armed_read = armed_write = false;
        const auto callback = ready;  // a copy: it may destroy the connection
        if (callback) callback();
        return true;
    }

    fabric::IoResult receive(Segments segments) noexcept override {
        std::size_t most = receive_limit ? receive_limit() : SIZE_MAX, moved = 0;
        for (const Segment& segment : segments) {
            const std::size_t piece = std::min({segment.bytes, most, in_->waiting()});
            if (piece > 0) std::memcpy(segment.data, in_->bytes.data() + in_->taken, piece);
            in_->taken += piece;
            most -= piece;
            moved += piece;
        }
        if (moved > 0) return {moved, fabric::IoResult::progress, 0};
        return {0, in_->ended && in_->waiting() == 0 ? fabric::IoResult::closed : fabric::IoResult::would_block, 0};
    }
    fabric::IoResult send(Segments segments, bool) noexcept override {
        if (out_->ended) return {0, fabric::IoResult::failed, 32};
        std::size_t most = send_limit ? send_limit() : SIZE_MAX, moved = 0;
        for (const Segment& segment : segments) {
            const std::size_t piece = std::min(segment.bytes, most);
            out_->bytes.insert(out_->bytes.end(), segment.data, segment.data + piece);
            most -= piece;
            moved += piece;
        }
        if (moved > 0) return {moved, fabric::IoResult::progress, 0};
        return {0, fabric::IoResult::would_block, 0};
    }
    void arm(bool for_write) override { (for_write ? armed_write : armed_read) = true; }
    void on_ready(std::function<void()> callback) override { ready = std::move(callback); }
    void shutdown() noexcept override { out_->ended = true; }
    [[nodiscard]] std::string peer() const override { return "memory"; }
    [[nodiscard]] std::string local() const override { return "memory"; }

    Limit receive_limit, send_limit;
    std::function<void()> ready;
    std::function<void(MemoryConnection*)> gone;  ///< runs when it is destroyed
    bool armed_read = false, armed_write = false;

  private:
    std::shared_ptr<MemoryPipe> in_, out_;
};

/// Two ends of one stream.
inline std::pair<std::unique_ptr<MemoryConnection>, std::unique_ptr<MemoryConnection>> connection_pair() {
    auto there = std::make_shared<MemoryPipe>(), back = std::make_shared<MemoryPipe>();
    return {std::make_unique<MemoryConnection>(back, there), std::make_unique<MemoryConnection>(there, back)};
}

}  // namespace mqblk::test
