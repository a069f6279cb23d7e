// SPDX-License-Identifier: Apache-2.0
#include "cli/transfer/move.h"

#include "base/steady_clock.h"
#include "base/units.h"
#include "cli/print.h"
#include "cli/print_json.h"
#include "cli/signals.h"
#include "cli/standard_output.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace mqblk::cli {

namespace {

double seconds_since(Time begun) {
    return std::chrono::duration<double>(SteadyClock::read() - begun).count();
}

}  // namespace

Result<Moved> move_data(Session& session, const Invocation& invocation, Endpoint& from, Endpoint& to,
                        const MoveOptions& options) {
    const auto reactor = session.reactor();
    if (!reactor) return std::unexpected(reactor.error());
    Signals signals;
    Progress progress(invocation, options.what);
    const auto begun = SteadyClock::read();
    Pipeline pipeline(**reactor, progress);
    pipeline.pad_to(options.pad_to);
    if (options.check_stream) pipeline.on_short_stream(options.check_stream);
    const auto bytes = pipeline.run(from, to, options.bytes);
    if (!bytes) return std::unexpected(bytes.error());
    if (pipeline.given_up() > 0) {
        report_given_up(invocation, options.what.substr(0, options.what.find(':')),
                        {*bytes, seconds_since(begun), Signals::caught(), pipeline.given_up()});
    }
    if (options.sync) {
        if (auto ok = to.sync(); !ok) return std::unexpected(ok.error());
    }
    return Moved{*bytes, seconds_since(begun), Signals::caught()};
}

Result<Compared> compare_data(Session& session, const Invocation& invocation, Operand& a, Operand& b,
                              std::uint64_t bytes) {
    const auto reactor = session.reactor();
    if (!reactor) return std::unexpected(reactor.error());
    const auto from = a.endpoint(session);
    if (!from) return std::unexpected(from.error());
    const auto other = b.endpoint(session);
    if (!other) return std::unexpected(other.error());
    const auto compare = CompareEndpoint::create(**other, b.block_bytes(), Pipeline::pieces, Pipeline::piece_bytes);
    if (!compare) return std::unexpected(compare.error());
    Signals signals;
    Progress progress(invocation, "verify:");
    const auto begun = SteadyClock::read();
    Pipeline pipeline(**reactor, progress);
    pipeline.stop_when([&] { return (*compare)->difference().has_value(); });
    const auto done = pipeline.run(**from, **compare, bytes);
    if (!done) return std::unexpected(done.error());
    if (pipeline.given_up() > 0) {
        report_given_up(invocation, "verify", {*done, seconds_since(begun), Signals::caught(), pipeline.given_up()});
    }
    Compared result;
    result.moved = {*done, seconds_since(begun), Signals::caught()};
    if (const auto& differs = (*compare)->difference()) {
        result.difference = fmt::format("byte {}: {} has {:#04x}, {} has {:#04x}", differs->offset, a.name(),
                                        differs->expected, b.name(), differs->found);
    }
    return result;
}

void report_moved(const Invocation& invocation, std::string_view command, const Moved& moved) {
    const double rate = static_cast<double>(moved.bytes) / std::max(1e-9, moved.seconds);
    if (invocation.json) {
        nlohmann::ordered_json report{{"command", command},
                                      {"bytes", moved.bytes},
                                      {"seconds", moved.seconds},
                                      {"bw_bytes", static_cast<std::uint64_t>(rate)},
                                      {"complete", moved.signal == 0}};
        if (moved.unanswered != 0) report["unanswered"] = moved.unanswered;
        print_json(report);
        return;
    }
    std::string ending = moved.signal == 0 ? "" : ", interrupted";
    if (moved.unanswered != 0) ending += fmt::format("; {} requests were given up unanswered", moved.unanswered);
    print("{}: {} bytes ({}) in {:.3f} s, {}/s{}\n", command, moved.bytes, human_size(moved.bytes), moved.seconds,
          human_size(static_cast<std::uint64_t>(rate)), ending);
}

void report_given_up(const Invocation& invocation, std::string_view command, const Moved& moved) {
    report_moved(invocation, command, moved);
    leave(moved.exit_code());
}

}  // namespace mqblk::cli
