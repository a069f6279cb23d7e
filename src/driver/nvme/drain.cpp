// SPDX-License-Identifier: Apache-2.0
#include "driver/nvme/drain.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

namespace mqblk::driver::nvme {

namespace {
constexpr std::size_t drain_piece_bytes = 16384;
constexpr unsigned drain_reads_per_pass = 16;
}  // namespace

Drain::Drain(Reactor& reactor, std::unique_ptr<fabric::Connection> connection, Duration bound,
             std::function<void()> over)
    : connection_(std::move(connection)), over_(std::move(over)), timer_([this] { connection_.reset(); }) {
    connection_->on_ready([this] { read(); });
    connection_->arm(false);
    const Time now = reactor.now();
    if (bound < never - now) timer_.arm(reactor, now + bound);
}

// The host's own network giving up (no route, retransmissions in vain) says nothing about the target.
bool Drain::ended_by_peer(int error_number) noexcept {
    return error_number == 0 || error_number == ECONNRESET;
}

void Drain::read() {
    if (!connection_) return;
    std::array<std::byte, drain_piece_bytes> forgotten;
    const Segment segment{forgotten.data(), forgotten.size()};
    for (unsigned i = 0; i < drain_reads_per_pass; ++i) {
        const fabric::IoResult result = connection_->receive({&segment, 1});
        if (result.bytes > 0) continue;
        if (result.state == fabric::IoResult::would_block) break;
        const bool proof = ended_by_peer(result.state == fabric::IoResult::failed ? result.error_number : 0);
        connection_.reset();
        timer_.cancel();
        if (proof && over_) over_();
        return;
    }
    connection_->arm(false);
}

}  // namespace mqblk::driver::nvme
