// SPDX-License-Identifier: Apache-2.0
//
// How a queue pair is opened: over TCP a connection and the exchange of ICReq and ICResp, in this process a call.
#include "driver/nvme/transport.h"

#include "driver/nvme/loop_queue_pair.h"
#include "driver/nvme/pair_wait.h"
#include "driver/nvme/tcp_queue_pair.h"

#include <fmt/format.h>

#include <utility>

namespace mqblk::driver::nvme {

namespace {

class TcpTransport final : public Transport {
  public:
    TcpTransport(fabric::Network& network, TcpSettings settings)
        : network_(network), settings_(std::move(settings)), target_(settings_.address.to_string()) {}

    Task<Result<std::unique_ptr<QueuePair>>> open(Reactor& reactor, QueuePairEvents& events,
                                                  Queue queue) const override {
        const Time deadline = reactor.now() + queue.timeout;
        auto connection = co_await network_.connect(reactor, settings_.address, queue.timeout);
        if (!connection) co_return std::unexpected(std::move(connection.error()));
        auto pair = std::make_unique<TcpQueuePair>(
            std::move(*connection), events,
            TcpQueuePair::Terms{settings_.header_digest, settings_.data_digest, queue.in_capsule_bytes});
        pair->initialize();
        co_await PairWait(reactor, *pair, [&pair] { return pair->initialized(); }, deadline);
        if (pair->lost()) {
            co_return mqblk::fail(Errc::protocol,
                                  fmt::format("{} does not answer as an NVMe/TCP target: {}", target_, pair->reason()));
        }
        if (!pair->initialized()) {
            co_return mqblk::fail(
                Errc::timed_out,
                fmt::format("{} accepted a connection but sent no NVMe/TCP answer in time; is it a target?", target_));
        }
        co_return std::unique_ptr<QueuePair>(std::move(pair));
    }

    const std::string& target() const noexcept override { return target_; }
    const std::string& name() const noexcept override { return name_; }

  private:
    fabric::Network& network_;
    const TcpSettings settings_;
    const std::string target_;
    const std::string name_ = "tcp";
};

class LoopTransport final : public Transport {
  public:
    explicit LoopTransport(std::shared_ptr<fabric::LoopTarget> target) : loop_(std::move(target)) {}

    Task<Result<std::unique_ptr<QueuePair>>> open(Reactor& reactor, QueuePairEvents& events, Queue) const override {
        auto queue = loop_->open_queue(reactor);
        if (!queue) co_return std::unexpected(std::move(queue.error()));
        co_return std::unique_ptr<QueuePair>(std::make_unique<LoopQueuePair>(std::move(*queue), events));
    }

    const std::string& target() const noexcept override { return target_; }
    const std::string& name() const noexcept override { return name_; }

  private:
    const std::shared_ptr<fabric::LoopTarget> loop_;
    const std::string target_ = "this process";
    const std::string name_ = "loop";
};

}  // namespace

std::shared_ptr<const Transport> tcp_transport(fabric::Network& network, TcpSettings settings) {
    return std::make_shared<TcpTransport>(network, std::move(settings));
}

std::shared_ptr<const Transport> loop_transport(std::shared_ptr<fabric::LoopTarget> target) {
    return std::make_shared<LoopTransport>(std::move(target));
}

}  // namespace mqblk::driver::nvme
