// SPDX-License-Identifier: Apache-2.0
//
// read: a range of a device to a file or standard output.
#include "cli/arguments.h"
#include "cli/commands/commands.h"
#include "cli/transfer/move.h"

#include <CLI/CLI.hpp>

#include <limits>

namespace mqblk::cli {

namespace {

class ReadCommand final : public Command {
  public:
    void declare(CLI::App& app) override {
        constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
        app.add_option("URI", uri_, "The device")->required();
        add_size(app, "--offset", offset_, "First byte to read", 0, most);
        length_option_ = add_size(app, "--length", length_, "Bytes to read [to the end]", 0, most);
        app.add_option("-o,--output", output_, "File to write to; - is standard output")->capture_default_str();
    }

    Result<int> run(const Invocation& invocation) override {
        if (invocation.json && output_ == "-") {
            return fail(Errc::invalid_argument, "read --json needs -o FILE: the data itself goes to standard output");
        }
        Session session;
        auto source = Operand::open_source(session, uri_);
        if (!source) return std::unexpected(source.error());
        if (!source->device()) {
            return fail(Errc::invalid_argument, uri_ + " is no URI; to copy a plain file use mqblk copy");
        }
        const auto range = resolve_range(uri_, *source->device(), offset_,
                                         length_option_->count() > 0 ? std::optional(length_) : std::nullopt);
        if (!range) return std::unexpected(range.error());
        auto destination = Operand::open_destination(session, output_);
        if (!destination) return std::unexpected(destination.error());
        const auto from = source->endpoint(session, range->offset);
        if (!from) return std::unexpected(from.error());
        const auto to = destination->endpoint(session);
        if (!to) return std::unexpected(to.error());
        MoveOptions options;
        options.what = "read:";
        options.bytes = range->bytes;
        const auto moved = move_data(session, invocation, **from, **to, options);
        if (!moved) return std::unexpected(moved.error());
        if (auto ok = destination->set_length(moved->bytes); !ok) return std::unexpected(ok.error());
        if (output_ != "-") report_moved(invocation, "read", *moved);
        return moved->exit_code();
    }

  private:
    std::string uri_, output_ = "-";
    std::uint64_t offset_ = 0, length_ = 0;
    CLI::Option* length_option_ = nullptr;
};

}  // namespace

std::unique_ptr<Command> make_read() {
    return std::make_unique<ReadCommand>();
}

}  // namespace mqblk::cli
