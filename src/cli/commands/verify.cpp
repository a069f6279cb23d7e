// SPDX-License-Identifier: Apache-2.0
//
// verify: compares two devices or files and names the first byte that differs.
#include "cli/arguments.h"
#include "cli/bench/measure.h"
#include "cli/commands/commands.h"
#include "cli/print.h"
#include "cli/transfer/move.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <limits>

namespace mqblk::cli {

namespace {

class VerifyCommand final : public Command {
  public:
    void declare(CLI::App& app) override {
        app.add_option("A", a_, "Device by URI, or plain file")->required();
        app.add_option("B", b_, "Device by URI, or plain file")->required();
        length_option_ = add_size(app, "--length", length_, "Bytes to compare [all; sizes must be equal]", 1,
                                  std::numeric_limits<std::int64_t>::max());
    }

    Result<int> run(const Invocation& invocation) override {
        Session session;
        auto a = Operand::open_source(session, a_);
        if (!a) return std::unexpected(a.error());
        auto b = Operand::open_source(session, b_);
        if (!b) return std::unexpected(b.error());
        if (a->is_stream() || b->is_stream()) {
            return fail(Errc::invalid_argument, "verify compares devices and files, not pipes");
        }
        const bool given = length_option_->count() > 0;
        const auto shorter = std::min(a->bytes(), b->bytes());
        if (given && length_ > shorter) {
            return fail(Errc::invalid_argument, fmt::format("--length {} passes the end of {} at {} bytes", length_,
                                                            a->bytes() == shorter ? a_ : b_, shorter));
        }
        const auto bytes = given ? length_ : shorter;
        if (bytes % std::max(a->block_bytes(), b->block_bytes()) != 0) {
            return fail(Errc::invalid_argument,
                        fmt::format("{} bytes are not a multiple of the block of {} bytes; use --length {}", bytes,
                                    std::max(a->block_bytes(), b->block_bytes()),
                                    bytes - bytes % std::max(a->block_bytes(), b->block_bytes())));
        }
        const auto compared = compare_data(session, invocation, *a, *b, bytes);
        if (!compared) return std::unexpected(compared.error());
        if (!compared->difference.empty()) {
            complain("data differ: " + compared->difference);
            return exit_differs;
        }
        if (!given && a->bytes() != b->bytes()) {
            complain(
                fmt::format("data differ: {} has {} bytes, {} has {}; the first {} are the same (use "
                            "--length to compare those only)",
                            a_, a->bytes(), b_, b->bytes(), bytes));
            return exit_differs;
        }
        report_moved(invocation, "verify", compared->moved);
        return compared->moved.exit_code();
    }

  private:
    std::string a_, b_;
    std::uint64_t length_ = 0;
    CLI::Option* length_option_ = nullptr;
};

}  // namespace

std::unique_ptr<Command> make_verify() {
    return std::make_unique<VerifyCommand>();
}

}  // namespace mqblk::cli
