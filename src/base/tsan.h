// SPDX-License-Identifier: Apache-2.0
//
// Whether this is compiled for the thread sanitizer, with either compiler, and what of its interface is used to tell it
// of what it cannot see.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define MQBLK_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MQBLK_TSAN 1
#endif
#endif

#if defined(MQBLK_TSAN)
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void __tsan_ignore_thread_begin();
void __tsan_ignore_thread_end();
}
#endif
