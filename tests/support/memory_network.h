// SPDX-License-Identifier: Apache-2.0
//
// A Network in memory for a target under test: connect() yields the host's end as two byte queues. Single-threaded: the
// test runs the reactor and calls fire() for what a kernel would do.
#pragma once

#include "support/memory_connection.h"

#include <functional>
#include <memory>
#include <vector>

namespace mqblk::test {

class MemoryNetwork final : public fabric::Network {
  public:
    /// The host's end.
    struct Line {
        std::shared_ptr<MemoryPipe> to_target = std::make_shared<MemoryPipe>();
        std::shared_ptr<MemoryPipe> to_host = std::make_shared<MemoryPipe>();
        MemoryConnection* target_end = nullptr;  ///< while the target has it
        void close() const { to_target->ended = to_host->ended = true; }
    };

    Line dial() {
        Line line;
        accepted_([this, &line](Reactor&) -> std::unique_ptr<fabric::Connection> {
            auto connection = std::make_unique<MemoryConnection>(line.to_target, line.to_host);
            connection->gone = [this](MemoryConnection* which) { std::erase(connections_, which); };
            connections_.push_back(line.target_end = connection.get());
            return connection;
        });
        return line;
    }
    /// What the kernel would report: connections that are watched and ready.
    void fire() {
        for (std::size_t i = 0; i < connections_.size(); ++i) connections_[i]->fire();
    }

    Task<Result<std::unique_ptr<fabric::Connection>>> connect(Reactor&, fabric::Address, Duration) override {
        co_return fail(Errc::not_supported, "connections come from dial()");
    }
    Result<std::unique_ptr<fabric::Listener>> listen(Reactor&, const fabric::Address& address,
                                                     std::function<void(Token)> accepted) override {
        struct Ear final : fabric::Listener {
            explicit Ear(fabric::Address where) : at(std::move(where)) {}
            fabric::Address address() const override { return at; }
            fabric::Address at;
        };
        accepted_ = std::move(accepted);
        return std::make_unique<Ear>(address);
    }

  private:
    std::function<void(Token)> accepted_;
    std::vector<MemoryConnection*> connections_;
};

}  // namespace mqblk::test
