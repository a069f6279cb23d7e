// SPDX-License-Identifier: Apache-2.0
//
// The listener of the NVMe/TCP target and its workers, one for each reactor. Control path: nothing here runs for a PDU.
#include "device/nvme/tcp_target.h"

#include "device/nvme/tcp_worker.h"
#include "reactor/reactor.h"
#include "wire/nvme_tcp.h"

#include <fmt/format.h>

#include <utility>

namespace mqblk::device::nvme {

namespace {

class TcpTargetImpl final : public TcpTarget {
  public:
    TcpTargetImpl(std::vector<Reactor*> reactors, std::vector<std::unique_ptr<TcpWorker>> workers)
        : reactors_(std::move(reactors)), workers_(std::move(workers)) {}

    Result<> start(fabric::Network& network, const fabric::Address& address) {
        auto listener = network.listen(*reactors_[0], address,
                                       [this](fabric::Network::Token token) { distribute(std::move(token)); });
        if (!listener) return std::unexpected(listener.error());
        address_ = (*listener)->address();
        listener_ = std::move(*listener);
        return {};
    }

    fabric::Address address() const override { return address_; }
    unsigned connections() const noexcept override {
        unsigned sum = 0;
        for (const auto& worker : workers_) sum += worker->connections();
        return sum;
    }
    void shutdown(std::function<void()> done) override {
        reactors_[0]->post([this, done = std::move(done)]() mutable {
            listener_.reset();
            done_ = std::move(done);
            waiting_ = workers_.size();
            for (const auto& worker : workers_) worker->announce_end();
            for (const auto& worker : workers_) {
                worker->reactor.post([this, &worker = *worker] {
                    worker.shutdown([this] { reactors_[0]->post([this] { one_done(); }); });
                });
            }
        });
    }

  private:
    void distribute(fabric::Network::Token token) {
        TcpWorker& worker = *workers_[next_++ % workers_.size()];
        if (&worker.reactor == reactors_[0]) {
            worker.adopt(token(worker.reactor));
        } else {
            worker.reactor.post([&worker, token = std::move(token)] { worker.adopt(token(worker.reactor)); });
        }
    }
    void one_done() {
        if (--waiting_ > 0) return;
        const auto done = std::move(done_);  // it may destroy this object
        done();
    }

    const std::vector<Reactor*> reactors_;
    std::vector<std::unique_ptr<TcpWorker>> workers_;
    std::unique_ptr<fabric::Listener> listener_;
    fabric::Address address_;
    std::size_t next_ = 0;
    std::size_t waiting_ = 0;
    std::function<void()> done_;
};

Result<> check_options(const TcpTarget::Options& options) {
    const std::uint32_t most = options.max_h2c_data_bytes;
    if (most < wire::nvme_tcp::min_h2c_data_bytes || most % 4 != 0) {
        return fail(Errc::invalid_argument,
                    fmt::format("largest H2C data of {} bytes: it must be 4096 or more and a multiple of 4", most));
    }
    return {};
}

}  // namespace

Result<std::unique_ptr<TcpTarget>> TcpTarget::listen(Target& target, unsigned port_id, fabric::Network& network,
                                                     std::vector<Reactor*> reactors, Options options) {
    if (const auto checked = check_options(options); !checked) return std::unexpected(checked.error());
    std::vector<std::unique_ptr<TcpWorker>> workers;
    for (Reactor* reactor : reactors) {
        auto worker = TcpWorker::create(target, port_id, *reactor, options);
        if (!worker) return std::unexpected(worker.error());
        workers.push_back(std::move(*worker));
    }
    auto result = std::make_unique<TcpTargetImpl>(std::move(reactors), std::move(workers));
    if (const auto started = result->start(network, options.listen); !started) return std::unexpected(started.error());
    return result;
}

}  // namespace mqblk::device::nvme
