// SPDX-License-Identifier: Apache-2.0
//
// copy: from one device or file to another, in parallel, checked before anything is written.
#include "cli/arguments.h"
#include "cli/bench/measure.h"
#include "cli/commands/commands.h"
#include "cli/print.h"
#include "cli/transfer/move.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <limits>

namespace mqblk::cli {

namespace {

class CopyCommand final : public Command {
  public:
    void declare(CLI::App& app) override {
        app.add_option("SRC", source_, "Device by URI, plain file, or - for standard input")->required();
        app.add_option("DST", destination_,
                       "Device by URI, plain file, which is created or overwritten, or - for standard output")
            ->required();
        length_option_ = add_size(app, "--length", length_, "Bytes to copy [all of SRC]", 1,
                                  std::numeric_limits<std::int64_t>::max());
        app.add_flag("--verify", verify_, "Read both again and compare");
        app.add_flag("--pad", pad_, "Fill the last block of a device up with zeroes where SRC ends within it");
    }

    Result<int> run(const Invocation& invocation) override {
        if (invocation.json && destination_ == "-") {
            return fail(Errc::invalid_argument, "copy --json needs a DST other than -: the data go to standard output");
        }
        Session session;
        auto source = Operand::open_source(session, source_);
        if (!source) return std::unexpected(source.error());
        if (source_ == "-" && destination_ == "-") {
            return fail(Errc::invalid_argument, "copy - - names no device; name a device or a file as one of the two");
        }
        if (source->is_stream() && verify_) {
            return fail(Errc::invalid_argument, "copy --verify cannot read standard input again; copy from a file");
        }
        auto destination = Operand::open_destination(session, destination_);
        if (!destination) return std::unexpected(destination.error());
        if (destination->is_stream() && verify_) {
            return fail(Errc::invalid_argument, "copy --verify cannot read standard output again; copy to a file");
        }
        if (auto ok = destination->check_writable(); !ok) return std::unexpected(ok.error());
        if (source->same_place(*destination)) {
            return fail(Errc::invalid_argument,
                        fmt::format("{} and {} are the same; a copy needs another place", source_, destination_));
        }
        const auto length = source->length_to_move(length_option_->count() > 0, length_);
        if (!length) return std::unexpected(length.error());
        const auto check = [&](std::uint64_t bytes) { return check_length(*source, *destination, bytes); };
        if (*length != Pipeline::to_the_end) {
            if (auto ok = check(*length); !ok) return std::unexpected(ok.error());
        }
        const auto moved = copy(session, invocation, *source, *destination, *length, check);
        if (!moved) return std::unexpected(moved.error());
        if (auto ok = destination->set_length(moved->bytes); !ok) return std::unexpected(ok.error());
        if (moved->signal == 0 && verify_) {
            const auto same = compare_data(session, invocation, *source, *destination, *length);
            if (!same) return std::unexpected(same.error());
            if (!same->difference.empty()) {
                complain("copied, but data differ: " + same->difference);
                return exit_differs;
            }
        }
        if (destination->is_stream()) return moved->exit_code();  // standard output has the data
        report_moved(invocation, verify_ ? "copy and verify" : "copy", *moved);
        return moved->exit_code();
    }

  private:
    Result<Moved> copy(Session& session, const Invocation& invocation, Operand& source, Operand& destination,
                       std::uint64_t length, const std::function<Result<>(std::uint64_t)>& check) const {
        const auto from = source.endpoint(session);
        if (!from) return std::unexpected(from.error());
        const auto to = destination.endpoint(session);
        if (!to) return std::unexpected(to.error());
        MoveOptions options;
        options.bytes = length;
        options.pad_to = pad_ ? destination.block_bytes() : 1;
        options.check_stream = check;
        options.sync = true;
        return move_data(session, invocation, **from, **to, options);
    }

    Result<> check_length(const Operand& source, const Operand& destination, std::uint64_t bytes) const {
        if (bytes == 0) return fail(Errc::invalid_argument, source.name() + " is empty: there is nothing to copy");
        if (bytes % source.block_bytes() != 0) {
            return fail(Errc::invalid_argument,
                        fmt::format("--length {} is not a multiple of the block of {} bytes of {}", bytes,
                                    source.block_bytes(), source.name()));
        }
        if (!destination.device()) return {};
        const auto block = destination.block_bytes();
        if (bytes % block != 0 && !pad_) {
            return fail(Errc::invalid_argument,
                        fmt::format("{} bytes are not a multiple of the block of {} bytes of {}; add --pad to fill the "
                                    "last block up with zeroes",
                                    bytes, block, destination.name()));
        }
        if ((bytes + block - 1) / block * block > destination.bytes()) {
            return fail(Errc::invalid_argument,
                        fmt::format("{} bytes of {} pass the end of {} at {} bytes; use --length {}", bytes,
                                    source.name(), destination.name(), destination.bytes(), destination.bytes()));
        }
        return {};
    }

    std::string source_, destination_;
    std::uint64_t length_ = 0;
    bool verify_ = false, pad_ = false;
    CLI::Option* length_option_ = nullptr;
};

}  // namespace

std::unique_ptr<Command> make_copy() {
    return std::make_unique<CopyCommand>();
}

}  // namespace mqblk::cli
