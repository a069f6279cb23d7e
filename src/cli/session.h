// SPDX-License-Identifier: Apache-2.0
//
// What a command that moves data holds: a context and an event loop for the main thread. Endpoints and channels made
// from it go before it.
#pragma once

#include "base/random.h"
#include "base/steady_clock.h"
#include "cli/progress.h"
#include "reactor/reactor.h"

#include <mqblk/context.h>
#include <mqblk/error.h>

#include <memory>
#include <optional>
#include <string>

namespace mqblk::cli {

class Session {
  public:
    [[nodiscard]] Context& context() noexcept { return context_; }
    /// Made at first use.
    [[nodiscard]] Result<Reactor*> reactor();

  private:
    Context context_;
    SteadyClock clock_;
    SeededRandom random_{1};
    std::unique_ptr<Reactor> reactor_;
};

/// A stretch of a device in bytes.
struct Range {
    std::uint64_t offset = 0, bytes = 0;
};

/// Checks offset and length against the device; without a length it reaches to the end. The error names the device,
/// the value and what to write instead.
[[nodiscard]] Result<Range> resolve_range(const std::string& name, const Device&, std::uint64_t offset,
                                          std::optional<std::uint64_t> length);

/// Carries out one operation without data over a range, in pieces that a signal can stop between. Returns the bytes
/// done. After a second signal (Signals::gave_up) one request is still in flight: leave the process.
[[nodiscard]] Result<std::uint64_t> run_over_range(Session&, Progress&, const std::string& name, Device&, Op, Range,
                                                   std::uint8_t flags);

/// Whether an operand is a URI, or else the path of a plain file.
[[nodiscard]] bool is_uri(const std::string& text) noexcept;

}  // namespace mqblk::cli
