// SPDX-License-Identifier: Apache-2.0
#include "device/srp/login.h"

#include <algorithm>

namespace mqblk::device::srp {

using wire::srp::LoginRej;
using wire::srp::LoginReq;
using wire::srp::LoginRsp;
using wire::srp::RejectReason;

namespace {

/// Where immediate data may begin: behind any command with its descriptor, and with room left.
std::optional<std::uint16_t> agree_on_immediate(const LoginReq& request) noexcept {
    constexpr std::uint16_t least = sizeof(wire::srp::Cmd) + sizeof(wire::srp::ImmediateHeader), most = 512;
    if ((request.req_flags & wire::srp::flag_immediate) == 0) return {};
    const std::uint16_t offset = request.imm_data_offset;
    if (offset < least || offset > most || offset >= request.req_it_iu_len) return {};
    return offset;
}

}  // namespace

std::expected<LoginGrant, RejectReason> decide_login(const LoginReq& request, const LoginRules& rules,
                                                     unsigned channels) {
    if (request.req_it_iu_len < wire::srp::min_it_iu_bytes || request.req_it_iu_len > rules.max_it_iu_bytes)
        return std::unexpected(RejectReason::iu_too_large);
    if (!(request.target_port == rules.target_port)) return std::unexpected(RejectReason::unable_to_associate);
    if ((request.req_buf_fmt & ~wire::srp::formats_known) != 0)
        return std::unexpected(RejectReason::unsupported_format);
    const std::uint8_t action = request.req_flags & wire::srp::multichannel_mask;
    if (action != wire::srp::multichannel_single && action != wire::srp::multichannel_multi)
        return std::unexpected(RejectReason::multichannel_unsupported);
    const bool allowed =
        rules.allowed.empty() || std::ranges::find(rules.allowed, request.initiator_port) != rules.allowed.end();
    const bool full = action == wire::srp::multichannel_multi && channels >= rules.max_channels;
    if (!allowed || full) return std::unexpected(RejectReason::channel_limit);

    LoginGrant grant;
    grant.it_iu_bytes = request.req_it_iu_len;
    grant.immediate_offset = agree_on_immediate(request);
    grant.ends_others = action == wire::srp::multichannel_single && channels > 0;
    LoginRsp& answer = grant.answer;
    answer.tag = request.tag;
    answer.req_lim_delta = rules.queue_depth;
    answer.max_it_iu_len = rules.max_it_iu_bytes;
    answer.max_ti_iu_len = rules.max_ti_iu_bytes;
    answer.buf_fmt = wire::srp::formats_known;
    if (channels > 0)
        answer.rsp_flags = grant.ends_others ? wire::srp::result_terminated : wire::srp::result_maintained;
    if (grant.immediate_offset) answer.rsp_flags |= wire::srp::flag_immediate;
    return grant;
}

LoginRej make_rejection(be64 tag, RejectReason reason) noexcept {
    LoginRej rejection;
    rejection.reason = static_cast<std::uint32_t>(reason);
    rejection.tag = tag;
    rejection.buf_fmt = wire::srp::formats_known;
    return rejection;
}

}  // namespace mqblk::device::srp
