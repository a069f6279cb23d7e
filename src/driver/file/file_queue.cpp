// SPDX-License-Identifier: Apache-2.0
//
// The way into the kernel. The ring has an entry for every tag, so a request that was accepted always finds one;
// entries collect until commit(). Completions are read from the ring in memory; a system call is made only to submit,
// or when the kernel says that it has work to finish in this thread.
#include "driver/file/file_queue.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>
#include <new>

namespace mqblk::driver::file {

using block::Issue;
using block::Request;

namespace {
constexpr std::size_t bounce_budget_bytes = 4 * FileQueue::max_request_bytes;
constexpr int fixed_fd = 0;                                 // the file's index among the ring's registered ones
constexpr unsigned block_uring_cmd_discard = _IO(0x12, 0);  // <linux/blkdev.h> of kernel 6.12
}  // namespace

Result<std::unique_ptr<FileQueue>> FileQueue::open(BackingFile& file, block::Queue& queue, Reactor& reactor,
                                                   unsigned depth) {
    std::unique_ptr<FileQueue> result(new FileQueue(file, queue));
    if (auto ready = result->set_up(reactor, depth); !ready) return std::unexpected(ready.error());
    return result;
}

Result<> FileQueue::set_up(Reactor& reactor, unsigned depth) {
    io_uring_params params{};
    // Completions are finished when this thread next enters the kernel, which the flag lets poll() see.
    params.flags = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
    const unsigned entries = std::bit_ceil(depth + 2);  // one for each tag, and cancellations
    int problem = -io_uring_queue_init_params(entries, &ring_, &params);
    if (problem == EINVAL) {
        params = {};
        problem = -io_uring_queue_init_params(entries, &ring_, &params);
    }
    if (problem != 0) {
        return std::unexpected(Error::from_errno(
            problem, "create an io_uring for the file (allow it with `sysctl kernel.io_uring_disabled=0`)"));
    }
    ring_open_ = true;
    const int fd = file_.fd();
    problem = -io_uring_register_files(&ring_, &fd, 1);
    if (problem != 0) return std::unexpected(Error::from_errno(problem, "register the file with its io_uring"));
    if (file_.direct()) {
        auto pool = memory::BufferPool::create(bounce_budget_bytes, max_request_bytes);
        if (!pool) return std::unexpected(pool.error());
        bounces_ = std::move(*pool);
        trimmer_.emplace(reactor, *bounces_);
    }
    watch_ = reactor.watch(ring_.ring_fd, [] {});
    return {};
}

FileQueue::~FileQueue() {
    assert(outstanding_ == 0);
    watch_.reset();
    if (!ring_open_) return;
    io_uring_unregister_files(&ring_);  // at once: the kernel takes a ring apart in its own time
    io_uring_queue_exit(&ring_);
}

void FileQueue::prepare(Request& request) {
    auto& payload = *new (&request.payload<Payload>()) Payload;
    payload.owner = this;
    payload.bounce.ready = bounce_granted;
    payload.bounce.context = &request;
}

Issue FileQueue::queue(Request& request, bool last) noexcept {
    if (outstanding_ == 0) cancel_status_ = Status::ok;
    ++outstanding_;
    start(request);
    if (last) commit();
    return Issue::accepted;
}

void FileQueue::commit() noexcept {
    if (io_uring_sq_ready(&ring_) != 0) io_uring_submit(&ring_);  // what is refused now goes with the next
}

bool FileQueue::prepare_sleep() noexcept {
    if (in_kernel_ == 0) return true;
    commit();
    const bool kernel_has_work = (IO_URING_READ_ONCE(*ring_.sq.kflags) & IORING_SQ_TASKRUN) != 0;
    if (io_uring_sq_ready(&ring_) != 0 || io_uring_cq_ready(&ring_) != 0 || kernel_has_work) return false;
    if (watch_ == nullptr) return false;
    watch_->arm(false);
    return true;
}

void FileQueue::start(Request& request) noexcept {
    auto& payload = request.payload<Payload>();
    payload.transferred = 0;
    payload.first_vector = payload.vectors = 0;
    payload.late = false;
    // The disk may have become smaller since the request was checked.
    const std::uint64_t size = file_.bytes() / sector_bytes;
    if (request.sector > size || request.sectors > size - request.sector) return end(request, Status::out_of_range);
    switch (request.op) {
        case Op::read:
        case Op::write:
            return start_transfer(request);
        case Op::flush:
            return send_sync(request);
        case Op::discard:
            if (file_.discards) return send_discard(request);
            if (file_.punches_holes) return send_allocate(request, Step::punch);
            return end(request, Status::not_supported);
        case Op::write_zeroes:
            return start_zeroing(request);
    }
}

void FileQueue::start_transfer(Request& request) noexcept {
    auto& payload = request.payload<Payload>();
    std::uintptr_t addresses = 0;
    std::size_t lengths = 0;
    request.for_each_segment([&](std::byte* data, std::size_t bytes) {
        assert(payload.vectors < max_segments);
        payload.vector[payload.vectors++] = {data, bytes};
        addresses |= reinterpret_cast<std::uintptr_t>(data);
        lengths |= bytes;
    });
    const bool aligned =
        (addresses & (file_.memory_alignment() - 1)) == 0 && (lengths & (file_.length_alignment() - 1)) == 0;
    if (aligned) return send_transfer(request);
    payload.bounce.bytes = std::max<std::size_t>(request.data_bytes(), file_.memory_alignment());
    switch (bounces_->get(payload.bounce)) {
        case memory::BufferPool::Grant::granted:
            return use_bounce(request);
        case memory::BufferPool::Grant::waiting:
            return;
        case memory::BufferPool::Grant::too_large:
            return end(request, Status::invalid);
    }
}

void FileQueue::bounce_granted(memory::BufferRequest& granted) noexcept {
    auto& request = *static_cast<Request*>(granted.context);
    request.payload<Payload>().owner->use_bounce(request);
}

void FileQueue::use_bounce(Request& request) noexcept {
    auto& payload = request.payload<Payload>();
    if (request.op == Op::write) {
        std::byte* at = payload.bounce.data;
        request.for_each_segment([&](const std::byte* data, std::size_t bytes) {
            std::copy_n(data, bytes, at);
            at += bytes;
        });
    }
    payload.vector[0] = {payload.bounce.data, request.data_bytes()};
    payload.vectors = 1;
    send_transfer(request);
}

void FileQueue::start_zeroing(Request& request) noexcept {
    if ((request.flags & bio_unmap) != 0 && file_.punches_holes) return send_allocate(request, Step::punch);
    if (file_.zeroes_ranges) return send_allocate(request, Step::zero_range);
    send_zeroes(request);
}

io_uring_sqe* FileQueue::next_entry() noexcept {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    assert(entry != nullptr);  // there are more entries than tags
    ++in_kernel_;
    return entry;
}

void FileQueue::finish_entry(io_uring_sqe* entry, Request& request) const noexcept {
    entry->flags = file_.blocks_submitter() ? IOSQE_FIXED_FILE | IOSQE_ASYNC : IOSQE_FIXED_FILE;
    entry->user_data = reinterpret_cast<std::uintptr_t>(&request);
}

void FileQueue::send_transfer(Request& request) noexcept {
    auto& payload = request.payload<Payload>();
    payload.step = Step::transfer;
    const iovec* const vector = payload.vector + payload.first_vector;
    const unsigned vectors = payload.vectors - payload.first_vector;
    const std::uint64_t offset = request.sector * sector_bytes + payload.transferred;
    io_uring_sqe* const entry = next_entry();
    if (request.op == Op::read) {
        if (vectors == 1) {
            io_uring_prep_read(entry, fixed_fd, vector->iov_base, static_cast<unsigned>(vector->iov_len), offset);
        } else {
            io_uring_prep_readv(entry, fixed_fd, vector, vectors, offset);
        }
    } else {
        if (vectors == 1) {
            io_uring_prep_write(entry, fixed_fd, vector->iov_base, static_cast<unsigned>(vector->iov_len), offset);
        } else {
            io_uring_prep_writev(entry, fixed_fd, vector, vectors, offset);
        }
        if ((request.flags & bio_fua) != 0) entry->rw_flags = RWF_DSYNC;
    }
    finish_entry(entry, request);
}

void FileQueue::send_allocate(Request& request, Step step) noexcept {
    request.payload<Payload>().step = step;
    const int mode = step == Step::punch ? FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE : FALLOC_FL_ZERO_RANGE;
    io_uring_sqe* const entry = next_entry();
    io_uring_prep_fallocate(entry, fixed_fd, mode, static_cast<off_t>(request.sector * sector_bytes),
                            static_cast<off_t>(request.sectors * sector_bytes));
    finish_entry(entry, request);
}

// BLKDISCARD as an operation of the ring: unlike the ioctl it does not block. Kernels before 6.12 lack it.
void FileQueue::send_discard(Request& request) noexcept {
    request.payload<Payload>().step = Step::discard;
    io_uring_sqe* const entry = next_entry();
    io_uring_prep_rw(IORING_OP_URING_CMD, entry, fixed_fd, nullptr, 0, 0);
    entry->cmd_op = block_uring_cmd_discard;
    entry->addr = request.sector * sector_bytes;
    entry->addr3 = request.sectors * sector_bytes;
    finish_entry(entry, request);
}

void FileQueue::send_zeroes(Request& request) noexcept {
    auto& payload = request.payload<Payload>();
    payload.step = Step::write_zeroes;
    const memory::Buffer& zeroes = file_.zeroes();
    std::uint64_t left = request.sectors * sector_bytes - payload.transferred;
    unsigned vectors = 0;
    for (; left != 0 && vectors < max_segments; ++vectors) {
        const std::size_t bytes = std::min<std::uint64_t>(left, zeroes.size());
        payload.vector[vectors] = {zeroes.data(), bytes};
        left -= bytes;
    }
    io_uring_sqe* const entry = next_entry();
    io_uring_prep_writev(entry, fixed_fd, payload.vector, vectors, request.sector * sector_bytes + payload.transferred);
    finish_entry(entry, request);
}

void FileQueue::send_sync(Request& request) noexcept {
    request.payload<Payload>().step = Step::sync;
    io_uring_sqe* const entry = next_entry();
    io_uring_prep_fsync(entry, fixed_fd, IORING_FSYNC_DATASYNC);
    finish_entry(entry, request);
}

}  // namespace mqblk::driver::file
