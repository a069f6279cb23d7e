// SPDX-License-Identifier: Apache-2.0
#include "cli/transfer/endpoint.h"

#include "cli/command.h"
#include "cli/patience.h"
#include "cli/print.h"
#include "cli/signals.h"
#include "cli/standard_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mqblk::cli {

namespace {

void fail_piece(Piece& piece, std::string why) {
    piece.failure = std::move(why);
    piece.state = Piece::State::failed;
}

class DeviceEndpoint final : public Endpoint {
  public:
    DeviceEndpoint(std::string name, std::shared_ptr<Device> device, std::unique_ptr<Channel> channel, Reactor& reactor,
                   std::uint64_t offset, bool fua)
        : name_(std::move(name)),
          device_(std::move(device)),
          channel_(std::move(channel)),
          reactor_(reactor),
          offset_(offset),
          fua_(fua) {}

    const std::string& name() const noexcept override { return name_; }
    void read(Piece& piece) override { start(piece, Op::read); }
    void write(Piece& piece) override { start(piece, Op::write); }

    Result<> sync() override {
        Bio flush;
        flush.op = Op::flush;
        flush.done = [](Bio&) noexcept {};
        channel_->submit(flush);
        Patience patience(reactor_);
        while (channel_->outstanding() > 0) {
            if (patience.wait(1)) continue;
            complain(
                fmt::format("{}: given up; the flush was not answered, and what was written may not be on stable "
                            "media",
                            name_));
            leave(exit_signal + Signals::caught());
        }
        if (flush.status == Status::ok) return {};
        return fail(Errc::io, fmt::format("{}: flush failed: {}", name_, to_string(flush.status)));
    }

  private:
    void start(Piece& piece, Op op) {
        piece.state = op == Op::read ? Piece::State::reading : Piece::State::writing;
        piece.segment.bytes = piece.bytes;
        piece.bio = Bio{};
        piece.bio.op = op;
        piece.bio.flags = op == Op::write && fua_ ? bio_fua : 0;
        piece.bio.sector = (offset_ + piece.offset) / sector_bytes;
        piece.bio.sectors = piece.bytes / sector_bytes;
        piece.bio.data = {&piece.segment, 1};
        piece.bio.done = [](Bio& bio) noexcept { ended(*static_cast<Piece*>(bio.context)); };
        piece.bio.context = &piece;
        piece.end_name = &name_;
        channel_->submit(piece.bio);
    }

    static void ended(Piece& piece) noexcept {
        const bool reading = piece.state == Piece::State::reading;
        if (piece.bio.status == Status::ok) {
            piece.state = reading ? Piece::State::ready : Piece::State::written;
            return;
        }
        fail_piece(piece,
                   fmt::format("{}: {} of {} bytes at byte {} failed: {}", *piece.end_name, reading ? "read" : "write",
                               piece.bytes, piece.bio.sector * sector_bytes, to_string(piece.bio.status)));
    }

    std::string name_;
    std::shared_ptr<Device> device_;
    std::unique_ptr<Channel> channel_;
    Reactor& reactor_;
    const std::uint64_t offset_;
    const bool fua_;
};

class DescriptorEndpoint final : public Endpoint {
  public:
    DescriptorEndpoint(std::string name, int fd, bool stream) : name_(std::move(name)), fd_(fd), stream_(stream) {}

    const std::string& name() const noexcept override { return name_; }
    bool is_stream() const noexcept override { return stream_; }

    void read(Piece& piece) override {
        std::size_t done = 0;
        while (done < piece.bytes) {
            auto* at = piece.segment.data + done;
            const auto got = stream_ ? ::read(fd_, at, piece.bytes - done)
                                     : ::pread(fd_, at, piece.bytes - done, static_cast<off_t>(piece.offset + done));
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) return fail_piece(piece, failure_text("read", errno));
            if (got == 0) break;
            done += static_cast<std::size_t>(got);
        }
        piece.bytes = done;
        piece.state = Piece::State::ready;
    }

    void write(Piece& piece) override {
        std::size_t done = 0;
        while (done < piece.bytes) {
            const auto* at = piece.segment.data + done;
            const auto put = stream_ ? ::write(fd_, at, piece.bytes - done)
                                     : ::pwrite(fd_, at, piece.bytes - done, static_cast<off_t>(piece.offset + done));
            if (put < 0 && errno == EINTR) continue;
            if (put < 0) {
                const int problem = errno;
                if (fd_ == STDOUT_FILENO && problem == EPIPE) note_output_error(problem);
                return fail_piece(piece, failure_text("write", problem));
            }
            done += static_cast<std::size_t>(put);
        }
        piece.state = Piece::State::written;
    }

    Result<> sync() override {
        if (stream_ || ::fdatasync(fd_) == 0 || errno == EINVAL || errno == EROFS) return {};
        return fail(Errc::io, failure_text("flush", errno));
    }

  private:
    std::string failure_text(std::string_view what, int error_number) const {
        return Error::from_errno(error_number, fmt::format("{}: {} failed", name_, what)).message();
    }

    std::string name_;
    int fd_;
    bool stream_;
};

}  // namespace

Result<std::unique_ptr<Endpoint>> device_endpoint(std::string name, std::shared_ptr<Device> device, Reactor& reactor,
                                                  std::uint64_t offset, bool fua) {
    auto channel = device->channel(reactor);
    if (!channel) return std::unexpected(channel.error().in(name));
    return std::make_unique<DeviceEndpoint>(std::move(name), std::move(device), std::move(*channel), reactor, offset,
                                            fua);
}

std::unique_ptr<Endpoint> descriptor_endpoint(std::string name, int fd, bool stream) {
    return std::make_unique<DescriptorEndpoint>(std::move(name), fd, stream);
}

}  // namespace mqblk::cli
