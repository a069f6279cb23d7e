// SPDX-License-Identifier: Apache-2.0
#include "cli/print.h"

#include "base/printable.h"
#include "cli/standard_output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>

namespace mqblk::cli {

void write_output(std::string_view text) noexcept {
    if (!text.empty() && std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) note_output_error(errno);
}

void flush_output() noexcept {
    if (std::fflush(stdout) != 0) note_output_error(errno);
}

void write_error(std::string_view text) noexcept {
    flush_output();
    while (!text.empty()) {
        const auto put = ::write(STDERR_FILENO, text.data(), text.size());
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return;
        text.remove_prefix(static_cast<std::size_t>(put));
    }
}

void complain(std::string_view message) noexcept {
    if (message.empty()) return;
    std::string line("mqblk: ");
    line += message;
    std::replace_if(line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
    write_error(printable(line) + '\n');
}

}  // namespace mqblk::cli
