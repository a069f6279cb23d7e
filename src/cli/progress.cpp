// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include "base/steady_clock.h"
#include "base/units.h"
#include "cli/print.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace mqblk::cli {

Progress::Progress(const Invocation& invocation, std::string_view what)
    : what_(what), enabled_(invocation.progress || ::isatty(STDERR_FILENO) == 1), forced_(invocation.progress) {
    begun_ = SteadyClock::read();
    next_ = begun_ + (forced_ ? Duration::zero() : Duration(std::chrono::seconds(2)));
}

Progress::~Progress() {
    if (shown_) write_error("\r\033[K");
}

bool Progress::due() {
    if (!enabled_) return false;
    const auto now = SteadyClock::read();
    if (now < next_) return false;
    next_ = now + std::chrono::milliseconds(200);
    return true;
}

void Progress::update(std::uint64_t done_bytes, std::uint64_t all_bytes) {
    if (!due()) return;
    const double seconds = std::max(1e-3, std::chrono::duration<double>(next_ - begun_).count());
    const double rate = static_cast<double>(done_bytes) / seconds;
    if (all_bytes == unknown) {
        write_line(fmt::format("{}, {}/s", human_size(done_bytes), human_size(static_cast<std::uint64_t>(rate))));
        return;
    }
    const auto left = all_bytes > done_bytes && rate > 0 ? static_cast<double>(all_bytes - done_bytes) / rate : 0.0;
    write_line(
        fmt::format("{:.0f}%, {} of {}, {}/s, {:.0f} s left",
                    all_bytes == 0 ? 100.0 : 100.0 * static_cast<double>(done_bytes) / static_cast<double>(all_bytes),
                    human_size(done_bytes), human_size(all_bytes), human_size(static_cast<std::uint64_t>(rate)), left));
}

void Progress::show(const std::string& line) {
    if (!due()) return;
    write_line(line);
}

void Progress::write_line(const std::string& line) {
    write_error(fmt::format("\r\033[K{} {}", what_, line));
    shown_ = true;
}

}  // namespace mqblk::cli
