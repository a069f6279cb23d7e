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

/// Commands other than serve give a lost target this long to come back, unless a URI says otherwise: somebody waits.
inline constexpr unsigned command_loss_tmo_s = 30;
[[nodiscard]] Context::Options command_options(bool poll = false);

/// Files that this command creates are removed again if it ends before it uses them: nothing was done.
class FreshFiles {
  public:
    explicit FreshFiles(Context& context) : context_(context) {}
    ~FreshFiles();
    FreshFiles(const FreshFiles&) = delete;
    FreshFiles& operator=(const FreshFiles&) = delete;
    void keep() noexcept { keep_ = true; }

  private:
    Context& context_;
    bool keep_ = false;
};

class Session {
  public:
    [[nodiscard]] Context& context() noexcept { return context_; }
    /// Made at first use, which is when everything was checked and I/O begins.
    [[nodiscard]] Result<Reactor*> reactor();
    /// The devices are used as they are.
    void keep_files() noexcept { fresh_.keep(); }

  private:
    Context context_{command_options()};
    FreshFiles fresh_{context_};
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
/// done; not_supported: the device refused the operation itself. After a second signal (Signals::gave_up) one request
/// is still in flight: leave the process.
[[nodiscard]] Result<std::uint64_t> run_over_range(Session&, Progress&, const std::string& name, Device&, Op, Range,
                                                   std::uint8_t flags);

/// Refuses what is write-protected, with the remedy.
[[nodiscard]] Result<> check_writable(const std::string& name, const Device&);

/// Whether an operand is a URI, or else the path of a plain file.
[[nodiscard]] bool is_uri(const std::string& text) noexcept;

}  // namespace mqblk::cli
