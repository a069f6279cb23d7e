// SPDX-License-Identifier: Apache-2.0
//
// What the queue pairs of one network in this process share: who listens where, and the domains. Thread-safe.
#pragma once

#include "fabric/rdma/in_process.h"
#include "fabric/rdma/in_process_domain.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>

namespace mqblk::fabric::rdma {

/// Somebody who listens. Whoever calls `requested` holds the lock shared; its end takes it alone.
struct InProcessService {
    std::shared_mutex mutex;
    bool open = true;
    Reactor* reactor = nullptr;
    Network::Requested requested;
};

struct InProcessNetwork::Impl {
    Impl(InProcessOptions how, Courier* carrier) : options(std::move(how)), courier(carrier) {}

    const InProcessOptions options;
    Courier* const courier;
    std::atomic<std::uint64_t> connections{0};

    [[nodiscard]] std::shared_ptr<InProcessService> find(const std::string& name);
    [[nodiscard]] std::shared_ptr<InProcessDomain> domain(Reactor& reactor, unsigned side);

    std::mutex mutex;
    std::map<std::string, std::shared_ptr<InProcessService>> services;
    std::map<std::pair<Reactor*, unsigned>, std::weak_ptr<InProcessDomain>> domains;
};

}  // namespace mqblk::fabric::rdma
