// SPDX-License-Identifier: Apache-2.0
#include "cli/patience.h"

#include "cli/print.h"
#include "cli/signals.h"

#include <chrono>

namespace mqblk::cli {

bool Patience::wait(unsigned requests) {
    constexpr Duration glance = std::chrono::milliseconds(100);
    if (Signals::gave_up()) return false;
    reactor_.run_once(Reactor::Sleep::yes, reactor_.now() + glance);
    if (Signals::caught() == 0 || told_) return true;
    const Time now = reactor_.now();
    if (noticed_ == never) noticed_ = now;
    // A device that answers does so sooner, and then nothing needs saying.
    if (now - noticed_ < glance || requests == 0) return true;
    tell_what_is_awaited(requests);
    told_ = true;
    return true;
}

void tell_what_is_awaited(unsigned requests) {
    complain(fmt::format("interrupted; waiting for {} request{} to end; Ctrl-C again gives up", requests,
                         requests == 1 ? "" : "s"));
}

}  // namespace mqblk::cli
