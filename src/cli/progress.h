// SPDX-License-Identifier: Apache-2.0
//
// One line on stderr that says how far a long operation is. Shown once it has taken two seconds, where stderr is a
// terminal or --progress was given, and gone again before anything else is written.
#pragma once

#include "base/clock.h"
#include "cli/command.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace mqblk::cli {

class Progress {
  public:
    Progress(const Invocation&, std::string_view what);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    static constexpr std::uint64_t unknown = ~0ull;

    /// Cheap enough for every step: writes at most five times a second. `all_bytes` may be unknown, as of a pipe.
    void update(std::uint64_t done_bytes, std::uint64_t all_bytes);
    /// A line of the caller's own making, under the same rules.
    void show(const std::string& line);

  private:
    [[nodiscard]] bool due();
    void write_line(const std::string& line);

    std::string what_;
    bool enabled_, forced_, shown_ = false;
    Time begun_, next_;
};

}  // namespace mqblk::cli
