// SPDX-License-Identifier: Apache-2.0
//
// Waiter: one who waits for something that another thread gives. Its owner keeps it until `granted` was called, once,
// on any thread; that may be before whoever said "wait" has returned.
#pragma once

namespace mqblk::driver::raid {

struct Waiter {
    void (*granted)(Waiter&) noexcept = nullptr;  ///< look again
    void* context = nullptr;                      ///< the owner's
    Waiter* next = nullptr;
};

}  // namespace mqblk::driver::raid
