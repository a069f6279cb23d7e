// SPDX-License-Identifier: Apache-2.0
//
// Runs the built program as a user would: its arguments, its standard input, what it wrote and how it ended.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace mqblk::test {

struct Ended {
    int code = -1;  ///< exit code; 128 + N where signal N ended it
    std::string out, err;
};

/// Runs `mqblk ARGS…` to its end.
Ended run_program(const std::vector<std::string>& arguments, const std::string& input = {});

/// The same with `out` for its standard output, or none if that is negative, and nothing to read.
Ended run_program_to(int out, const std::vector<std::string>& arguments);
/// The same with both outputs given, or closed where negative.
int run_program_to(int out, int err, const std::vector<std::string>& arguments);

/// A program that goes on running until it is told to end.
class Running {
  public:
    enum class Errors : bool { apart, with_output };
    explicit Running(const std::vector<std::string>& arguments, Errors errors = Errors::apart);
    ~Running();
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

    /// Reads its output until a line that begins with `beginning`, which is returned; empty when it ended before.
    std::string wait_for_line(const std::string& beginning);
    [[nodiscard]] const std::string& output() const noexcept { return output_; }
    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    /// Sends the signal.
    void tell(int signal) const;
    /// Reads what it still says and returns how it ended.
    int wait();
    /// Sends the signal and returns how it ended.
    int end(int signal);

  private:
    pid_t pid_ = -1;
    int out_ = -1;
    std::string output_;
};

/// A directory of this test's own, removed with everything in it.
class TemporaryDirectory {
  public:
    TemporaryDirectory();
    ~TemporaryDirectory();
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& text);

}  // namespace mqblk::test
