// SPDX-License-Identifier: Apache-2.0
//
// flush, discard and zero: one operation without data over a device or a part of it.
#include "base/steady_clock.h"
#include "cli/arguments.h"
#include "cli/commands/commands.h"
#include "cli/print.h"
#include "cli/print_json.h"
#include "cli/session.h"
#include "cli/signals.h"
#include "cli/transfer/move.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

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
        const auto end = device_endpoint(uri_, *device, **reactor, 0, false);
        if (!end) return std::unexpected(end.error());
        Signals signals;
        const auto begun = SteadyClock::read();
        if (auto ok = (*end)->sync(); !ok) return std::unexpected(ok.error());
        const auto seconds = std::chrono::duration<double>(SteadyClock::read() - begun).count();
        if (invocation.json) {
            print_json(nlohmann::ordered_json{{"command", "flush"}, {"seconds", seconds}});
        } else {
            print("flushed\n");
        }
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
        if (auto ok = check_writable(uri_, **device); !ok) return std::unexpected(ok.error());
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
                        : run_operation(session, invocation, **device, *range);
        // A target may offer the operation and refuse it for this disk, as Linux's does for a file on tmpfs.
        if (!done && done.error().code() == Errc::not_supported && op_ == Op::write_zeroes) {
            done = write_zero_data(session, invocation, *device, *range);
        }
        if (!done) return std::unexpected(done.error());
        const Moved moved{*done, std::chrono::duration<double>(SteadyClock::read() - begun).count(), Signals::caught(),
                          Signals::gave_up() ? 1u : 0u};
        if (Signals::gave_up()) report_given_up(invocation, name_, moved);
        report_moved(invocation, name_, moved);
        return moved.exit_code();
    }

  private:
    Result<std::uint64_t> run_operation(Session& session, const Invocation& invocation, Device& device,
                                        const Range& range) {
        const auto title = name_ + ":";
        Progress progress(invocation, title);
        return run_over_range(session, progress, uri_, device, op_, range, unmap_ ? bio_unmap : 0);
    }

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
        Pipeline pipeline(**reactor, progress);
        const auto begun = SteadyClock::read();
        auto done = pipeline.run(zeroes, **end, range.bytes);
        if (done && pipeline.given_up() > 0) {
            const auto seconds = std::chrono::duration<double>(SteadyClock::read() - begun).count();
            report_given_up(invocation, name_, {*done, seconds, Signals::caught(), pipeline.given_up()});
        }
        return done;
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
