// SPDX-License-Identifier: Apache-2.0
//
// The way back: what an operation's result means for its request: done, to be continued, another way to be tried,
// failed; and what is late.
#include "driver/file/file_queue.h"

#include "base/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace mqblk::driver::file {

using block::Request;

namespace {

bool try_again(int result) noexcept {
    return result == -EINTR || result == -EAGAIN;
}

bool lacks_operation(FileQueue::Step step, int result) noexcept {
    // Of a command to a device the kernel says that it is invalid where it does not know it.
    const bool unknown = step == FileQueue::Step::discard && (result == -EINVAL || result == -ENOTTY);
    return result == -EOPNOTSUPP || result == -ENOSYS || unknown;
}

/// Moves over `bytes` of the payload's vectors.
void consume(FileQueue::Payload& payload, std::uint64_t bytes) noexcept {
    payload.transferred += bytes;
    while (bytes != 0) {
        iovec& vector = payload.vector[payload.first_vector];
        const std::uint64_t taken = std::min<std::uint64_t>(bytes, vector.iov_len);
        vector.iov_base = static_cast<std::byte*>(vector.iov_base) + taken;
        vector.iov_len -= taken;
        if (vector.iov_len == 0) ++payload.first_vector;
        bytes -= taken;
    }
}

}  // namespace

unsigned FileQueue::poll() noexcept {
    if (in_kernel_ == 0) return 0;
    constexpr unsigned batch = 32;
    io_uring_cqe* entries[batch];
    ended_ = 0;
    for (unsigned count = batch; count == batch;) {
        count = io_uring_peek_batch_cqe(&ring_, entries, batch);
        for (unsigned i = 0; i < count; ++i) {
            --in_kernel_;
            auto* const request = reinterpret_cast<Request*>(entries[i]->user_data);
            if (request != nullptr) completed(*request, entries[i]->res);  // null: the answer to a cancellation
        }
        io_uring_cq_advance(&ring_, count);
    }
    commit();
    return ended_;
}

void FileQueue::cancel_all(Status status) noexcept {
    if (outstanding_ == 0 || cancel_status_ != Status::ok) return;
    cancel_status_ = status;
    queue_.for_each_in_flight([&](Request& request) {
        memory::BufferRequest& bounce = request.payload<Payload>().bounce;
        if (!bounce.link.waiting) return;
        bounces_->cancel(bounce);
        end(request, status);
    });
    if (in_kernel_ != 0) {
        io_uring_sqe* const entry = next_entry();
        io_uring_prep_cancel(entry, nullptr, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
        entry->user_data = 0;
    }
    commit();
}

void FileQueue::completed(Request& request, int result) noexcept {
    switch (request.payload<Payload>().step) {
        case Step::transfer:
            return transferred(request, result);
        case Step::discard:
        case Step::punch:
        case Step::zero_range:
            return allocated(request, result);
        case Step::write_zeroes:
            return zeroes_written(request, result);
        case Step::sync:
            if (giving_up(request.payload<Payload>()) == Status::ok && try_again(result)) return send_sync(request);
            return end(request, status_of(request.payload<Payload>(), -result));
    }
}

void FileQueue::transferred(Request& request, int result) noexcept {
    auto& payload = request.payload<Payload>();
    if (giving_up(payload) == Status::ok && try_again(result)) return send_transfer(request);
    if (result < 0) return end(request, status_of(payload, -result));
    if (payload.transferred + static_cast<unsigned>(result) == request.data_bytes()) return data_done(request);

    // Short. O_DIRECT goes on from a whole block; no progress means that the file became shorter.
    const unsigned beyond_block =
        (payload.transferred + static_cast<unsigned>(result)) & (file_.length_alignment() - 1);
    if (static_cast<unsigned>(result) <= beyond_block) return end(request, Status::io_error);
    if (const Status why = giving_up(payload); why != Status::ok) return end(request, why);
    consume(payload, static_cast<unsigned>(result) - beyond_block);
    send_transfer(request);
}

void FileQueue::zeroes_written(Request& request, int result) noexcept {
    auto& payload = request.payload<Payload>();
    if (giving_up(payload) == Status::ok && try_again(result)) return send_zeroes(request);
    if (result < 0) return end(request, status_of(payload, -result));
    payload.transferred += static_cast<unsigned>(result);
    if (payload.transferred == request.sectors * sector_bytes) return data_done(request);
    const unsigned beyond_block = payload.transferred & (file_.length_alignment() - 1);
    if (static_cast<unsigned>(result) <= beyond_block) return end(request, Status::io_error);
    if (const Status why = giving_up(payload); why != Status::ok) return end(request, why);
    payload.transferred -= beyond_block;
    send_zeroes(request);
}

void FileQueue::allocated(Request& request, int result) noexcept {
    const Payload& payload = request.payload<Payload>();
    const Step step = payload.step;
    if (result == 0) return data_done(request);
    const Status why = giving_up(payload);
    const bool lacking = lacks_operation(step, result);
    if (lacking)
        (step == Step::discard ? file_.discards
         : step == Step::punch ? file_.punches_holes
                               : file_.zeroes_ranges) = false;
    if (!lacking && (why != Status::ok || !try_again(result))) return end(request, status_of(payload, -result));
    if (why != Status::ok) return end(request, why);
    start(request);  // again, or another way
}

void FileQueue::data_done(Request& request) noexcept {
    // Writes carried the flag themselves.
    const bool forced = (request.flags & bio_fua) != 0 && changes_data(request.op) && request.op != Op::write;
    if (forced && giving_up(request.payload<Payload>()) == Status::ok) return send_sync(request);
    if (forced) return end(request, giving_up(request.payload<Payload>()));
    end(request, Status::ok);
}

void FileQueue::end(Request& request, Status status) noexcept {
    auto& payload = request.payload<Payload>();
    std::byte* const bounced = std::exchange(payload.bounce.data, nullptr);
    if (bounced != nullptr && request.op == Op::read && status == Status::ok) {
        const std::byte* at = bounced;
        request.for_each_segment([&](std::byte* data, std::size_t bytes) {
            std::copy_n(at, bytes, data);
            at += bytes;
        });
    }
    --outstanding_;
    ++ended_;
    const std::size_t bytes = payload.bounce.bytes;
    queue_.complete(request, status);
    if (bounced != nullptr) bounces_->put(bounced, bytes);
}

Status FileQueue::status_of(const Payload& payload, int error_number) const noexcept {
    const bool given_up = error_number == ECANCELED || error_number == EINTR || error_number == EAGAIN;
    if (const Status why = giving_up(payload); given_up && why != Status::ok) return why;
    return status_from_errno(error_number);
}

block::Expired FileQueue::timeout(Request& request) noexcept {
    auto& payload = request.payload<Payload>();
    if (payload.bounce.link.waiting) {
        bounces_->cancel(payload.bounce);
        end(request, Status::timed_out);
        return block::Expired::ended;
    }
    if (payload.late) {
        log_limited("file: stuck",
                    fmt::format("file {}: a {} at sector {} is late and the kernel does not let go of it", file_.path(),
                                to_string(request.op), request.sector));
        return block::Expired::extend;
    }
    payload.late = true;
    if (io_uring_sqe* const entry = io_uring_get_sqe(&ring_)) {
        ++in_kernel_;
        io_uring_prep_cancel(entry, &request, 0);
        entry->user_data = 0;
        commit();
    }
    return block::Expired::extend;
}

}  // namespace mqblk::driver::file
