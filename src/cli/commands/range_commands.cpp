// SPDX-License-Identifier: Apache-2.0
//
// flush, discard and zero: one operation without data over a device or a part of it.
#include "base/steady_clock.h"
#include "cli/arguments.h"
#include "cli/commands/commands.h"
#include "cli/session.h"
#include "cli/signals.h"
#include "cli/transfer/move.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <limits>

namespace mqblk::cli {

namespace {

class FlushCommand final : public Command {
  public:
    void declare(CLI::App& app) override { app.add_option("URI", uri_, "The device")->required(); }

    Result<int> run(const Invocation& invocation) override {
        Session session;
        auto device = session.context().open(uri_);
        if (!device) return std::unexpected(device.error());
        const auto reactor = session.reactor();
        if (!reactor) return std::unexpected(reactor.error());
        const auto begun = SteadyClock::read();
        const auto end = device_endpoint(uri_, *device, **reactor, 0, false);
        if (!end) return std::unexpected(end.error());
        if (auto ok = (*end)->sync(); !ok) return std::unexpected(ok.error());
        report_moved(invocation, "flush", {0, std::chrono::duration<double>(SteadyClock::read() - begun).count(), 0});
        return exit_ok;
    }

  private:
    std::string uri_;
};

class RangeCommand final : public Command {
  public:
    RangeCommand(std::string name, Op op) : name_(std::move(name)), op_(op) {}

    void declare(CLI::App& app) override {
        constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
        app.add_option("URI", uri_, "The device")->required();
        add_size(app, "--offset", offset_, "First byte", 0, most);
        length_option_ = add_size(app, "--length", length_, "Bytes [to the end]", 0, most);
        if (op_ == Op::write_zeroes) app.add_flag("--unmap", unmap_, "The device may deallocate instead of writing");
    }

    Result<int> run(const Invocation& invocation) override {
        Session session;
        auto device = session.context().open(uri_);
        if (!device) return std::unexpected(device.error());
        const auto range =
            resolve_range(uri_, **device, offset_, length_option_->count() > 0 ? std::optional(length_) : std::nullopt);
        if (!range) return std::unexpected(range.error());
        const auto limits = (*device)->limits();
        if (op_ == Op::discard && limits.max_discard_sectors == 0) {
            return fail(Errc::not_supported, uri_ + ": the device has no discard; mqblk zero clears it instead");
        }
        Signals signals;
        const auto begun = SteadyClock::read();
        auto done = op_ == Op::write_zeroes && limits.max_write_zeroes_sectors == 0
                        ? fail(Errc::not_supported, "no Write Zeroes")
                        : run_over_range(session, uri_, **device, op_, *range, unmap_ ? bio_unmap : 0);
        // A target may offer the operation and refuse it for this disk, as Linux's does for a file on tmpfs.
        if (!done && done.error().code() == Errc::not_supported && op_ == Op::write_zeroes) {
            done = write_zero_data(session, invocation, *device, *range);
        }
        if (!done) return std::unexpected(done.error());
        const Moved moved{*done, std::chrono::duration<double>(SteadyClock::read() - begun).count(), Signals::caught()};
        report_moved(invocation, name_, moved);
        return moved.exit_code();
    }

  private:
    /// The device has no operation for it: plain writes do.
    Result<std::uint64_t> write_zero_data(Session& session, const Invocation& invocation,
                                          const std::shared_ptr<Device>& device, const Range& range) {
        class ZeroSource final : public Endpoint {
          public:
            const std::string& name() const noexcept override { return name_; }
            void read(Piece& piece) override { piece.state = Piece::State::ready; }
            void write(Piece& piece) override { piece.state = Piece::State::written; }
            Result<> sync() override { return {}; }

          private:
            std::string name_ = "zeroes";  // a pipeline's memory is zero until somebody writes it
        };
        const auto reactor = session.reactor();
        if (!reactor) return std::unexpected(reactor.error());
        const auto end = device_endpoint(uri_, device, **reactor, range.offset, false);
        if (!end) return std::unexpected(end.error());
        ZeroSource zeroes;
        Progress progress(invocation, "zero:");
        return Pipeline(**reactor, progress).run(zeroes, **end, range.bytes);
    }

    std::string name_;
    Op op_;
    std::string uri_;
    std::uint64_t offset_ = 0, length_ = 0;
    bool unmap_ = false;
    CLI::Option* length_option_ = nullptr;
};

}  // namespace

std::unique_ptr<Command> make_flush() {
    return std::make_unique<FlushCommand>();
}
std::unique_ptr<Command> make_discard() {
    return std::make_unique<RangeCommand>("discard", Op::discard);
}
std::unique_ptr<Command> make_zero() {
    return std::make_unique<RangeCommand>("zero", Op::write_zeroes);
}

}  // namespace mqblk::cli
