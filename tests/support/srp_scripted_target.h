// SPDX-License-Identifier: Apache-2.0
//
// An SRP target that answers as a test says. What an initiator asks when it scans is answered as a disk would; any
// other unit goes to the script, and what the script leaves is answered "good" without moving data. It lives in the
// initiator's reactor, as both ends of RDMA in this process do. One thread.
#pragma once

#include "fabric/rdma/in_process.h"
#include "memory/buffer.h"
#include "reactor/reactor.h"
#include "unit/srp_harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace mqblk::test {

class ScriptedTarget;

/// One connection, from the target's side.
class ScriptedChannel final : public fabric::rdma::QueuePairHandler, private Poller {
  public:
    static constexpr unsigned receives = 128, sends = 128, unit_bytes = 8320;

    ScriptedChannel(ScriptedTarget& target, std::unique_ptr<fabric::rdma::QueuePair> qp);
    ~ScriptedChannel();

    void send(const SrpBytes& unit) {
        std::byte* const at = memory_.data() + (receives + next_send_++ % sends) * unit_bytes;
        std::copy(unit.begin(), unit.end(), at);
        const fabric::rdma::LocalPiece piece{at, static_cast<std::uint32_t>(unit.size()), key_};
        static_cast<void>(qp_->post_send(1000, {&piece, unit.empty() ? 0u : 1u}));
    }
    template <class T>
    void send_unit(const T& unit) {
        SrpBytes bytes;
        append(bytes, unit);
        send(bytes);
    }
    static srpw::Rsp good(std::uint64_t tag, std::int32_t delta = 1) {
        srpw::Rsp rsp;
        rsp.tag = tag;
        rsp.req_lim_delta = static_cast<std::uint32_t>(delta);
        return rsp;
    }
    static SrpBytes task_answer(std::uint64_t tag, srpw::ResponseCode code) {
        srpw::Rsp rsp = good(tag);
        rsp.flags = srpw::rsp_valid;
        rsp.resp_data_len = srpw::response_data_bytes;
        SrpBytes bytes;
        append(bytes, rsp);
        append(bytes, std::array<std::uint8_t, 4>{0, 0, 0, static_cast<std::uint8_t>(code)});
        return bytes;
    }
    void end() { qp_->disconnect(); }
    [[nodiscard]] bool over() const noexcept { return over_; }

  private:
    void make();
    void answer_scan(const srpw::Cmd&, const SrpBytes& unit);
    void take(const SrpBytes& unit);
    void disconnected() noexcept override { over_ = true; }
    void orphaned() noexcept override;
    unsigned poll() noexcept override;
    bool prepare_sleep() noexcept override { return completions_->arm(); }

    ScriptedTarget& target_;
    std::unique_ptr<fabric::rdma::CompletionQueue> completions_;
    std::unique_ptr<fabric::rdma::QueuePair> qp_;
    memory::Buffer memory_ = *memory::Buffer::allocate(std::size_t{receives + sends} * unit_bytes);
    std::uint32_t key_ = 0;
    unsigned next_send_ = 0;
    bool over_ = false;
    friend class ScriptedTarget;
};

class ScriptedTarget {
  public:
    /// False: the answer shall be "good".
    using Script = std::function<bool(ScriptedChannel&, const SrpBytes& unit)>;

    ScriptedTarget(fabric::rdma::Network& network, Reactor& reactor) : network_(network), reactor_(reactor) {
        login.req_lim_delta = 63;
        login.max_it_iu_len = 8276;
        login.max_ti_iu_len = 1024;
        login.buf_fmt = srpw::formats_known;
        login.rsp_flags = srpw::result_maintained;
    }
    void listen() {
        auto made = network_.listen(reactor_, {.host = "target"}, [this](auto qp, auto) { requested(std::move(qp)); });
        ASSERT_TRUE(made.has_value());
        listener_ = std::move(*made);
    }
    void stop_listening() { listener_.reset(); }
    void end_all() {
        for (const auto& channel : channels) channel->end();
    }

    srpw::LoginRsp login;
    std::optional<SrpBytes> raw_login;  ///< instead
    std::optional<SrpBytes> rejection;
    Script script;
    unsigned logins = 0;
    std::vector<srpw::Short> replies;  ///< to what the target asked
    std::vector<std::unique_ptr<ScriptedChannel>> channels;

  private:
    friend class ScriptedChannel;
    void requested(std::unique_ptr<fabric::rdma::QueuePair> qp) {
        if (rejection) return qp->reject(*rejection);
        std::erase_if(channels, [](const auto& channel) { return channel->over(); });
        ++logins;
        channels.push_back(std::make_unique<ScriptedChannel>(*this, std::move(qp)));
    }
    fabric::rdma::Network& network_;
    Reactor& reactor_;
    std::unique_ptr<fabric::rdma::QueuePairListener> listener_;
};

inline ScriptedChannel::ScriptedChannel(ScriptedTarget& target, std::unique_ptr<fabric::rdma::QueuePair> qp)
    : target_(target), qp_(std::move(qp)) {
    qp_->set_handler(*this);
    make();
    qp_->reactor().add(*this);
}

inline ScriptedChannel::~ScriptedChannel() {
    qp_->reactor().remove(*this);
    qp_.reset();
}

inline void ScriptedChannel::make() {
    const auto& domain = qp_->domain();
    key_ = domain->register_range(memory_.data(), memory_.size(), fabric::rdma::access_local_write);
    completions_ = std::move(*domain->make_completion_queue(receives + sends));
    ASSERT_TRUE(qp_->create({.max_sends = sends, .max_receives = receives}, *completions_));
    for (unsigned i = 0; i < receives; ++i) {
        const fabric::rdma::LocalPiece piece{memory_.data() + std::size_t{i} * unit_bytes, unit_bytes, key_};
        ASSERT_TRUE(qp_->post_receive(i, {&piece, 1}));
    }
    SrpBytes data;
    append(data, target_.login);
    if (target_.raw_login) data = *target_.raw_login;
    ASSERT_TRUE(qp_->accept({.private_data = data}).has_value());
}

inline void ScriptedChannel::orphaned() noexcept {
    std::erase_if(target_.channels, [this](const auto& channel) { return channel.get() == this; });
}

inline unsigned ScriptedChannel::poll() noexcept {
    std::array<fabric::rdma::WorkCompletion, 32> batch;
    const unsigned count = completions_->poll(batch);
    for (unsigned i = 0; i < count; ++i) {
        if (batch[i].op != fabric::rdma::WorkOp::receive || batch[i].status != fabric::rdma::WorkStatus::success)
            continue;
        std::byte* const from = memory_.data() + batch[i].id * unit_bytes;
        const SrpBytes unit(from, from + batch[i].bytes);
        const fabric::rdma::LocalPiece piece{from, unit_bytes, key_};
        static_cast<void>(qp_->post_receive(batch[i].id, {&piece, 1}));
        take(unit);
    }
    return count;
}

inline void ScriptedChannel::take(const SrpBytes& unit) {
    const auto opcode = srpw::opcode_of(unit).value();
    if (opcode == srpw::Opcode::cred_rsp || opcode == srpw::Opcode::aer_rsp) {
        target_.replies.push_back(*srpw::decode_short(unit));
        return;
    }
    if (opcode == srpw::Opcode::cmd) {
        srpw::Cmd cmd;
        std::memcpy(static_cast<void*>(&cmd), unit.data(), sizeof cmd);
        const std::uint8_t code = cmd.cdb[0];
        if (code == 0x12 || code == 0x9e || code == 0xa0 || code == 0x1a) return answer_scan(cmd, unit);
    }
    if (target_.script && target_.script(*this, unit)) return;
    be64 tag;
    std::memcpy(static_cast<void*>(&tag), unit.data() + 8, sizeof tag);
    if (opcode == srpw::Opcode::tsk_mgmt) return send(task_answer(tag, srpw::ResponseCode::success));
    send_unit(good(tag));
}

/// One disk of 64 MiB at LUN 0, and no pages.
inline void ScriptedChannel::answer_scan(const srpw::Cmd& cmd, const SrpBytes& unit) {
    SrpBytes data;
    if (cmd.cdb[0] == 0xa0) {
        append(data, wire::scsi::LunListHeader{.bytes = 8});
        append(data, be64(0));
    } else if (cmd.cdb[0] == 0x9e) {
        append(data, wire::scsi::Capacity16{.last_lba = (64u << 11) - 1, .block_bytes = 512});
    } else if (cmd.cdb[0] == 0x12 && (cmd.cdb[1] & 1) == 0) {
        append(data, wire::scsi::InquiryData{});
    }
    srpw::Rsp rsp = good(cmd.tag);
    srpw::Descriptor to;
    std::memcpy(static_cast<void*>(&to), unit.data() + sizeof cmd, sizeof to);
    if (data.empty()) {
        rsp.status = static_cast<std::uint8_t>(wire::scsi::Status::check_condition);
        return send_unit(rsp);
    }
    std::byte* const at = memory_.data() + (receives + next_send_++ % sends) * unit_bytes;
    data.resize(std::min<std::size_t>(data.size(), to.bytes));
    std::copy(data.begin(), data.end(), at);
    const fabric::rdma::LocalPiece piece{at, static_cast<std::uint32_t>(data.size()), key_};
    EXPECT_TRUE(qp_->post_write(1000, {&piece, 1}, {.address = to.address, .key = to.key}));
    if (data.size() < to.bytes) {
        rsp.flags = srpw::data_in_underflow;
        rsp.data_in_res_cnt = static_cast<std::uint32_t>(to.bytes - data.size());
    }
    send_unit(rsp);
}

}  // namespace mqblk::test
