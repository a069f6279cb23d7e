// SPDX-License-Identifier: Apache-2.0
//
// The way back: what an operation's result means for its request: done, to be continued, another way to be tried,
// failed.
#include "driver/file/file_queue.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace mqblk::driver::file {

using block::Request;

namespace {

bool try_again(int result) noexcept {
    return result == -EINTR || result == -EAGAIN;
}

bool lacks_operation(int result) noexcept {
    return result == -EOPNOTSUPP || result == -ENOSYS;
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
        case Step::punch:
        case Step::zero_range:
            return allocated(request, result);
        case Step::write_zeroes:
            return zeroes_written(request, result);
        case Step::sync:
            if (try_again(result)) return send_sync(request);
            return end(request, status_of(-result));
    }
}

void FileQueue::transferred(Request& request, int result) noexcept {
    if (cancel_status_ == Status::ok && try_again(result)) return send_transfer(request);
    if (result < 0) return end(request, status_of(-result));
    auto& payload = request.payload<Payload>();
    if (payload.transferred + static_cast<unsigned>(result) == request.data_bytes()) return data_done(request);

    // Short. O_DIRECT goes on from a whole block; no progress means that the file became shorter.
    const unsigned beyond_block =
        (payload.transferred + static_cast<unsigned>(result)) & (file_.length_alignment() - 1);
    if (static_cast<unsigned>(result) <= beyond_block) return end(request, Status::io_error);
    if (cancel_status_ != Status::ok) return end(request, cancel_status_);
    consume(payload, static_cast<unsigned>(result) - beyond_block);
    send_transfer(request);
}

void FileQueue::zeroes_written(Request& request, int result) noexcept {
    if (cancel_status_ == Status::ok && try_again(result)) return send_zeroes(request);
    if (result < 0) return end(request, status_of(-result));
    auto& payload = request.payload<Payload>();
    payload.transferred += static_cast<unsigned>(result);
    if (payload.transferred == request.sectors * sector_bytes) return data_done(request);
    const unsigned beyond_block = payload.transferred & (file_.length_alignment() - 1);
    if (static_cast<unsigned>(result) <= beyond_block) return end(request, Status::io_error);
    if (cancel_status_ != Status::ok) return end(request, cancel_status_);
    payload.transferred -= beyond_block;
    send_zeroes(request);
}

void FileQueue::allocated(Request& request, int result) noexcept {
    const Step step = request.payload<Payload>().step;
    if (cancel_status_ == Status::ok && try_again(result)) return send_allocate(request, step);
    if (result == 0) return data_done(request);
    if (!lacks_operation(result)) return end(request, status_of(-result));
    (step == Step::punch ? file_.punches_holes : file_.zeroes_ranges) = false;
    if (cancel_status_ != Status::ok) return end(request, cancel_status_);
    if (request.op == Op::discard) return end(request, Status::not_supported);
    start_zeroing(request);
}

void FileQueue::data_done(Request& request) noexcept {
    // Writes carried the flag themselves.
    const bool forced = (request.flags & bio_fua) != 0 && changes_data(request.op) && request.op != Op::write;
    if (forced) return send_sync(request);
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

Status FileQueue::status_of(int error_number) const noexcept {
    if (error_number == ECANCELED && cancel_status_ != Status::ok) return cancel_status_;
    return status_from_errno(error_number);
}

}  // namespace mqblk::driver::file
