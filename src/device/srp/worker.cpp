// SPDX-License-Identifier: Apache-2.0
#include "device/srp/worker.h"

#include <algorithm>
#include <bit>

namespace mqblk::device::srp {

namespace {
constexpr std::size_t tables_bytes = 16 * Worker::max_table_bytes;
}

Result<std::unique_ptr<RegisteredPool>> RegisteredPool::create(fabric::rdma::Domain& domain, std::size_t budget_bytes,
                                                               std::size_t max_block_bytes) {
    auto pool = memory::BufferPool::create(budget_bytes, max_block_bytes);
    if (!pool) return std::unexpected(pool.error());
    const memory::Buffer& arena = (*pool)->arena();
    const std::uint32_t key =
        domain.register_range(const_cast<std::byte*>(arena.data()), arena.size(), fabric::rdma::access_local_write);
    if (key == 0) return fail(Errc::no_space, "the RDMA device does not register the memory for data");
    return std::make_unique<RegisteredPool>(domain, std::move(*pool), key);
}

RegisteredPool::RegisteredPool(fabric::rdma::Domain& domain, std::unique_ptr<memory::BufferPool> pool,
                               std::uint32_t key)
    : domain_(domain), pool_(std::move(pool)), shares_(*pool_), key_(key) {}

RegisteredPool::~RegisteredPool() {
    domain_.unregister(key_);
}

Result<std::shared_ptr<Worker>> Worker::create(std::shared_ptr<fabric::rdma::Domain> domain, Reactor& reactor,
                                               std::size_t buffer_bytes, std::size_t max_transfer_bytes) {
    const std::size_t largest = std::bit_ceil(std::max<std::size_t>(max_transfer_bytes, 4096));
    auto data = RegisteredPool::create(*domain, std::max(buffer_bytes, largest), largest);
    if (!data) return std::unexpected(data.error().in("buffers of the SRP target"));
    auto tables = RegisteredPool::create(*domain, tables_bytes, max_table_bytes);
    if (!tables) return std::unexpected(tables.error().in("buffers of the SRP target"));
    return std::make_shared<Worker>(std::move(domain), reactor, std::move(*data), std::move(*tables));
}

Worker::Worker(std::shared_ptr<fabric::rdma::Domain> domain, Reactor& reactor, std::unique_ptr<RegisteredPool> data,
               std::unique_ptr<RegisteredPool> tables)
    : domain_(std::move(domain)), reactor_(reactor), data_(std::move(data)), tables_(std::move(tables)) {
    // Where registering costs next to nothing no page is pinned, and memory that is not used can go back.
    if (domain_->limits().cheap_ranges) trimmer_.emplace(reactor_, data_->pool());
}

std::shared_ptr<InitiatorShare> Worker::share_of(const wire::srp::PortId& initiator) {
    std::erase_if(shares_, [](const auto& entry) { return entry.second.expired(); });
    auto& known = shares_[{initiator.first.value(), initiator.second.value()}];
    auto share = known.lock();
    if (!share) known = share = std::make_shared<InitiatorShare>();
    return share;
}

}  // namespace mqblk::device::srp
