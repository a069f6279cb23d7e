// SPDX-License-Identifier: Apache-2.0
//
// Ctrl-C and SIGTERM: the first asks the command to end in order, the second to give up what does not end, the third
// ends the process at once. While no Signals object exists, the system's default applies: nothing was begun that would
// need an orderly end.
#pragma once

#include "base/clock.h"

namespace mqblk::cli {

/// At most one at a time; made and used on the main thread.
class Signals {
  public:
    enum class Second : bool { ends_the_process, is_told };

    explicit Signals(Second second = Second::is_told);
    ~Signals();
    Signals(const Signals&) = delete;
    Signals& operator=(const Signals&) = delete;

    /// The signal that came, or 0. Any thread.
    [[nodiscard]] static int caught() noexcept;
    /// A second one came. Any thread.
    [[nodiscard]] static bool gave_up() noexcept;

    /// Sleeps until a signal came, wake() was called or `time` is over; negative: without bound.
    void wait(Duration time) noexcept;
    /// Ends a wait, now or the next one. Any thread.
    void wake() noexcept;
    /// While one exists, what the main thread does may never end: a signal that comes or has come ends the process with
    /// exit code 128 + its number if the object is still there `patience` later. One at a time, on the main thread.
    class Bounded {
      public:
        static constexpr unsigned patience = 3;  ///< seconds
        Bounded() noexcept;
        ~Bounded();
        Bounded(const Bounded&) = delete;
        Bounded& operator=(const Bounded&) = delete;
    };

    /// Readable once a signal came or wake() was called.
    [[nodiscard]] int fd() const noexcept;
};

}  // namespace mqblk::cli
