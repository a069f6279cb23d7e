// SPDX-License-Identifier: Apache-2.0
#include "program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace mqblk::test {

namespace {

struct Pipe {
    Pipe() {
        if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    }
    int ends[2];
};

/// The child's side: never returns.
[[noreturn]] void become_program(const std::vector<std::string>& arguments, int in, int out, int err) {
    ::dup2(in, 0);
    if (out >= 0) {
        ::dup2(out, 1);
    } else {
        ::close(1);
    }
    if (err >= 0) {
        ::dup2(err, 2);
    } else {
        ::close(2);
    }
    std::vector<char*> argv{const_cast<char*>(MQBLK_PROGRAM)};
    for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    ::execv(MQBLK_PROGRAM, argv.data());
    ::_exit(127);
}

int wait_for_end(pid_t pid) {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// One read; false at the end.
bool append_some(int fd, std::string& text) {
    char part[65536];
    const auto got = ::read(fd, part, sizeof part);
    if (got > 0) text.append(part, static_cast<std::size_t>(got));
    return got > 0 || (got < 0 && errno == EINTR);
}

}  // namespace

Ended run_program(const std::vector<std::string>& arguments, const std::string& input) {
    Pipe in, out, err;
    const pid_t pid = ::fork();
    if (pid == 0) become_program(arguments, in.ends[0], out.ends[1], err.ends[1]);
    ::close(in.ends[0]);
    ::close(out.ends[1]);
    ::close(err.ends[1]);
    ::signal(SIGPIPE, SIG_IGN);
    ::fcntl(in.ends[1], F_SETFL, O_NONBLOCK);
    Ended ended;
    std::size_t sent = 0;
    bool out_open = true, err_open = true, in_open = true;
    while (out_open || err_open) {
        if (in_open && sent == input.size()) {
            ::close(in.ends[1]);
            in_open = false;
        }
        pollfd entries[3] = {{out_open ? out.ends[0] : -1, POLLIN, 0},
                             {err_open ? err.ends[0] : -1, POLLIN, 0},
                             {in_open ? in.ends[1] : -1, POLLOUT, 0}};
        if (::poll(entries, 3, -1) < 0) continue;
        if (entries[0].revents != 0) out_open = append_some(out.ends[0], ended.out);
        if (entries[1].revents != 0) err_open = append_some(err.ends[0], ended.err);
        if (entries[2].revents != 0) {
            const auto put = ::write(in.ends[1], input.data() + sent, input.size() - sent);
            if (put > 0) sent += static_cast<std::size_t>(put);
            if (put < 0 && errno != EAGAIN) sent = input.size();
        }
    }
    if (in_open) ::close(in.ends[1]);
    ::close(out.ends[0]);
    ::close(err.ends[0]);
    ended.code = wait_for_end(pid);
    return ended;
}

Ended run_program_to(int out, const std::vector<std::string>& arguments) {
    Pipe err;
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    const pid_t pid = ::fork();
    if (pid == 0) become_program(arguments, nothing, out, err.ends[1]);
    ::close(nothing);
    ::close(err.ends[1]);
    Ended ended;
    while (append_some(err.ends[0], ended.err)) {
    }
    ::close(err.ends[0]);
    ended.code = wait_for_end(pid);
    return ended;
}

int run_program_to(int out, int err, const std::vector<std::string>& arguments) {
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    const pid_t pid = ::fork();
    if (pid == 0) become_program(arguments, nothing, out, err);
    ::close(nothing);
    return wait_for_end(pid);
}

Running::Running(const std::vector<std::string>& arguments, Errors errors) {
    Pipe out;
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    pid_ = ::fork();
    if (pid_ == 0) {
        become_program(arguments, nothing, out.ends[1], errors == Errors::with_output ? out.ends[1] : 2);
    }
    ::close(nothing);
    ::close(out.ends[1]);
    out_ = out.ends[0];
}

Running::~Running() {
    if (pid_ > 0) end(SIGKILL);
    ::close(out_);
}

std::string Running::wait_for_line(const std::string& beginning) {
    std::size_t seen = 0;
    while (true) {
        for (auto end = output_.find('\n', seen); end != std::string::npos; end = output_.find('\n', seen)) {
            const auto line = output_.substr(seen, end - seen);
            seen = end + 1;
            if (line.starts_with(beginning)) return line;
        }
        if (!append_some(out_, output_)) return {};
    }
}

void Running::tell(int signal) const {
    ::kill(pid_, signal);
}

int Running::wait() {
    while (append_some(out_, output_)) {
    }
    const int code = wait_for_end(pid_);
    pid_ = -1;
    return code;
}

int Running::end(int signal) {
    if (pid_ <= 0) return -1;
    ::kill(pid_, signal);
    const int code = wait_for_end(pid_);
    pid_ = -1;
    return code;
}

TemporaryDirectory::TemporaryDirectory() {
    std::string name = std::filesystem::temp_directory_path() / "mqblk-cli-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
}

}  // namespace mqblk::test
