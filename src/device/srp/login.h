// SPDX-License-Identifier: Apache-2.0
//
// What a target answers to a login: accepted with the first credits, or rejected for one of the standard's reasons.
// Pure: who is logged in already is told by the caller. SRP rev. 16a, 5.5; immediate data as of SRP-2.
#pragma once

#include "wire/srp.h"

#include <cstdint>
#include <expected>
#include <optional>
#include <vector>

namespace mqblk::device::srp {

/// What a target offers to those who log in.
struct LoginRules {
    wire::srp::PortId target_port{};
    std::vector<wire::srp::PortId> allowed{};  ///< initiator ports; none: everyone
    std::uint32_t queue_depth = 128;           ///< credits of a channel
    std::uint32_t max_it_iu_bytes = 8276;      ///< of the longest unit taken: 8 KiB of immediate data
    std::uint32_t max_ti_iu_bytes = 128;       ///< of the longest unit sent
    unsigned max_channels = 64;                ///< of one initiator
};

struct LoginGrant {
    wire::srp::LoginRsp answer;
    std::uint32_t it_iu_bytes = 0;                    ///< of the longest unit that this initiator sends
    std::optional<std::uint16_t> immediate_offset{};  ///< where immediate data begin; nothing: none are agreed on
    bool ends_others = false;                         ///< the other channels of this initiator are to end
};

/// `channels`: of this initiator, now.
[[nodiscard]] std::expected<LoginGrant, wire::srp::RejectReason> decide_login(const wire::srp::LoginReq&,
                                                                              const LoginRules&, unsigned channels);
[[nodiscard]] wire::srp::LoginRej make_rejection(be64 tag, wire::srp::RejectReason) noexcept;

}  // namespace mqblk::device::srp
