// SPDX-License-Identifier: Apache-2.0
//
// Moves data from one end to another with a fixed number of pieces in flight. Reads run ahead; writes begin in order.
// The first failure or a signal stops it: nothing new is begun, and what was begun ends.
#pragma once

#include "cli/patience.h"
#include "cli/progress.h"
#include "cli/transfer/endpoint.h"
#include "memory/buffer.h"

#include <mqblk/error.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace mqblk::cli {

class Pipeline {
  public:
    static constexpr unsigned pieces = 16;
    static constexpr std::size_t piece_bytes = 512 * 1024;
    static constexpr std::uint64_t to_the_end = ~0ull;  ///< of a stream

    Pipeline(Reactor& reactor, Progress& progress) : reactor_(reactor), progress_(progress) {}

    /// Called once with all bytes that a stream held when it ended before anything was written; an error stops it
    /// there.
    void on_short_stream(std::function<Result<>(std::uint64_t bytes)> check) { check_stream_ = std::move(check); }
    /// From a file or pipe: a last piece that is no multiple of this is filled up with zeroes.
    void pad_to(std::size_t block_bytes) { pad_bytes_ = block_bytes; }
    /// Called after each step; true stops it without an error.
    void stop_when(std::function<bool()> stop) { stop_ = std::move(stop); }

    /// Moves `bytes`, or all that a stream holds. Returns how many bytes were written; fewer only after a signal. A
    /// source that ends before `bytes` is an error.
    [[nodiscard]] Result<std::uint64_t> run(Endpoint& from, Endpoint& to, std::uint64_t bytes);
    /// After run(): so many pieces were given up by a second signal and are still in flight; their memory is kept for
    /// good. Leave the process.
    [[nodiscard]] unsigned given_up() const noexcept { return given_up_; }

  private:
    Result<> allocate();
    void begin_reads(Endpoint& from);
    void begin_writes(Endpoint& to);
    void collect();
    void take_end(const std::string& name, Piece& piece);
    void pad(Piece& piece) noexcept;
    void abandon();
    [[nodiscard]] unsigned in_flight() const noexcept;

    Reactor& reactor_;
    Progress& progress_;
    std::function<Result<>(std::uint64_t)> check_stream_;
    std::function<bool()> stop_;
    std::size_t pad_bytes_ = 1;

    memory::Buffer memory_;
    std::vector<Piece> ring_;
    unsigned read_at_ = 0, write_at_ = 0;  ///< next in the ring to be read into, and to be written from
    std::uint64_t all_ = 0, begun_ = 0, written_ = 0;
    unsigned given_up_ = 0;
    bool stopping_ = false;
    bool hold_writes_ = false;  ///< until a stream has filled all pieces, or ended, or given what was asked for
    std::optional<Error> error_;
};

}  // namespace mqblk::cli
