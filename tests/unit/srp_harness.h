// SPDX-License-Identifier: Apache-2.0
//
// An SRP target on RDMA in this process, and initiators that send it whatever bytes a test wants.
#pragma once

#include "block/device_core.h"
#include "device/srp/target.h"
#include "driver/ram/ram.h"
#include "fabric/rdma/in_process.h"
#include "memory/buffer.h"
#include "unit/manual_reactor.h"
#include "wire/scsi_cdb.h"
#include "wire/scsi_data.h"
#include "wire/scsi_reservations.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace mqblk::test {

namespace srpw = wire::srp;

using SrpBytes = std::vector<std::byte>;

template <class T>
void append(SrpBytes& bytes, const T& value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), from, from + sizeof value);
}

/// One connection of an initiator.
class SrpInitiator final : public fabric::rdma::QueuePairHandler {
  public:
    static constexpr std::uint32_t receives = 96, receive_bytes = 256, sends = 96, send_bytes = 8704;

    SrpInitiator(fabric::rdma::Network& network, Reactor& reactor) : network_(network), reactor_(reactor) {}
    ~SrpInitiator() {
        qp.reset();
        completions.reset();
    }

    srpw::LoginReq login{.req_it_iu_len = 8276, .req_buf_fmt = srpw::formats_known};
    bool full_login = false;  ///< in InfiniBand CM's form
    std::optional<SrpBytes> raw_login;
    std::optional<srpw::LoginRsp> granted;
    std::optional<srpw::LoginRej> rejection;
    bool failed_ = false, disconnected_ = false;
    std::deque<SrpBytes> answers;
    std::uint32_t credits = 0;
    unsigned send_errors = 0;

    void start() { qp = network_.open(reactor_, {.host = "target"}, *this, std::chrono::seconds(5)); }

    /// A unit as it is. False: the queue pair does not take it.
    bool send(const SrpBytes& unit) {
        if (disconnected_ || unit.size() > send_bytes) return false;
        std::byte* const at = memory.data() + receives * receive_bytes + (next_send_++ % sends) * send_bytes;
        std::copy(unit.begin(), unit.end(), at);
        const fabric::rdma::LocalPiece piece{at, static_cast<std::uint32_t>(unit.size()), key};
        return qp->post_send(1000, {&piece, 1});
    }
    /// Takes what has arrived.
    void poll() {
        if (!completions) return;
        std::array<fabric::rdma::WorkCompletion, 32> batch;
        for (unsigned count; (count = completions->poll(batch)) > 0;) {
            for (unsigned i = 0; i < count; ++i) take(batch[i]);
        }
    }

    fabric::rdma::Domain& domain() { return *qp->domain(); }

    std::unique_ptr<fabric::rdma::CompletionQueue> completions;
    std::unique_ptr<fabric::rdma::QueuePair> qp;
    memory::Buffer memory = *memory::Buffer::allocate(receives * receive_bytes + sends * send_bytes);
    std::uint32_t key = 0;

  private:
    void resolved() noexcept override {
        key = domain().register_range(memory.data(), memory.size(), fabric::rdma::access_local_write);
        completions = std::move(*domain().make_completion_queue(receives + sends));
        ASSERT_TRUE(qp->create({.max_sends = sends, .max_receives = receives}, *completions));
        for (unsigned i = 0; i < receives; ++i) post_receive(i);
        SrpBytes data;
        if (raw_login) {
            data = *raw_login;
        } else if (full_login) {
            append(data, login);
        } else {
            append(data, srpw::to_rdma_cm(login));
        }
        qp->connect({.private_data = data}, std::chrono::seconds(5));
    }
    void accepted(std::span<const std::byte> data) noexcept override {
        granted = srpw::decode_login_rsp(data).value();
        credits = granted->req_lim_delta;
    }
    void rejected(std::uint16_t, std::span<const std::byte> data) noexcept override {
        if (const auto told = srpw::decode_login_rej(data)) rejection = *told;
        failed_ = true;
    }
    void failed(const Error&) noexcept override { failed_ = true; }
    void disconnected() noexcept override { disconnected_ = true; }

    void post_receive(unsigned index) {
        const fabric::rdma::LocalPiece piece{memory.data() + index * receive_bytes, receive_bytes, key};
        EXPECT_TRUE(qp->post_receive(index, {&piece, 1}));
    }
    void take(const fabric::rdma::WorkCompletion& completion) {
        if (completion.status != fabric::rdma::WorkStatus::success) {
            ++send_errors;
            return;
        }
        if (completion.op != fabric::rdma::WorkOp::receive) return;
        const std::byte* const from = memory.data() + completion.id * receive_bytes;
        answers.emplace_back(from, from + completion.bytes);
        be32 delta;
        std::memcpy(static_cast<void*>(&delta), from + 4, sizeof delta);
        credits += delta;
        post_receive(static_cast<unsigned>(completion.id));
    }

    fabric::rdma::Network& network_;
    Reactor& reactor_;
    unsigned next_send_ = 0;
};

struct SrpAnswer {
    srpw::Rsp rsp;
    std::optional<srpw::ResponseCode> code;
    std::optional<wire::scsi::Sense> sense;
    [[nodiscard]] wire::scsi::Status status() const { return static_cast<wire::scsi::Status>(rsp.status); }
};

class SrpWorld {
  public:
    explicit SrpWorld(device::srp::TargetOptions options = {}, std::vector<device::srp::UnitConfig> units = {},
                      fabric::rdma::InProcessOptions network_options = {}, fabric::rdma::Courier* courier = nullptr)
        : network(std::move(network_options), courier) {
        if (units.empty()) {
            units.push_back({.lun = 0, .device = ram(4 << 20)});
            units.push_back({.lun = 300, .device = ram(1 << 20)});
        }
        target = std::move(*device::srp::Target::create(std::move(options), std::move(units)));
        EXPECT_TRUE(target->listen(network, reactor, {.host = "target"}));
    }
    ~SrpWorld() {
        initiators.clear();
        turn_until([&] { return target->connections() == 0; });
        target->stop_listening(reactor);
        target->leave(reactor);
    }
    static std::shared_ptr<Device> ram(std::uint64_t bytes, unsigned block = 512) {
        driver::ram::Options options{.bytes = bytes, .disk = {}};
        options.disk.block = block;
        return *driver::ram::open(options);
    }

    SrpInitiator& add() { return *initiators.emplace_back(std::make_unique<SrpInitiator>(network, reactor)); }
    /// An initiator that is logged in.
    SrpInitiator& connect(std::uint64_t port = 1, std::uint8_t flags = 0, std::uint16_t immediate_offset = 0) {
        SrpInitiator& initiator = add();
        initiator.login.initiator_port.second = port;
        initiator.login.req_flags = flags;
        initiator.login.imm_data_offset = immediate_offset;
        log_in(initiator);
        EXPECT_TRUE(initiator.granted);
        return initiator;
    }
    void log_in(SrpInitiator& initiator) {
        initiator.start();
        EXPECT_TRUE(turn_until([&] { return initiator.granted || initiator.failed_; }));
        turn(20);
    }

    void turn(unsigned passes) {
        for (unsigned i = 0; i < passes; ++i) {
            reactor.run_once(Reactor::Sleep::no);
            for (const auto& initiator : initiators) initiator->poll();
        }
    }
    template <class Done>
    bool turn_until(Done done) {
        for (unsigned i = 0; i < 20000 && !done(); ++i) turn(1);
        return done();
    }

    /// A command without data, or with descriptors behind it.
    static SrpBytes command(const wire::scsi::Cdb& cdb, std::uint64_t tag, unsigned lun = 0, std::uint8_t format = 0,
                            const SrpBytes& descriptors = {}, std::uint8_t out_count = 0, std::uint8_t in_count = 0) {
        srpw::Cmd cmd;
        cmd.buf_fmt = format;
        cmd.data_out_desc_cnt = out_count;
        cmd.data_in_desc_cnt = in_count;
        cmd.tag = tag;
        cmd.lun = srpw::encode_lun(lun);
        cmd.cdb = cdb;
        SrpBytes unit;
        append(unit, cmd);
        unit.insert(unit.end(), descriptors.begin(), descriptors.end());
        return unit;
    }
    static SrpBytes task(srpw::TaskFunction function, std::uint64_t tag, unsigned lun = 0, std::uint64_t of = 0) {
        srpw::TskMgmt request;
        request.tag = tag;
        request.lun = srpw::encode_lun(lun);
        request.function = static_cast<std::uint8_t>(function);
        request.task_tag = of;
        SrpBytes unit;
        append(unit, request);
        return unit;
    }
    /// Sends and waits for the one answer.
    SrpAnswer exchange(SrpInitiator& initiator, const SrpBytes& unit) {
        initiator.answers.clear();
        EXPECT_TRUE(initiator.send(unit));
        return next_answer(initiator);
    }
    SrpAnswer next_answer(SrpInitiator& initiator) {
        EXPECT_TRUE(turn_until([&] { return !initiator.answers.empty() || initiator.disconnected_; }));
        SrpAnswer answer;
        if (initiator.answers.empty()) {
            ADD_FAILURE() << "no answer";
            return answer;
        }
        const SrpBytes bytes = std::move(initiator.answers.front());
        initiator.answers.pop_front();
        const auto view = srpw::decode_rsp(bytes);
        if (!view) {
            ADD_FAILURE() << view.error();
            return answer;
        }
        answer.rsp = view->rsp;
        answer.code = view->code;
        if (!view->sense.empty()) {
            answer.sense = wire::scsi::parse_sense(
                {reinterpret_cast<const std::uint8_t*>(view->sense.data()), view->sense.size()});
        }
        return answer;
    }
    /// A command with one direct descriptor over `data`.
    SrpAnswer run(SrpInitiator& initiator, const wire::scsi::Cdb& cdb, SrpBytes& data, bool out, unsigned lun = 0) {
        const std::uint32_t rkey = initiator.domain().register_range(
            data.data(), data.size(),
            fabric::rdma::access_local_write | fabric::rdma::access_remote_write | fabric::rdma::access_remote_read);
        SrpBytes descriptors;
        append(descriptors, srpw::Descriptor{.address = reinterpret_cast<std::uintptr_t>(data.data()),
                                             .key = rkey,
                                             .bytes = static_cast<std::uint32_t>(data.size())});
        const auto answer = exchange(initiator, command(cdb, 77, lun, out ? 0x10 : 0x01, descriptors));
        initiator.domain().unregister(rkey);
        return answer;
    }
    SrpAnswer run(SrpInitiator& initiator, const wire::scsi::Cdb& cdb, unsigned lun = 0) {
        return exchange(initiator, command(cdb, 78, lun));
    }
    /// Takes the unit attention of a new initiator.
    void attend(SrpInitiator& initiator, unsigned lun = 0) {
        static_cast<void>(run(initiator, wire::scsi::build_test_unit_ready(), lun));
    }

    ManualClock clock;
    SeededRandom random{1};
    ManualReactor reactor{clock, random};
    fabric::rdma::InProcessNetwork network;
    std::unique_ptr<device::srp::Target> target;
    std::vector<std::unique_ptr<SrpInitiator>> initiators;
};

}  // namespace mqblk::test
