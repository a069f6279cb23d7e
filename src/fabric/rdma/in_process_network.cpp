// SPDX-License-Identifier: Apache-2.0
#include "fabric/rdma/in_process_network.h"

#include "fabric/rdma/in_process_queue_pair.h"

#include <fmt/format.h>

namespace mqblk::fabric::rdma {

std::shared_ptr<InProcessService> InProcessNetwork::Impl::find(const std::string& name) {
    const std::lock_guard lock(mutex);
    const auto found = services.find(name);
    return found == services.end() ? nullptr : found->second;
}

std::shared_ptr<InProcessDomain> InProcessNetwork::Impl::domain(Reactor& reactor, unsigned side) {
    const std::lock_guard lock(mutex);
    auto& place = domains[{&reactor, side}];
    auto domain = place.lock();
    if (domain == nullptr) {
        std::erase_if(domains, [&](const auto& each) { return &each.second != &place && each.second.expired(); });
        domain = std::make_shared<InProcessDomain>(reactor, options.limits, options.refuse_registration);
        place = domain;
    }
    return domain;
}

namespace {

class InProcessListener final : public QueuePairListener {
  public:
    InProcessListener(std::shared_ptr<InProcessNetwork::Impl> network, std::shared_ptr<InProcessService> service,
                      Address address)
        : network_(std::move(network)), service_(std::move(service)), address_(std::move(address)) {}
    ~InProcessListener() override {
        {
            const std::lock_guard lock(network_->mutex);
            network_->services.erase(address_.to_string());
        }
        const std::unique_lock lock(service_->mutex);
        service_->open = false;
        service_->requested = nullptr;
    }
    Address address() const override { return address_; }

  private:
    const std::shared_ptr<InProcessNetwork::Impl> network_;
    const std::shared_ptr<InProcessService> service_;
    const Address address_;
};

}  // namespace

InProcessNetwork::InProcessNetwork(InProcessOptions options, Courier* courier)
    : impl_(std::make_shared<Impl>(std::move(options), courier)) {}

InProcessNetwork::~InProcessNetwork() = default;

std::unique_ptr<QueuePair> InProcessNetwork::open(Reactor& reactor, const Address& to, QueuePairHandler& handler,
                                                  Duration) {
    auto link = std::make_shared<InProcessLink>(impl_->courier, impl_->connections.fetch_add(1));
    auto result = std::make_unique<InProcessQueuePair>(impl_, std::move(link), 0, reactor, to);
    result->set_handler(handler);
    result->begin(impl_->find(to.to_string()) != nullptr);
    return result;
}

Result<std::unique_ptr<QueuePairListener>> InProcessNetwork::listen(Reactor& reactor, const Address& at,
                                                                    Requested requested) {
    auto service = std::make_shared<InProcessService>();
    service->reactor = &reactor;
    service->requested = std::move(requested);
    {
        const std::lock_guard lock(impl_->mutex);
        if (!impl_->services.emplace(at.to_string(), service).second)
            return fail(Errc::already_exists,
                        fmt::format("{}: somebody in this process listens there already", at.to_string()));
    }
    return std::make_unique<InProcessListener>(impl_, std::move(service), at);
}

}  // namespace mqblk::fabric::rdma
