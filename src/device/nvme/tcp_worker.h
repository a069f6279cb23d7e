// SPDX-License-Identifier: Apache-2.0
//
// TcpWorker: what all NVMe/TCP queues of one reactor share: data buffers, receive memory, command slots, and the queues
// themselves. A queue that is idle holds none of it. Made and destroyed while the reactor does not run its queues, used
// on its thread.
#pragma once

#include "block/pool_trimmer.h"
#include "device/nvme/target_queue.h"
#include "device/nvme/tcp_target.h"
#include "fabric/nvme_tcp_stream.h"
#include "memory/buffer_pool.h"
#include "memory/buffer_shares.h"

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mqblk::device::nvme {

class TcpQueue;

/// One command from its capsule to its last PDU sent.
struct alignas(64) TcpCommand {
    enum class State : std::uint8_t {
        free,
        refused,    ///< its status is known; its in-capsule data are being dropped
        waiting,    ///< for a buffer
        receiving,  ///< data in the capsule or by R2T
        executing,  ///< in the core
        sending,    ///< its last PDU is queued
    };

    TargetCommand core;
    Plan plan;
    State state = State::free;
    bool parked = false;        ///< an asynchronous event request: outstanding without there being anything to do
    bool digest_error = false;  ///< a data digest did not fit
    bool from_reserve = false;  ///< its buffer is from the reserve
    bool on_loan = false;       ///< the memory that it sends from is the namespace's
    std::uint8_t r2ts = 0;      ///< outstanding
    std::uint32_t requested = 0, received = 0;  ///< bytes asked for by R2T, and of those arrived
    TcpQueue* queue = nullptr;
    fabric::RxChunk* held = nullptr;     ///< in-capsule data
    Segment segment{nullptr, 0};         ///< what core.data consists of
    memory::SharedBufferRequest buffer;  ///< `data` is set while it has one
    TcpCommand* next = nullptr;          ///< free list, or the queue's list of commands that the core has not begun
    TcpCommand* previous = nullptr;
};

/// Command slots in blocks that are kept: no allocation once as many were in use at once.
class TcpCommandPool {
  public:
    /// Null when memory is out.
    [[nodiscard]] TcpCommand* take() noexcept;
    void give(TcpCommand*) noexcept;
    /// fn(TcpCommand&) for every slot, in use or not.
    template <class Fn>
    void for_each(Fn&& fn) {
        for (const auto& block : blocks_) {
            for (std::size_t i = 0; i < block_commands; ++i) fn(block[i]);
        }
    }

  private:
    static constexpr std::size_t block_commands = 32;
    TcpCommand* free_ = nullptr;
    std::vector<std::unique_ptr<TcpCommand[]>> blocks_;
};

/// What the queues of one host in a worker have in common: none of them, nor all, takes the memory from other hosts.
struct TcpHostShare {
    memory::BufferAccount buffers, reserve;
};

class TcpWorker {
  public:
    [[nodiscard]] static Result<std::unique_ptr<TcpWorker>> create(Target&, unsigned port_id, Reactor&,
                                                                   const TcpTarget::Options&);
    ~TcpWorker();  ///< the queues are gone

    /// A connection arrived: it becomes a queue of this worker, unless the worker is shutting down.
    void adopt(std::unique_ptr<fabric::Connection>);
    /// Deletes a queue that is done, not at once but in a pass of its own.
    void retire(TcpQueue&);
    /// Closes all queues; `done` runs when the last one is gone.
    void shutdown(std::function<void()> done);
    /// All workers of the target will be told to shut down. Any thread.
    void announce_end() noexcept { target_ends_.store(true, std::memory_order_relaxed); }
    [[nodiscard]] bool target_ends() const noexcept { return target_ends_.load(std::memory_order_relaxed); }

    /// Memory for transfers: admin commands and whatever comes before Connect use the reserve.
    [[nodiscard]] memory::BufferShares& shares(bool reserve) noexcept {
        return reserve ? *reserve_shares_ : *buffer_shares_;
    }
    /// The share of the host that `host_nqn` names.
    [[nodiscard]] std::shared_ptr<TcpHostShare> share_of(const std::string& host_nqn);
    static constexpr std::size_t reserve_block_bytes = 16384;

    [[nodiscard]] unsigned connections() const noexcept { return connections_.load(std::memory_order_relaxed); }

    Target& target;
    const unsigned port_id;
    Reactor& reactor;
    const TcpTarget::Options options;
    fabric::NvmeTcpBuffers streams;
    TcpCommandPool commands;

  private:
    TcpWorker(Target&, unsigned port_id, Reactor&, const TcpTarget::Options&,
              std::unique_ptr<memory::BufferPool> buffers, std::unique_ptr<memory::BufferPool> reserve);
    void finish_shutdown();

    std::unique_ptr<memory::BufferPool> buffers_, reserve_;
    std::optional<memory::BufferShares> buffer_shares_, reserve_shares_;
    std::map<std::string, std::weak_ptr<TcpHostShare>, std::less<>> hosts_;
    std::optional<block::PoolTrimmer> trimmer_;
    std::vector<std::unique_ptr<TcpQueue>> queues_;
    std::atomic<unsigned> connections_{0};
    std::atomic<bool> target_ends_{false};
    std::function<void()> shut_down_;
};

}  // namespace mqblk::device::nvme
