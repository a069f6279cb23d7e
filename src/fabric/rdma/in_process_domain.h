// SPDX-License-Identifier: Apache-2.0
//
// Domain and completion queue of RDMA in this process. One thread.
#pragma once

#include "fabric/rdma/domain.h"
#include "fabric/rdma/key_table.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace mqblk {
class Reactor;
}

namespace mqblk::fabric::rdma {

class InProcessCompletionQueue final : public CompletionQueue {
  public:
    InProcessCompletionQueue(Reactor& reactor, unsigned entries) : reactor_(reactor), ring_(entries) {}

    unsigned poll(std::span<WorkCompletion> to) noexcept override;
    bool arm() noexcept override;

    /// Sets entries aside for a queue pair. False: there are not so many left.
    [[nodiscard]] bool reserve(unsigned entries) noexcept;
    /// Its queue pair goes, and what it has completed that nobody took.
    void release(unsigned entries, const unsigned* sends, const unsigned* receives) noexcept;
    /// There is room, as it was reserved. `untaken`: counts the queue pair's that nobody has taken yet.
    void push(const WorkCompletion& completion, unsigned& untaken) noexcept;

  private:
    struct Entry {
        WorkCompletion completion;
        unsigned* untaken = nullptr;
    };
    Reactor& reactor_;
    std::vector<Entry> ring_;
    std::size_t head_ = 0, count_ = 0;
    unsigned reserved_ = 0;
    bool armed_ = false;
};

class InProcessDomain final : public Domain, public std::enable_shared_from_this<InProcessDomain> {
  public:
    InProcessDomain(Reactor& reactor, const Limits& limits, std::function<bool()> refuse)
        : reactor_(reactor), limits_(limits), keys_(limits), refuse_(std::move(refuse)) {}

    const Limits& limits() const noexcept override { return limits_; }
    std::uint32_t register_range(std::byte* data, std::size_t bytes, std::uint8_t access) noexcept override;
    void unregister(std::uint32_t key) noexcept override { keys_.remove(key); }
    Result<Region> allocate_region(std::uint32_t max_pages) override;
    void free_region(Region& region) noexcept override;
    Result<std::unique_ptr<RegionPool>> make_pool(unsigned regions, std::uint32_t max_pages) override;
    Result<std::unique_ptr<CompletionQueue>> make_completion_queue(unsigned entries) override;

    [[nodiscard]] KeyTable& keys() noexcept { return keys_; }
    [[nodiscard]] bool refuses() const { return refuse_ && refuse_(); }

  private:
    Reactor& reactor_;
    const Limits limits_;
    KeyTable keys_;
    const std::function<bool()> refuse_;
};

}  // namespace mqblk::fabric::rdma
