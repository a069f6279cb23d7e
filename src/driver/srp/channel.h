// SPDX-License-Identifier: Apache-2.0
//
// Channel: one connection to a target: its queue pair, the login, the request limit, memory of the units that travel.
// Units are sent from slots; a slot is free again when what was sent from it has left. Requests of the target are
// answered here. One thread. SRP rev. 16a.
#pragma once

#include "driver/srp/mapper.h"
#include "driver/srp/options.h"
#include "fabric/rdma/queue_pair.h"
#include "memory/buffer.h"
#include "wire/srp.h"

#include <mqblk/error.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mqblk::driver::srp {

/// What a channel tells its owner.
class ChannelEvents {
  public:
    /// Logged in.
    virtual void channel_live() noexcept = 0;
    /// It has ended, or could not begin. Once, as the last thing that the channel does: it may be destroyed.
    virtual void channel_lost(const Error& why) noexcept = 0;
    /// An answer came: to a command or to task management.
    virtual void answered(const wire::srp::RspView&) noexcept = 0;
    /// There are more credits, or a slot has come free.
    virtual void may_send() noexcept = 0;

  protected:
    ~ChannelEvents() = default;
};

class Channel final : private fabric::rdma::QueuePairHandler {
  public:
    /// `slots`: of the owner. `keep_others`: other channels of the same initiator stay.
    Channel(fabric::rdma::Network&, Reactor&, const fabric::Address&, const Options&, unsigned slots, bool keep_others,
            ChannelEvents&);
    ~Channel();
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;

    [[nodiscard]] bool live() const noexcept { return live_; }
    [[nodiscard]] Mapper& mapper() noexcept { return *mapper_; }
    [[nodiscard]] fabric::rdma::QueuePair& queue_pair() noexcept { return *queue_pair_; }
    /// Of the longest unit that may be sent.
    [[nodiscard]] std::uint32_t unit_bytes() const noexcept { return unit_bytes_; }
    [[nodiscard]] bool immediate() const noexcept { return immediate_; }

    /// One credit is held back for task management.
    [[nodiscard]] bool has_credit() const noexcept { return credits_ > 1; }
    [[nodiscard]] bool has_task_credit() const noexcept { return credits_ > 0; }
    [[nodiscard]] bool slot_is_free(unsigned slot) const noexcept { return !sending_[slot]; }
    [[nodiscard]] std::span<std::byte> unit(unsigned slot) noexcept {
        return {send_memory_.data() + std::size_t{slot} * send_stride_, send_stride_};
    }
    /// A command or task management, which takes a credit. False: it was not sent.
    [[nodiscard]] bool send(unsigned slot, std::uint32_t bytes) noexcept;

    /// Returns how much happened.
    unsigned poll() noexcept;
    [[nodiscard]] bool prepare_sleep() noexcept { return !fault_ && (completions_ == nullptr || completions_->arm()); }

    /// The owner finds it at fault: channel_lost() comes from the next poll().
    void break_off(std::string why) noexcept;

  private:
    static constexpr unsigned reply_slots = 4;
    static constexpr std::int64_t least_credits = 2;  ///< of a login: one for a command, one for task management

    void resolved() noexcept override;
    void accepted(std::span<const std::byte> private_data) noexcept override;
    void rejected(std::uint16_t reason, std::span<const std::byte> private_data) noexcept override;
    void failed(const Error&) noexcept override;
    void disconnected() noexcept override;

    [[nodiscard]] Result<> prepare();
    [[nodiscard]] Result<> take_login(std::span<const std::byte> private_data);
    void lose(Error why) noexcept;
    void received(unsigned index, std::uint32_t bytes) noexcept;
    void take_unit(std::span<const std::byte> unit) noexcept;
    void add_credits(std::uint32_t delta) noexcept;
    template <class Reply>
    void reply(const Reply&) noexcept;
    [[nodiscard]] bool post_receive(unsigned index) noexcept;

    const Options& options_;
    const fabric::Address address_;
    const unsigned slots_;
    const bool keep_others_;
    ChannelEvents& events_;
    std::shared_ptr<fabric::rdma::Domain> domain_;
    std::unique_ptr<fabric::rdma::CompletionQueue> completions_;
    memory::Buffer send_memory_, receive_memory_;
    std::uint32_t send_key_ = 0, receive_key_ = 0;
    std::uint32_t send_stride_ = 0, receive_stride_ = 0;
    std::unique_ptr<Mapper> mapper_;
    std::unique_ptr<fabric::rdma::QueuePair> queue_pair_;
    std::vector<bool> sending_;  ///< by slot, those of replies last
    unsigned receives_ = 0;
    std::int64_t credits_ = 0;
    std::uint32_t unit_bytes_ = 0;
    bool immediate_ = false, live_ = false, ended_ = false;
    bool more_ = false;  ///< something came that the owner may send for
    std::optional<Error> fault_;
};

/// Of a channel that does what `options` say.
[[nodiscard]] MapperShape mapper_shape(const Options&, unsigned slots) noexcept;

}  // namespace mqblk::driver::srp
