// SPDX-License-Identifier: Apache-2.0
//
// liburcu behind base/rcu.h. Each thread that reads is in liburcu's registry from its first read-side section to its
// end; the thread sanitizer, which cannot see into liburcu, is told of grace periods here.
#include "base/rcu.h"

#include "base/tsan.h"

#include <urcu/urcu-memb.h>

#include <cassert>

namespace mqblk::rcu {

namespace {

// liburcu is not instrumented, so the thread sanitizer must be told: what a reader did happens before what a writer
// does after the grace period.
#if defined(MQBLK_TSAN)
char grace_period;
void reader_is_done() noexcept {
    __tsan_release(&grace_period);
}
void readers_are_done() noexcept {
    __tsan_acquire(&grace_period);
}
#else
void reader_is_done() noexcept {}
void readers_are_done() noexcept {}
#endif

constinit thread_local bool registered = false;

void register_thread() noexcept {
    struct Registration {
        Registration() noexcept { urcu_memb_register_thread(); }
        ~Registration() {
            registered = false;
            urcu_memb_unregister_thread();
        }
    };
    static thread_local const Registration registration;
    registered = true;
}

}  // namespace

void read_lock() noexcept {
    if (!registered) [[unlikely]]
        register_thread();
    urcu_memb_read_lock();
}

void read_unlock() noexcept {
    reader_is_done();
    urcu_memb_read_unlock();
}

void synchronize() noexcept {
    assert(!registered || urcu_memb_read_ongoing() == 0);
    urcu_memb_synchronize_rcu();
    readers_are_done();
}

}  // namespace mqblk::rcu
