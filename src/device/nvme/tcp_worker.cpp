// SPDX-License-Identifier: Apache-2.0
//
// What the queues of one reactor share, and their coming and going.
#include "device/nvme/tcp_worker.h"

#include "device/nvme/tcp_queue.h"

#include <bit>
#include <new>
#include <utility>

namespace mqblk::device::nvme {

namespace {

/// Of the budget for data on their way: receive memory, where data that came with their commands stay.
std::size_t receive_bytes(const TcpTarget::Options& options) noexcept {
    return options.buffer_bytes / 4;
}

constexpr std::size_t reserve_bytes = 16 * TcpWorker::reserve_block_bytes;

}  // namespace

TcpCommand* TcpCommandPool::take() noexcept {
    if (free_ == nullptr) {
        auto* block = new (std::nothrow) TcpCommand[block_commands];
        if (block == nullptr) return nullptr;
        blocks_.emplace_back(block);
        for (std::size_t i = block_commands; i-- > 0;) {
            block[i].next = free_;
            free_ = &block[i];
        }
    }
    return std::exchange(free_, free_->next);
}

void TcpCommandPool::give(TcpCommand* command) noexcept {
    command->state = TcpCommand::State::free;
    command->digest_error = command->from_reserve = command->on_loan = false;
    command->r2ts = 0;
    command->requested = command->received = 0;
    command->held = nullptr;
    command->buffer.data = nullptr;
    command->next = free_;
    free_ = command;
}

Result<std::unique_ptr<TcpWorker>> TcpWorker::create(Target& target, unsigned port_id, Reactor& reactor,
                                                     const TcpTarget::Options& options) {
    const std::size_t largest = std::bit_ceil(std::max<std::size_t>(target.limits().max_transfer_bytes, 4096));
    auto buffers =
        memory::BufferPool::create(std::max(options.buffer_bytes - receive_bytes(options), largest), largest);
    if (!buffers) return std::unexpected(buffers.error().in("buffers of the NVMe/TCP target"));
    auto reserve = memory::BufferPool::create(reserve_bytes, reserve_block_bytes);
    if (!reserve) return std::unexpected(reserve.error().in("reserved buffers of the NVMe/TCP target"));
    return std::unique_ptr<TcpWorker>(
        new TcpWorker(target, port_id, reactor, options, std::move(*buffers), std::move(*reserve)));
}

TcpWorker::TcpWorker(Target& the_target, unsigned port, Reactor& the_reactor, const TcpTarget::Options& the_options,
                     std::unique_ptr<memory::BufferPool> buffers, std::unique_ptr<memory::BufferPool> reserve)
    : target(the_target),
      port_id(port),
      reactor(the_reactor),
      options(the_options),
      streams(receive_bytes(the_options) / fabric::NvmeTcpBuffers::chunk_bytes),
      buffers_(std::move(buffers)),
      reserve_(std::move(reserve)),
      buffer_shares_(std::in_place, *buffers_),
      reserve_shares_(std::in_place, *reserve_),
      trimmer_(std::in_place, reactor, *buffers_) {}

TcpWorker::~TcpWorker() = default;

std::shared_ptr<TcpHostShare> TcpWorker::share_of(const std::string& host_nqn) {
    std::erase_if(hosts_, [](const auto& entry) { return entry.second.expired(); });
    auto& known = hosts_[host_nqn];
    auto share = known.lock();
    if (!share) known = share = std::make_shared<TcpHostShare>();
    return share;
}

void TcpWorker::adopt(std::unique_ptr<fabric::Connection> connection) {
    if (shut_down_ || !connection) return;
    queues_.push_back(std::make_unique<TcpQueue>(*this, std::move(connection)));
    queues_.back()->place = queues_.size() - 1;
    connections_.store(static_cast<unsigned>(queues_.size()), std::memory_order_relaxed);
}

void TcpWorker::retire(TcpQueue& queue) {
    reactor.post([this, &queue] {
        const std::size_t place = queue.place;
        std::swap(queues_[place], queues_.back());
        queues_[place]->place = place;
        queues_.pop_back();
        connections_.store(static_cast<unsigned>(queues_.size()), std::memory_order_relaxed);
        finish_shutdown();
    });
}

void TcpWorker::shutdown(std::function<void()> done) {
    shut_down_ = std::move(done);
    for (const auto& queue : queues_) queue->shutdown();
    finish_shutdown();
}

// Timers of the pools belong to the reactor's thread: they go here, not with the worker.
void TcpWorker::finish_shutdown() {
    if (!shut_down_ || !queues_.empty()) return;
    trimmer_.reset();
    buffer_shares_.reset();
    reserve_shares_.reset();
    buffers_.reset();
    reserve_.reset();
    const auto done = shut_down_;
    done();
}

}  // namespace mqblk::device::nvme
