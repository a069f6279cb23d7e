// SPDX-License-Identifier: Apache-2.0
//
// Signals and takes eventfds that another process shares. O_NONBLOCK belongs to the open file, which the other process
// can change at any moment, so write(2) and read(2) may wait for it for ever. Neither function here ever waits,
// whatever the other process does.
#pragma once

#include <mqblk/error.h>

#include <cstdint>

namespace mqblk::pci {

/// What signal_eventfd() needs of the kernel, once for the process: asynchronous I/O, whose completions the kernel
/// itself adds to an eventfd. The error says what is missing.
[[nodiscard]] Result<> prepare_eventfd_signals();

/// Adds 1 to the counter; one that is full stays so. False if `fd` is no eventfd or nothing was prepared. Any thread.
bool signal_eventfd(int fd) noexcept;

/// Takes the counter's value; 0 if there is none, also where somebody else was quicker.
[[nodiscard]] std::uint64_t take_eventfd(int fd) noexcept;

}  // namespace mqblk::pci
