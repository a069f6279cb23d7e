// SPDX-License-Identifier: Apache-2.0
//
// The ends of a transfer: a device, a regular file, a pipe, or a comparison with another end. A piece belongs to the
// pipeline; while an end works on it, to that end. Everything happens on one thread, in one reactor.
#pragma once

#include "memory/buffer.h"
#include "reactor/reactor.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mqblk::cli {

/// One stretch of data on its way.
struct Piece {
    enum class State : std::uint8_t { idle, reading, ready, writing, written, failed };

    Bio bio;
    Segment segment{nullptr, 0};
    std::uint64_t offset = 0;  ///< bytes from the start of the transfer
    std::size_t bytes = 0;     ///< a read that meets the end of a file or pipe makes it smaller
    std::size_t room = 0;      ///< of the buffer at segment.data
    unsigned index = 0;        ///< among the pipeline's pieces
    State state = State::idle;
    const std::string* end_name = nullptr;  ///< of the device that works on it
    std::string failure;                    ///< what went wrong, once state is `failed`
};

class Endpoint {
  public:
    virtual ~Endpoint() = default;
    [[nodiscard]] virtual const std::string& name() const noexcept = 0;
    /// Fill the piece from its offset; in the end state is `ready` or `failed`, at once or from a pass of the reactor.
    virtual void read(Piece&) = 0;
    /// Take the piece's bytes; in the end state is `written` or `failed`. Called in order of offset.
    virtual void write(Piece&) = 0;
    /// After a pass of the reactor: move pieces on that depend on others. Most have none.
    virtual void advance() {}
    /// What was written is on stable media. Nothing is in flight.
    [[nodiscard]] virtual Result<> sync() = 0;
    /// Read it in order, to find where it ends.
    [[nodiscard]] virtual bool is_stream() const noexcept { return false; }
};

/// A device from byte `offset` on; `fua` applies to writes.
[[nodiscard]] Result<std::unique_ptr<Endpoint>> device_endpoint(std::string name, std::shared_ptr<Device>, Reactor&,
                                                                std::uint64_t offset, bool fua);

/// A descriptor, which it does not close: a file from its start, or a pipe.
[[nodiscard]] std::unique_ptr<Endpoint> descriptor_endpoint(std::string name, int fd, bool stream);

/// Writing to it compares with what `other` holds at the same offset; `other` outlives it.
class CompareEndpoint final : public Endpoint {
  public:
    /// For a pipeline of `pieces` pieces of at most `room` bytes; `other` is read in whole blocks.
    [[nodiscard]] static Result<std::unique_ptr<CompareEndpoint>> create(Endpoint& other, std::size_t block_bytes,
                                                                         unsigned pieces, std::size_t room);

    [[nodiscard]] const std::string& name() const noexcept override { return other_.name(); }
    void read(Piece& piece) override { other_.read(piece); }
    void write(Piece&) override;
    void advance() override;
    [[nodiscard]] Result<> sync() override { return {}; }

    struct Difference {
        std::uint64_t offset;      ///< of the first byte that differs, from the start of the transfer
        unsigned expected, found;  ///< the byte at the source, and at `other`
    };
    [[nodiscard]] const std::optional<Difference>& difference() const noexcept { return difference_; }

  private:
    CompareEndpoint(Endpoint& other, std::size_t block_bytes, memory::Buffer memory)
        : other_(other), block_bytes_(block_bytes), memory_(std::move(memory)) {}
    void compare(Piece& piece, Piece& shadow);

    Endpoint& other_;
    const std::size_t block_bytes_;
    memory::Buffer memory_;
    std::vector<Piece> shadows_;   // one for each piece, by index
    std::vector<Piece*> waiting_;  // pieces whose shadow is being read, by index; or null
    std::optional<Difference> difference_;
};

}  // namespace mqblk::cli
