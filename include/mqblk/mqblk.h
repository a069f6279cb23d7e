// SPDX-License-Identifier: Apache-2.0
//
// The C face of mqblk: devices by URI, used synchronously from any thread or asynchronously through a queue of one
// thread's own. Functions that return int give 0, or a negative errno; mqblk_last_error() then has the sentence.
// Offsets and lengths are bytes and multiples of the device's logical block size.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mqblk_context mqblk_context;
typedef struct mqblk_device mqblk_device;
typedef struct mqblk_queue mqblk_queue;

// Where devices come from; one for a program is usual. All that came from it is closed before it. Any thread.
int mqblk_context_open(mqblk_context** context);
void mqblk_context_close(mqblk_context* context);

// Opens the device that `uri` names (docs/uris.md). Blocks until it can be used. Any thread.
int mqblk_open(mqblk_context* context, const char* uri, mqblk_device** device);
// No call on the device is running, and its queues are closed.
void mqblk_close(mqblk_device* device);

struct mqblk_limits {
    uint32_t logical_block_size, physical_block_size;  // bytes
    uint32_t io_min, io_opt;                           // bytes preferred; 0: none stated
    uint64_t max_transfer_bytes;                       // one request; longer I/O is split
    uint64_t max_discard_bytes;                        // 0: no discard
    uint64_t max_write_zeroes_bytes;                   // 0: no write zeroes
    int read_only, write_cache, fua, rotational;       // 0 or 1
};

// Any thread. The size may change while the device is open.
uint64_t mqblk_size(const mqblk_device* device);
void mqblk_get_limits(const mqblk_device* device, struct mqblk_limits* limits);

// Done when they return. Any thread, several at once. A read fills the buffer, but of null:// without zero=1, which
// leaves it as it is.
int mqblk_read(mqblk_device* device, void* buffer, size_t bytes, uint64_t offset);
int mqblk_write(mqblk_device* device, const void* buffer, size_t bytes, uint64_t offset);
int mqblk_flush(mqblk_device* device);
int mqblk_discard(mqblk_device* device, uint64_t bytes, uint64_t offset);
int mqblk_write_zeroes(mqblk_device* device, uint64_t bytes, uint64_t offset);

enum mqblk_op { MQBLK_READ, MQBLK_WRITE, MQBLK_FLUSH, MQBLK_DISCARD, MQBLK_WRITE_ZEROES };
enum mqblk_flag { MQBLK_FUA = 1, MQBLK_PREFLUSH = 2 };

// One asynchronous I/O. The caller owns it and its buffer until `done` has been called.
struct mqblk_io {
    enum mqblk_op op;
    unsigned flags;  // of enum mqblk_flag
    void* buffer;    // for reads and writes
    uint64_t bytes;
    uint64_t offset;
    void (*done)(struct mqblk_io* io);  // from mqblk_poll or mqblk_wait; may submit again or free the I/O
    void* context;                      // the caller's
    int result;                         // 0 or a negative errno; valid in `done`
    uint64_t private_[32];              // mqblk's
};

// A queue is opened, used and closed on one thread.
int mqblk_queue_open(mqblk_device* device, mqblk_queue** queue);
void mqblk_queue_close(mqblk_queue* queue);  // ends what is outstanding first
void mqblk_submit(mqblk_queue* queue, struct mqblk_io* io);
unsigned mqblk_poll(mqblk_queue* queue);  // returns how many were completed; never blocks
unsigned mqblk_wait(mqblk_queue* queue);  // blocks until one was completed or none is outstanding
unsigned mqblk_outstanding(const mqblk_queue* queue);

// The sentence for the calling thread's last failed call; "" if there was none. Valid until its next call.
const char* mqblk_last_error(void);

#ifdef __cplusplus
}
#endif
