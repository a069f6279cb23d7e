// SPDX-License-Identifier: Apache-2.0
#include "cli/standard_output.h"

#include "cli/command.h"
#include "cli/print.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace mqblk::cli {

namespace {
int output_error = 0;
}

void hold_standard_descriptors() noexcept {
    // The wrong way round: using one still fails.
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
        [[maybe_unused]] const int opened = ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
}

void note_output_error(int error_number) noexcept {
    if (output_error == 0) output_error = error_number;
}

bool output_reader_gone() noexcept {
    return output_error == EPIPE;
}

void leave(int code) noexcept {
    ::_exit(finish_output(code));
}

int finish_output(int code) {
    if (output_error == 0 && std::fflush(stdout) != 0) note_output_error(errno);
    if (output_error == 0 && std::ferror(stdout) != 0) note_output_error(EIO);
    if (output_error == 0) return code;
    if (output_reader_gone()) return exit_signal + SIGPIPE;
    complain(fmt::format("standard output cannot be written: {}", std::strerror(output_error)));
    return code == exit_ok ? exit_failed : code;
}

}  // namespace mqblk::cli
