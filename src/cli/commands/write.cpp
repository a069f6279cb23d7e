// SPDX-License-Identifier: Apache-2.0
//
// write: a file or standard input to a device. What cannot be written whole is refused before the first write.
#include "cli/arguments.h"
#include "cli/commands/commands.h"
#include "cli/transfer/move.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <limits>

namespace mqblk::cli {

namespace {

class WriteCommand final : public Command {
  public:
    void declare(CLI::App& app) override {
        constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
        app.add_option("URI", uri_, "The device")->required();
        add_size(app, "--offset", offset_, "First byte to write", 0, most);
        length_option_ = add_size(app, "--length", length_, "Bytes to write [all of the input]", 0, most);
        app.add_option("-i,--input", input_, "File to read from; - is standard input")->capture_default_str();
        app.add_flag("--fua", fua_, "Each write is on stable media before it is done");
        app.add_flag("--pad", pad_, "Fill the last block up with zeroes where the input ends within it");
    }

    Result<int> run(const Invocation& invocation) override {
        Session session;
        auto source = Operand::open_source(session, input_);
        if (!source) return std::unexpected(source.error());
        auto destination = Operand::open_destination(session, uri_);
        if (!destination) return std::unexpected(destination.error());
        if (!destination->device()) {
            return fail(Errc::invalid_argument, uri_ + " is no URI; to copy to a plain file use mqblk copy");
        }
        if (auto ok = destination->check_writable(); !ok) return std::unexpected(ok.error());
        if (source->same_place(*destination)) {
            return fail(Errc::invalid_argument, fmt::format("{} and {} are the same; name another", input_, uri_));
        }
        const auto length = source->length_to_move(length_option_->count() > 0, length_);
        if (!length) return std::unexpected(length.error());
        const auto check = [&](std::uint64_t bytes) { return check_place(*destination, bytes); };
        if (auto ok = check(*length == Pipeline::to_the_end ? destination->block_bytes() : *length); !ok) {
            return std::unexpected(ok.error());
        }
        const auto from = source->endpoint(session);
        if (!from) return std::unexpected(from.error());
        const auto to = destination->endpoint(session, offset_, fua_);
        if (!to) return std::unexpected(to.error());
        MoveOptions options;
        options.what = "write:";
        options.bytes = *length;
        options.pad_to = pad_ ? destination->block_bytes() : 1;
        options.check_stream = check;
        const auto moved = move_data(session, invocation, **from, **to, options);
        if (!moved) return std::unexpected(moved.error());
        report_moved(invocation, "write", *moved);
        return moved->exit_code();
    }

  private:
    Result<> check_place(const Operand& destination, std::uint64_t bytes) const {
        const auto block = destination.block_bytes();
        if (bytes % block != 0 && !pad_) {
            return fail(Errc::invalid_argument,
                        fmt::format("{}: {} bytes from {} are not a multiple of the device's block of {} bytes; add "
                                    "--pad to fill the last block up with zeroes",
                                    uri_, bytes, input_ == "-" ? "standard input" : input_, block));
        }
        const auto range = resolve_range(uri_, *destination.device(), offset_, (bytes + block - 1) / block * block);
        if (!range) return std::unexpected(range.error());
        return {};
    }

    std::string uri_, input_ = "-";
    std::uint64_t offset_ = 0, length_ = 0;
    bool fua_ = false, pad_ = false;
    CLI::Option* length_option_ = nullptr;
};

}  // namespace

std::unique_ptr<Command> make_write() {
    return std::make_unique<WriteCommand>();
}

}  // namespace mqblk::cli
