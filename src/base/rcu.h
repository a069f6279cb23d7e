// SPDX-License-Identifier: Apache-2.0
//
// Read-copy-update by liburcu (memb flavour): readers mark what they do with two plain stores and never wait; a writer
// unpublishes an object, waits until every reader that could have seen it is done, and then frees it. Pointers are
// published and read through std::atomic with release and acquire.
#pragma once

namespace mqblk::rcu {

/// Registers the calling thread at its first use; it is unregistered when it ends.
void read_lock() noexcept;
void read_unlock() noexcept;

/// Returns once every read-side section that had begun before has ended: some 10 us when readers are quick. Never call
/// it within one.
void synchronize() noexcept;

/// A read-side section. Nests. Keep it short: do not block, sleep or wait for I/O in it.
class [[nodiscard]] ReadLock {
  public:
    ReadLock() noexcept { read_lock(); }
    ~ReadLock() { read_unlock(); }
    ReadLock(const ReadLock&) = delete;
    ReadLock& operator=(const ReadLock&) = delete;
};

}  // namespace mqblk::rcu
