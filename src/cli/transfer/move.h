// SPDX-License-Identifier: Apache-2.0
//
// A whole transfer as a command runs it: progress, signals, timing, and the report at the end.
#pragma once

#include "cli/command.h"
#include "cli/transfer/operand.h"
#include "cli/transfer/pipeline.h"

#include <mqblk/error.h>

#include <functional>
#include <string>
#include <string_view>

namespace mqblk::cli {

struct Moved {
    std::uint64_t bytes = 0;
    double seconds = 0;
    int signal = 0;           ///< what ended it early, or 0
    unsigned unanswered = 0;  ///< requests that were given up at a second signal

    [[nodiscard]] int exit_code() const noexcept { return signal != 0 ? exit_signal + signal : exit_ok; }
};

struct MoveOptions {
    std::string_view what = "copy:";  ///< for the progress line
    std::uint64_t bytes = Pipeline::to_the_end;
    std::size_t pad_to = 1;
    std::function<Result<>(std::uint64_t)> check_stream;  ///< see Pipeline::on_short_stream
    bool sync = false;                                    ///< flush the destination at the end
};

/// A second signal ends the process from within, after a report of what was done.
[[nodiscard]] Result<Moved> move_data(Session&, const Invocation&, Endpoint& from, Endpoint& to, const MoveOptions&);

struct Compared {
    Moved moved;
    std::string difference;  ///< one sentence; empty if there was none
};
/// Compares `bytes` of both, from their beginnings. A second signal ends the process as above.
[[nodiscard]] Result<Compared> compare_data(Session&, const Invocation&, Operand& a, Operand& b, std::uint64_t bytes);

/// "read: 1.00GiB in 0.512 s, 1.95GiB/s" or its JSON.
void report_moved(const Invocation&, std::string_view command, const Moved&);
/// The same, and the end of the process: `moved.unanswered` requests are still in flight.
[[noreturn]] void report_given_up(const Invocation&, std::string_view command, const Moved&);

}  // namespace mqblk::cli
