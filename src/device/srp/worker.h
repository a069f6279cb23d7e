// SPDX-License-Identifier: Apache-2.0
//
// Worker: what all connections of one reactor and RDMA device share: memory for data and for external tables of
// descriptors, registered once. Memory is scarce: who finds none waits in order, and no initiator can take it all. Its
// reactor's thread.
#pragma once

#include "block/pool_trimmer.h"
#include "fabric/rdma/domain.h"
#include "memory/buffer_pool.h"
#include "memory/buffer_shares.h"
#include "wire/srp.h"

#include <mqblk/error.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace mqblk {
class Reactor;
}

namespace mqblk::device::srp {

/// What the connections of one initiator in a worker have in common.
struct InitiatorShare {
    memory::BufferAccount data, tables;
};

/// Memory of a pool under the key of its registration.
class RegisteredPool {
  public:
    [[nodiscard]] static Result<std::unique_ptr<RegisteredPool>> create(fabric::rdma::Domain&, std::size_t budget_bytes,
                                                                        std::size_t max_block_bytes);
    RegisteredPool(fabric::rdma::Domain&, std::unique_ptr<memory::BufferPool>, std::uint32_t key);
    ~RegisteredPool();
    RegisteredPool(const RegisteredPool&) = delete;
    RegisteredPool& operator=(const RegisteredPool&) = delete;

    [[nodiscard]] memory::BufferPool& pool() noexcept { return *pool_; }
    [[nodiscard]] memory::BufferShares& shares() noexcept { return shares_; }
    [[nodiscard]] std::uint32_t key() const noexcept { return key_; }

  private:
    fabric::rdma::Domain& domain_;
    const std::unique_ptr<memory::BufferPool> pool_;
    memory::BufferShares shares_;
    const std::uint32_t key_;
};

class Worker {
  public:
    static constexpr std::size_t max_table_bytes = 256 * 1024;  ///< of an external table of descriptors

    [[nodiscard]] static Result<std::shared_ptr<Worker>> create(std::shared_ptr<fabric::rdma::Domain>, Reactor&,
                                                                std::size_t buffer_bytes,
                                                                std::size_t max_transfer_bytes);
    Worker(std::shared_ptr<fabric::rdma::Domain>, Reactor&, std::unique_ptr<RegisteredPool> data,
           std::unique_ptr<RegisteredPool> tables);  ///< for create()

    [[nodiscard]] fabric::rdma::Domain& domain() noexcept { return *domain_; }
    [[nodiscard]] Reactor& reactor() noexcept { return reactor_; }
    [[nodiscard]] RegisteredPool& data() noexcept { return *data_; }
    [[nodiscard]] RegisteredPool& tables() noexcept { return *tables_; }
    [[nodiscard]] std::shared_ptr<InitiatorShare> share_of(const wire::srp::PortId& initiator);

  private:
    const std::shared_ptr<fabric::rdma::Domain> domain_;
    Reactor& reactor_;
    const std::unique_ptr<RegisteredPool> data_, tables_;
    std::optional<block::PoolTrimmer> trimmer_;
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::weak_ptr<InitiatorShare>> shares_;
};

}  // namespace mqblk::device::srp
