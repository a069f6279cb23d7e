// SPDX-License-Identifier: Apache-2.0
//
// The C face (include/mqblk/mqblk.h) on top of Context, Device and Channel. Synchronous calls of all threads share one
// channel of the device's own thread, made at the first of them.
#include "base/steady_clock.h"
#include "registry/reactor_thread.h"

#include <mqblk/context.h>
#include <mqblk/mqblk.h>

#include <cerrno>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <new>
#include <string>

struct mqblk_context {
    mqblk::Context context;
};

struct mqblk_device {
    std::shared_ptr<mqblk::Device> device;
    std::string uri;
    mqblk::SteadyClock clock;
    std::mutex starting;
    std::unique_ptr<mqblk::registry::ReactorThread> thread;
    std::unique_ptr<mqblk::Channel> channel;  // lives on `thread`
};

struct mqblk_queue {
    std::unique_ptr<mqblk::Channel> channel;
};

namespace mqblk {

namespace {

thread_local std::string last_error_text;

int errno_of(Errc code) noexcept {
    switch (code) {
        case Errc::invalid_argument:
            return EINVAL;
        case Errc::not_found:
            return ENOENT;
        case Errc::already_exists:
            return EEXIST;
        case Errc::permission_denied:
            return EACCES;
        case Errc::unreachable:
            return ECONNREFUSED;
        case Errc::timed_out:
            return ETIMEDOUT;
        case Errc::not_supported:
            return EOPNOTSUPP;
        case Errc::no_space:
            return ENOSPC;
        case Errc::protocol:
            return EPROTO;
        case Errc::io:
            return EIO;
        case Errc::closed:
            return ENODEV;
    }
    return EIO;
}

int refuse_call(const Error& error) {
    last_error_text = error.message();
    return -errno_of(error.code());
}

/// A Bio and its one segment, in place of mqblk_io's private words.
struct IoState {
    Bio bio;
    Segment segment;
};
static_assert(sizeof(IoState) <= sizeof(mqblk_io::private_) && alignof(IoState) <= alignof(std::uint64_t));

/// The bio for a byte range. One that is not whole sectors becomes a bio that the block layer refuses as invalid.
void make_bio(Bio& bio, Segment& segment, Op op, void* buffer, std::uint64_t bytes, std::uint64_t offset) noexcept {
    bio.op = op;
    if (op == Op::flush) return;
    if (bytes % sector_bytes != 0 || offset % sector_bytes != 0) {
        bio.op = Op::read;
        bio.sectors = 1;  // and no memory for it
        return;
    }
    bio.sector = offset / sector_bytes;
    bio.sectors = bytes / sector_bytes;
    if (!carries_data(op)) return;
    segment = {static_cast<std::byte*>(buffer), static_cast<std::size_t>(bytes)};
    bio.data = {&segment, 1};
}

/// What a synchronous call waits on. The lock is held until the waiter may look, so that it may go right after.
struct Waiter {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;

    void finish() {
        const std::lock_guard lock(mutex);
        done = true;
        changed.notify_one();
    }
    void wait() {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return done; });
    }
};

Result<> start_thread(mqblk_device& device) {
    const std::lock_guard lock(device.starting);
    if (device.channel) return {};
    if (!device.thread) {
        auto thread = registry::ReactorThread::start(device.clock, {"mqblk-sync", -1, false});
        if (!thread) return std::unexpected(thread.error());
        device.thread = std::move(*thread);
    }
    Result<> opened;
    device.thread->run([&] {
        auto channel = device.device->channel(device.thread->reactor());
        if (channel) {
            device.channel = std::move(*channel);
        } else {
            opened = std::unexpected(channel.error());
        }
    });
    return opened;
}

int run_synchronously(mqblk_device& device, Op op, void* buffer, std::uint64_t bytes, std::uint64_t offset) {
    if (auto ok = start_thread(device); !ok) return refuse_call(ok.error());
    Segment segment{};
    Waiter waiter;
    Bio bio;
    make_bio(bio, segment, op, buffer, bytes, offset);
    bio.context = &waiter;
    bio.done = [](Bio& ended) noexcept { static_cast<Waiter*>(ended.context)->finish(); };
    device.thread->reactor().post([&] { device.channel->submit(bio); });
    waiter.wait();
    if (bio.status == Status::ok) return 0;
    last_error_text = device.uri + ": " + std::string(to_string(op)) + " of " + std::to_string(bytes) +
                      " bytes at byte " + std::to_string(offset) + " failed: " + std::string(to_string(bio.status));
    return -to_errno(bio.status);
}

}  // namespace

}  // namespace mqblk

using namespace mqblk;

extern "C" {

int mqblk_context_open(mqblk_context** context) {
    *context = new mqblk_context;
    return 0;
}

void mqblk_context_close(mqblk_context* context) {
    delete context;
}

int mqblk_open(mqblk_context* context, const char* uri, mqblk_device** device) {
    *device = nullptr;
    auto opened = context->context.open(uri);
    if (!opened) return refuse_call(opened.error());
    auto result = std::make_unique<mqblk_device>();
    result->device = std::move(*opened);
    result->uri = uri;
    *device = result.release();
    return 0;
}

void mqblk_close(mqblk_device* device) {
    if (device == nullptr) return;
    if (device->channel) device->thread->run([&] { device->channel.reset(); });
    device->thread.reset();
    delete device;
}

uint64_t mqblk_size(const mqblk_device* device) {
    return device->device->sectors() * sector_bytes;
}

void mqblk_get_limits(const mqblk_device* device, mqblk_limits* limits) {
    const auto from = device->device->limits();
    const auto bytes = [](std::uint32_t sectors) { return std::uint64_t{sectors} * sector_bytes; };
    *limits = {from.logical_block_size,
               from.physical_block_size,
               from.io_min,
               from.io_opt,
               bytes(from.max_sectors),
               bytes(from.max_discard_sectors),
               bytes(from.max_write_zeroes_sectors),
               device->device->read_only(),
               from.write_cache,
               from.fua,
               from.rotational};
}

int mqblk_read(mqblk_device* device, void* buffer, size_t bytes, uint64_t offset) {
    return run_synchronously(*device, Op::read, buffer, bytes, offset);
}

int mqblk_write(mqblk_device* device, const void* buffer, size_t bytes, uint64_t offset) {
    return run_synchronously(*device, Op::write, const_cast<void*>(buffer), bytes, offset);
}

int mqblk_flush(mqblk_device* device) {
    return run_synchronously(*device, Op::flush, nullptr, 0, 0);
}

int mqblk_discard(mqblk_device* device, uint64_t bytes, uint64_t offset) {
    return run_synchronously(*device, Op::discard, nullptr, bytes, offset);
}

int mqblk_write_zeroes(mqblk_device* device, uint64_t bytes, uint64_t offset) {
    return run_synchronously(*device, Op::write_zeroes, nullptr, bytes, offset);
}

int mqblk_queue_open(mqblk_device* device, mqblk_queue** queue) {
    *queue = nullptr;
    auto channel = device->device->channel();
    if (!channel) return refuse_call(channel.error());
    *queue = new mqblk_queue{std::move(*channel)};
    return 0;
}

void mqblk_queue_close(mqblk_queue* queue) {
    delete queue;
}

void mqblk_submit(mqblk_queue* queue, mqblk_io* io) {
    static_assert(int{MQBLK_FUA} == int{bio_fua} && int{MQBLK_PREFLUSH} == int{bio_preflush});
    constexpr Op ops[] = {Op::read, Op::write, Op::flush, Op::discard, Op::write_zeroes};
    auto* state = new (io->private_) IoState{};
    make_bio(state->bio, state->segment, ops[io->op], io->buffer, io->bytes, io->offset);
    state->bio.flags = static_cast<std::uint8_t>(io->flags & (MQBLK_FUA | MQBLK_PREFLUSH));
    state->bio.context = io;
    state->bio.done = [](Bio& bio) noexcept {
        auto* ended = static_cast<mqblk_io*>(bio.context);
        ended->result = -to_errno(bio.status);
        ended->done(ended);
    };
    queue->channel->submit(state->bio);
}

unsigned mqblk_poll(mqblk_queue* queue) {
    return queue->channel->poll();
}
unsigned mqblk_wait(mqblk_queue* queue) {
    return queue->channel->wait();
}
unsigned mqblk_outstanding(const mqblk_queue* queue) {
    return queue->channel->outstanding();
}

const char* mqblk_last_error(void) {
    return last_error_text.c_str();
}

}  // extern "C"
