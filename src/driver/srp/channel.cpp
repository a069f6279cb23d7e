// SPDX-License-Identifier: Apache-2.0
#include "driver/srp/channel.h"

#include "base/log.h"
#include "reactor/reactor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace mqblk::driver::srp {

using namespace wire::srp;
namespace rdma = fabric::rdma;

namespace {

constexpr std::uint32_t longest_answer = 4096;  // that memory is given for
constexpr std::uint32_t shortest_answer = sizeof(Rsp);
constexpr std::int64_t most_credits = 1 << 20;
constexpr std::uint64_t receive_id = 1ull << 32;  // an error does not tell what it was

std::uint32_t longest_unit(const Options& options) noexcept {
    const std::uint32_t indirect = indirect_unit_bytes(options.cmd_sg_entries);
    return options.use_imm_data ? std::max(indirect, linux_immediate_offset + options.max_imm_data) : indirect;
}

}  // namespace

MapperShape mapper_shape(const Options& options, unsigned slots) noexcept {
    return {.slots = slots,
            .table_entries = std::max(options.indirect_sg_entries, options.cmd_sg_entries),
            .max_bytes = std::uint64_t{options.max_sect} * 512,
            .prefer_fast = options.prefer_fr};
}

Channel::Channel(rdma::Network& network, Reactor& reactor, const fabric::Address& address, const Options& options,
                 unsigned slots, bool keep_others, ChannelEvents& events)
    : options_(options),
      address_(address),
      slots_(slots),
      keep_others_(keep_others),
      events_(events),
      sending_(slots + reply_slots) {
    queue_pair_ = network.open(reactor, address, *this, options.login_bound);
}

Channel::~Channel() {
    if (mapper_ != nullptr) mapper_->unmap_all(*queue_pair_);
    mapper_.reset();
    queue_pair_.reset();
    completions_.reset();
    if (send_key_ != 0) domain_->unregister(send_key_);
    if (receive_key_ != 0) domain_->unregister(receive_key_);
}

Result<> Channel::prepare() {
    domain_ = queue_pair_->domain();
    send_stride_ = (longest_unit(options_) + 63) & ~63u;
    auto memory = memory::Buffer::allocate(std::size_t{slots_ + reply_slots} * send_stride_);
    if (!memory) return std::unexpected(memory.error());
    send_memory_ = std::move(*memory);
    send_key_ = domain_->register_range(send_memory_.data(), send_memory_.size(), 0);
    if (send_key_ == 0) return fail(Errc::no_space, "the RDMA device registers no memory for commands");
    const MapperShape shape = mapper_shape(options_, slots_);
    auto mapper = Mapper::create(domain_, shape);
    if (!mapper) return std::unexpected(mapper.error());
    mapper_ = std::move(*mapper);
    receives_ = slots_ + 2;
    const rdma::QueuePairShape queues{
        .max_sends = std::min(slots_ * (2 + Mapper::work_requests(domain_->limits(), shape)) + reply_slots,
                              domain_->limits().max_work_requests),
        .max_receives = receives_,
        .max_send_pieces = 1,
        .max_receive_pieces = 1};
    auto completions = domain_->make_completion_queue(queues.max_sends + queues.max_receives);
    if (!completions) return std::unexpected(completions.error());
    completions_ = std::move(*completions);
    return queue_pair_->create(queues, *completions_);
}

void Channel::resolved() noexcept {
    if (auto ok = prepare(); !ok) return lose(ok.error().in(address_.to_string()));
    LoginReq login;
    login.tag = 1;
    login.req_it_iu_len = longest_unit(options_);
    login.req_buf_fmt = formats_known;
    login.req_flags = keep_others_ ? multichannel_multi : multichannel_single;
    if (options_.use_imm_data) {
        login.req_flags |= flag_immediate;
        login.imm_data_offset = linux_immediate_offset;
    }
    login.initiator_port = options_.initiator_port;
    login.target_port = options_.target_port;
    const LoginReqRdma request = to_rdma_cm(login);
    queue_pair_->connect({.private_data = std::as_bytes(std::span(&request, 1)),
                          .retry_count = static_cast<std::uint8_t>(options_.tl_retry_count)},
                         options_.login_bound);
}

Result<> Channel::take_login(std::span<const std::byte> private_data) {
    const auto answer = decode_login_rsp(private_data);
    const auto refuse = [&](std::string_view why) {
        return fail(Errc::protocol,
                    fmt::format("{}: its answer to the login is not sound: {}", address_.to_string(), why));
    };
    if (!answer) return refuse(answer.error());
    if (answer->max_it_iu_len < min_it_iu_bytes) return refuse("it takes no units of 64 bytes");
    if (answer->max_ti_iu_len < shortest_answer) return refuse("it has no room for a response");
    unit_bytes_ = std::min<std::uint32_t>(answer->max_it_iu_len, longest_unit(options_));
    immediate_ = options_.use_imm_data && (answer->rsp_flags & flag_immediate) != 0;
    credits_ = 0;
    add_credits(answer->req_lim_delta);
    if (credits_ < least_credits)
        return refuse("it grants too few credits; a command takes one, and one is kept for aborts");
    receive_stride_ = (std::min<std::uint32_t>(answer->max_ti_iu_len, longest_answer) + 63) & ~63u;
    auto memory = memory::Buffer::allocate(std::size_t{receives_} * receive_stride_);
    if (!memory) return std::unexpected(memory.error());
    receive_memory_ = std::move(*memory);
    receive_key_ = domain_->register_range(receive_memory_.data(), receive_memory_.size(), rdma::access_local_write);
    if (receive_key_ == 0) return fail(Errc::no_space, "the RDMA device registers no memory for answers");
    for (unsigned i = 0; i < receives_; ++i)
        if (!post_receive(i)) return fail(Errc::io, "the RDMA device takes no receives");
    return {};
}

void Channel::accepted(std::span<const std::byte> private_data) noexcept {
    if (auto ok = take_login(private_data); !ok) return lose(ok.error());
    live_ = true;
    events_.channel_live();
}

void Channel::rejected(std::uint16_t reason, std::span<const std::byte> private_data) noexcept {
    const auto answer = decode_login_rej(private_data);
    if (reason == rdma::reject_consumer_defined && answer) {
        const auto why = static_cast<RejectReason>(answer->reason.value());
        return lose(
            Error(Errc::permission_denied, fmt::format("{}: the SRP target rejects the login: {} ({:#x})",
                                                       address_.to_string(), to_words(why), answer->reason.value())));
    }
    lose(Error(Errc::unreachable, fmt::format("{}: the connection was rejected (reason {}); is there an SRP target?",
                                              address_.to_string(), reason)));
}

void Channel::failed(const Error& why) noexcept {
    lose(why);
}

void Channel::disconnected() noexcept {
    lose(Error(Errc::closed, fmt::format("{}: the connection has ended", address_.to_string())));
}

void Channel::lose(Error why) noexcept {
    if (ended_) return;
    ended_ = true;
    live_ = false;
    events_.channel_lost(why);
}

void Channel::break_off(std::string why) noexcept {
    if (!fault_) fault_ = Error(Errc::protocol, fmt::format("{}: {}", address_.to_string(), why));
}

bool Channel::post_receive(unsigned index) noexcept {
    const rdma::LocalPiece piece{.data = receive_memory_.data() + std::size_t{index} * receive_stride_,
                                 .bytes = receive_stride_,
                                 .key = receive_key_};
    return queue_pair_->post_receive(receive_id | index, std::span(&piece, 1));
}

bool Channel::send(unsigned slot, std::uint32_t bytes) noexcept {
    const rdma::LocalPiece piece{.data = unit(slot).data(), .bytes = bytes, .key = send_key_};
    if (!queue_pair_->post_send(slot, std::span(&piece, 1))) return false;
    sending_[slot] = true;
    --credits_;
    return true;
}

template <class Reply>
void Channel::reply(const Reply& what) noexcept {
    for (unsigned slot = slots_; slot < slots_ + reply_slots; ++slot) {
        if (sending_[slot]) continue;
        std::memcpy(unit(slot).data(), &what, sizeof what);
        ++credits_;  // an answer needs none
        if (send(slot, sizeof what)) return;
        --credits_;
        break;
    }
    break_off("the target asks without waiting for answers");
}

unsigned Channel::poll() noexcept {
    if (completions_ == nullptr || ended_) return 0;
    std::array<rdma::WorkCompletion, 32> batch;
    unsigned seen = 0;
    for (unsigned count = 1; count != 0 && seen < 256 && !fault_; seen += count) {
        count = completions_->poll(batch);
        // Once it is at fault, nothing more that it says is believed.
        for (unsigned i = 0; i < count && !fault_; ++i) {
            const rdma::WorkCompletion& each = batch[i];
            if (each.status != rdma::WorkStatus::success) {
                if (each.status != rdma::WorkStatus::flushed)
                    break_off(fmt::format("the connection failed: {}", rdma::to_string(each.status)));
            } else if ((each.id & receive_id) != 0) {
                received(static_cast<unsigned>(each.id & ~receive_id), each.bytes);
            } else if (each.op == rdma::WorkOp::send) {
                sending_[each.id] = false;
                more_ = true;
            }
        }
    }
    if (fault_) {
        lose(*fault_);
        return seen + 1;
    }
    if (more_) {
        more_ = false;
        events_.may_send();
    }
    return seen;
}

void Channel::received(unsigned index, std::uint32_t bytes) noexcept {
    take_unit({receive_memory_.data() + std::size_t{index} * receive_stride_, bytes});
    if (!post_receive(index)) break_off("the RDMA device takes no receives");
}

void Channel::add_credits(std::uint32_t delta) noexcept {
    // Signed, and no more than anybody can use.
    credits_ = std::clamp<std::int64_t>(credits_ + static_cast<std::int32_t>(delta), -most_credits, most_credits);
    more_ = true;
}

void Channel::take_unit(std::span<const std::byte> unit) noexcept {
    const auto bad = [&](std::string_view what, std::string_view why) {
        break_off(fmt::format("{} of the target's is not sound: {}", what, why));
    };
    switch (opcode_of(unit).value_or(Opcode::login_req)) {
        case Opcode::rsp: {
            const auto rsp = decode_rsp(unit);
            if (!rsp) return bad("a response", rsp.error());
            add_credits(rsp->rsp.req_lim_delta);
            return events_.answered(*rsp);
        }
        case Opcode::cred_req: {
            const auto request = decode_cred_req(unit);
            if (!request) return bad("a credit request", request.error());
            add_credits(request->req_lim_delta);
            return reply(Short{.opcode = static_cast<std::uint8_t>(Opcode::cred_rsp), .tag = request->tag});
        }
        case Opcode::aer_req: {
            const auto request = decode_aer_req(unit);
            if (!request) return bad("an event report", request.error());
            add_credits(request->aer.req_lim_delta);
            return reply(Short{.opcode = static_cast<std::uint8_t>(Opcode::aer_rsp), .tag = request->aer.tag});
        }
        case Opcode::t_logout:
            return break_off("the target has logged out");
        default:
            log_limited("srp: unknown unit",
                        fmt::format("{}: an information unit of unknown kind {:#x} is ignored", address_.to_string(),
                                    unit.empty() ? 0 : std::to_integer<unsigned>(unit[0])));
    }
}

}  // namespace mqblk::driver::srp
