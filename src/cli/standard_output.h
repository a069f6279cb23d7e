// SPDX-License-Identifier: Apache-2.0
//
// What became of standard output. A report, or data, that cannot be written is a failure that names it; but where the
// reader has gone (`mqblk read … | head`) the program ends without a word, with the status of one that SIGPIPE ended.
#pragma once

namespace mqblk::cli {

/// Opens what of the descriptors 0 to 2 is closed, so that no disk becomes standard output. First of all.
void hold_standard_descriptors() noexcept;

/// A write to standard output failed. The first one counts. Main thread.
void note_output_error(int error_number) noexcept;

/// Writes what is buffered. The exit code: `code` if all was written, else exit_failed after one sentence on stderr, or
/// that of SIGPIPE.
[[nodiscard]] int finish_output(int code);
/// Ends the process with what finish_output(code) says, and nothing else: what is in flight stays as it is.
[[noreturn]] void leave(int code) noexcept;
/// The reader of standard output has gone: whatever else failed is beside the point.
[[nodiscard]] bool output_reader_gone() noexcept;

}  // namespace mqblk::cli
