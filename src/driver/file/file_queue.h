// SPDX-License-Identifier: Apache-2.0
//
// FileQueue: one hardware queue of a file: an io_uring of its own. Each request has at most one operation in the kernel
// at a time; a transfer that comes back short, and a zeroing that needs writes, is continued. Memory that O_DIRECT
// cannot take goes through aligned memory of the queue's own, so that every caller works.
#pragma once

#include "block/driver.h"
#include "block/pool_trimmer.h"
#include "block/queue.h"
#include "driver/file/backing_file.h"
#include "memory/buffer_pool.h"
#include "reactor/reactor.h"

#include <liburing.h>

#include <memory>
#include <optional>

namespace mqblk::driver::file {

class FileQueue final : public block::HardwareQueue {
  public:
    static constexpr unsigned max_segments = 128;
    static constexpr std::uint32_t max_request_bytes = 1u << 20;
    static constexpr std::uint64_t max_discard_bytes = std::uint64_t{1} << 30;
    static constexpr std::uint64_t max_zeroes_bytes = std::uint64_t{64} << 20;

    /// What the kernel is doing for a request.
    enum class Step : std::uint8_t { transfer, discard, punch, zero_range, write_zeroes, sync };

    struct Payload {
        FileQueue* owner = nullptr;
        memory::BufferRequest bounce;
        std::uint64_t transferred = 0;  ///< bytes done in earlier operations
        Step step = Step::transfer;
        bool late = false;               ///< its time was up once, and the kernel was asked to give it up
        std::uint16_t first_vector = 0;  ///< vectors [first_vector, vectors) are still to be moved
        std::uint16_t vectors = 0;
        iovec vector[max_segments];
    };

    [[nodiscard]] static Result<std::unique_ptr<FileQueue>> open(BackingFile& file, block::Queue& queue,
                                                                 Reactor& reactor, unsigned depth);
    ~FileQueue() override;

    void prepare(block::Request& request) override;
    block::Issue queue(block::Request& request, bool last) noexcept override;
    void commit() noexcept override;
    unsigned poll() noexcept override;
    bool prepare_sleep() noexcept override;
    /// The kernel is asked to give it up, once. What it does not give up (a dead disk, a server that is silent) stays
    /// outstanding for as long as that lasts: its memory may yet be written to.
    block::Expired timeout(block::Request&) noexcept override;
    void cancel_all(Status status) noexcept override;

  private:
    FileQueue(BackingFile& file, block::Queue& queue) noexcept : file_(file), queue_(queue) {}
    Result<> set_up(Reactor& reactor, unsigned depth);

    // Starting (file_queue.cpp).
    void start(block::Request&) noexcept;
    void start_transfer(block::Request&) noexcept;
    void start_zeroing(block::Request&) noexcept;
    static void bounce_granted(memory::BufferRequest&) noexcept;
    void use_bounce(block::Request&) noexcept;
    [[nodiscard]] io_uring_sqe* next_entry() noexcept;
    void finish_entry(io_uring_sqe*, block::Request&) const noexcept;
    void send_transfer(block::Request&) noexcept;
    void send_allocate(block::Request&, Step) noexcept;
    void send_discard(block::Request&) noexcept;
    void send_zeroes(block::Request&) noexcept;
    void send_sync(block::Request&) noexcept;

    // Ending (file_completion.cpp).
    void completed(block::Request&, int result) noexcept;
    void transferred(block::Request&, int result) noexcept;
    void zeroes_written(block::Request&, int result) noexcept;
    void allocated(block::Request&, int result) noexcept;
    void data_done(block::Request&) noexcept;
    void end(block::Request&, Status) noexcept;
    /// Other than ok: it is not to be continued, and ends with this.
    [[nodiscard]] Status giving_up(const Payload& payload) const noexcept {
        return cancel_status_ == Status::ok && payload.late ? Status::timed_out : cancel_status_;
    }
    [[nodiscard]] Status status_of(const Payload&, int error_number) const noexcept;

    BackingFile& file_;
    block::Queue& queue_;
    io_uring ring_{};
    bool ring_open_ = false;
    unsigned ended_ = 0;                 ///< requests ended in this pass
    unsigned outstanding_ = 0;           ///< accepted and not ended
    unsigned in_kernel_ = 0;             ///< operations whose completion is still to come, cancellations included
    Status cancel_status_ = Status::ok;  ///< other than ok while a cancellation drains
    std::unique_ptr<memory::BufferPool> bounces_;
    std::optional<block::PoolTrimmer> trimmer_;
    std::unique_ptr<Watch> watch_;
};

}  // namespace mqblk::driver::file
