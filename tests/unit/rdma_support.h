// SPDX-License-Identifier: Apache-2.0
//
// Two ends of a queue pair in one process, in a reactor whose time is the test's.
#pragma once

#include "base/random.h"
#include "fabric/rdma/in_process.h"
#include "manual_reactor.h"
#include "memory/buffer.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace mqblk::test {

inline std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct RdmaEnd final : fabric::rdma::QueuePairHandler {
    static constexpr unsigned sends = 8, receives = 8;

    memory::Buffer memory = std::move(*memory::Buffer::allocate(64 * 1024));
    std::unique_ptr<fabric::rdma::CompletionQueue> completions;
    std::unique_ptr<fabric::rdma::QueuePair> qp;
    std::uint32_t key = 0;
    std::string private_data, send_data;
    std::optional<Error> error;
    std::uint16_t reason = 0;
    std::uint8_t rnr_retry_count = 7;
    bool accepted_ = false, established_ = false, ended_ = false;
    unsigned disconnected_ = 0;

    ~RdmaEnd() { qp.reset(); }

    [[nodiscard]] fabric::rdma::ConnectParameters parameters() const {
        return {.private_data = std::as_bytes(std::span(send_data)), .rnr_retry_count = rnr_retry_count};
    }
    void make() {
        const auto& domain = qp->domain();
        key = domain->register_range(memory.data(), memory.size(), fabric::rdma::access_local_write);
        completions = std::move(*domain->make_completion_queue(sends + receives));
        const auto created =
            qp->create({.max_sends = sends, .max_receives = receives, .max_send_pieces = 4, .max_receive_pieces = 4},
                       *completions);
        if (!created) error = created.error();
    }
    void resolved() noexcept override {
        make();
        qp->connect(parameters(), std::chrono::seconds(5));
    }
    void accepted(std::span<const std::byte> data) noexcept override {
        private_data = text_of(data);
        accepted_ = ended_ = true;
    }
    void rejected(std::uint16_t why, std::span<const std::byte> data) noexcept override {
        reason = why;
        private_data = text_of(data);
        ended_ = true;
    }
    void failed(const Error& why) noexcept override {
        error = why;
        ended_ = true;
    }
    void established() noexcept override { established_ = true; }
    void disconnected() noexcept override { ++disconnected_; }

    [[nodiscard]] fabric::rdma::LocalPiece piece(std::size_t offset, std::uint32_t bytes) const {
        return {.data = memory.data() + offset, .bytes = bytes, .key = key};
    }
    [[nodiscard]] bool has_completion() const { return !completions->arm(); }
    [[nodiscard]] fabric::rdma::WorkCompletion take() {
        fabric::rdma::WorkCompletion result{.id = ~0ull, .status = fabric::rdma::WorkStatus::fatal_error};
        EXPECT_EQ(completions->poll(std::span(&result, 1)), 1u);
        return result;
    }
};

struct RdmaPair {
    ManualClock clock;
    SeededRandom random{1};
    ManualReactor reactor{clock, random};
    fabric::rdma::InProcessNetwork network;
    RdmaEnd near, far;
    std::string requested_with;
    std::optional<std::string> reject_with;
    bool answer = true;
    std::uint8_t rnr_retry_count = 7;
    std::unique_ptr<fabric::rdma::QueuePairListener> listener;

    explicit RdmaPair(fabric::rdma::InProcessOptions options = {}) : network(std::move(options)) {
        listener = std::move(
            *network.listen(reactor, {.host = "target"},
                            [this](std::unique_ptr<fabric::rdma::QueuePair> qp, std::span<const std::byte> data) {
                                requested_with = text_of(data);
                                far.qp = std::move(qp);
                                far.qp->set_handler(far);
                                if (!answer) return;
                                if (reject_with) return far.qp->reject(std::as_bytes(std::span(*reject_with)));
                                far.make();
                                EXPECT_TRUE(far.qp->accept(far.parameters()).has_value());
                            }));
    }
    /// Whether they are connected.
    [[nodiscard]] bool connect(std::string_view request, std::string_view reply) {
        near.send_data = request;
        far.send_data = reply;
        near.rnr_retry_count = rnr_retry_count;
        near.qp = network.open(reactor, {.host = "target"}, near, std::chrono::seconds(5));
        EXPECT_TRUE(turn_until([&] { return near.ended_; }));
        return near.accepted_ && turn_until([&] { return far.established_; });
    }
    void turn(unsigned passes) {
        for (unsigned i = 0; i < passes; ++i) reactor.run_once(Reactor::Sleep::no);
    }
    template <class Done>
    [[nodiscard]] bool turn_until(Done done) {
        for (unsigned i = 0; i < 1000 && !done(); ++i) reactor.run_once(Reactor::Sleep::yes);
        return done();
    }
};

}  // namespace mqblk::test
