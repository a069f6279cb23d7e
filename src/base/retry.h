// SPDX-License-Identifier: Apache-2.0
//
// Attempts that a process which was just killed still stands in the way of. The kernel lets go of the files and sockets
// in a process's io_uring rings a moment after the process itself is gone; whoever starts it again at once must not be
// refused a file's lock or a listener's port for that.
#pragma once

#include <cerrno>
#include <chrono>
#include <thread>

namespace mqblk {

/// Calls `attempt` until it returns something else than -1 with `error` in errno, or two seconds have passed. Returns
/// what it returned last, with its errno. Blocks: for the control path.
template <class Attempt>
[[nodiscard]] int retry_while(int error, Attempt attempt) {
    constexpr std::chrono::milliseconds patience(2000), pause(20);
    const auto give_up = std::chrono::steady_clock::now() + patience;
    int result = attempt();
    while (result < 0 && errno == error && std::chrono::steady_clock::now() < give_up) {
        std::this_thread::sleep_for(pause);
        result = attempt();
    }
    return result;
}

}  // namespace mqblk
