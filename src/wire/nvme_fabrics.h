// SPDX-License-Identifier: Apache-2.0
//
// What NVMe over Fabrics adds to NVMe: Connect, Disconnect, the properties that stand for a controller's registers,
// and the discovery log. NVMe over Fabrics 1.1: sections 3 (commands), 3.5 (properties), 5 (discovery); property
// layouts from NVMe 1.4, section 3.1.
#pragma once

#include "wire/nvme.h"

#include <array>
#include <optional>
#include <span>
#include <string_view>

namespace mqblk::wire::nvme {

/// Values of byte 4 of a fabrics command.
namespace fabrics_type {
inline constexpr std::uint8_t property_set = 0x00;
inline constexpr std::uint8_t connect = 0x01;
inline constexpr std::uint8_t property_get = 0x04;
inline constexpr std::uint8_t authentication_send = 0x05;
inline constexpr std::uint8_t authentication_receive = 0x06;
inline constexpr std::uint8_t disconnect = 0x08;
}  // namespace fabrics_type

/// Byte 4 is the low byte of the namespace identifier's place.
[[nodiscard]] constexpr std::uint8_t fabrics_type_of(const Command& command) noexcept {
    return static_cast<std::uint8_t>(command.namespace_id & 0xff);
}

inline constexpr std::uint16_t controller_id_dynamic = 0xffff;
inline constexpr std::uint16_t controller_id_static_any = 0xfffe;
inline constexpr std::size_t nqn_max_chars = 223;
inline constexpr std::size_t nqn_field_bytes = 256;
inline constexpr std::string_view discovery_nqn = "nqn.2014-08.org.nvmexpress.discovery";

/// Connect command, figure 19.
struct ConnectCommand {
    std::uint8_t opcode = admin_opcode::fabrics;
    std::uint8_t flags = flag_psdt_sgl;
    le16 command_id;
    std::uint8_t type = fabrics_type::connect;
    std::uint8_t reserved5[19] = {};
    Sgl data;
    le16 record_format;  ///< 0
    le16 queue_id;       ///< 0: admin
    le16 sq_size;        ///< zero-based
    std::uint8_t attributes = 0;
    std::uint8_t reserved47 = 0;
    le32 keep_alive_ms;  ///< admin queue only
    std::uint8_t reserved52[12] = {};
};
static_assert(sizeof(ConnectCommand) == sizeof(Command));
static_assert(offsetof(ConnectCommand, record_format) == 40 && offsetof(ConnectCommand, queue_id) == 42);
static_assert(offsetof(ConnectCommand, sq_size) == 44 && offsetof(ConnectCommand, attributes) == 46);
static_assert(offsetof(ConnectCommand, keep_alive_ms) == 48);
inline constexpr std::uint8_t connect_disable_flow_control = 1u << 2;  ///< ConnectCommand::attributes

/// The 1024 bytes that a Connect carries, figure 20.
struct ConnectData {
    std::array<std::uint8_t, 16> host_id{};
    le16 controller_id;
    std::uint8_t reserved18[238] = {};
    std::array<char, nqn_field_bytes> subsystem_nqn{};
    std::array<char, nqn_field_bytes> host_nqn{};
    std::uint8_t reserved768[256] = {};
};
static_assert(sizeof(ConnectData) == 1024);
static_assert(offsetof(ConnectData, controller_id) == 16 && offsetof(ConnectData, subsystem_nqn) == 256);
static_assert(offsetof(ConnectData, host_nqn) == 512);

/// DW0 of a successful Connect: controller id in bits 15:0, authentication wanted in bits 31:16.
inline constexpr std::uint32_t connect_authentication_mask = 0xffff0000;

/// DW0 of a Connect that failed with connect_invalid_parameters: which field is to blame.
[[nodiscard]] constexpr std::uint32_t connect_invalid_in_command(std::size_t offset) noexcept {
    return static_cast<std::uint32_t>(offset);
}
[[nodiscard]] constexpr std::uint32_t connect_invalid_in_data(std::size_t offset) noexcept {
    return static_cast<std::uint32_t>(offset) | 1u << 16;
}

/// Property Get and Property Set, figures 26 and 28. The value of a Get comes back in Completion::result.
struct PropertyCommand {
    std::uint8_t opcode = admin_opcode::fabrics;
    std::uint8_t flags = flag_psdt_sgl;
    le16 command_id;
    std::uint8_t type = fabrics_type::property_get;
    std::uint8_t reserved5[35] = {};
    std::uint8_t attributes = 0;  ///< bits 2:0: 0 = 4 bytes, 1 = 8 bytes
    std::uint8_t reserved41[3] = {};
    le32 offset;
    le64 value;  ///< Set only
    std::uint8_t reserved56[8] = {};
};
static_assert(sizeof(PropertyCommand) == sizeof(Command));
static_assert(offsetof(PropertyCommand, attributes) == 40 && offsetof(PropertyCommand, offset) == 44);
static_assert(offsetof(PropertyCommand, value) == 48);

/// Offsets of the properties that exist on fabrics.
namespace property {
inline constexpr std::uint32_t cap = 0x00;  ///< 8 bytes; the others 4
inline constexpr std::uint32_t vs = 0x08;
inline constexpr std::uint32_t cc = 0x14;
inline constexpr std::uint32_t csts = 0x1c;
inline constexpr std::uint32_t nssr = 0x20;
}  // namespace property

/// Controller Capabilities (CAP): the fields that have a meaning on fabrics.
namespace cap {
inline constexpr std::uint64_t queues_contiguous = 1ull << 16;
inline constexpr std::uint64_t css_nvm = 1ull << 37;
inline constexpr std::uint64_t css_csi = 1ull << 43;
[[nodiscard]] constexpr std::uint64_t max_queue_entries(std::uint32_t entries) noexcept {
    return entries - 1;
}
[[nodiscard]] constexpr std::uint64_t ready_timeout(std::uint32_t half_seconds) noexcept {
    return std::uint64_t{half_seconds} << 24;
}
[[nodiscard]] constexpr std::uint32_t queue_entries_of(std::uint64_t value) noexcept {
    return static_cast<std::uint32_t>(value & 0xffff) + 1;
}
[[nodiscard]] constexpr std::uint32_t ready_timeout_ms_of(std::uint64_t value) noexcept {
    return static_cast<std::uint32_t>(value >> 24 & 0xff) * 500;
}
[[nodiscard]] constexpr std::uint32_t min_page_shift_of(std::uint64_t value) noexcept {
    return static_cast<std::uint32_t>(value >> 48 & 0xf) + 12;
}
}  // namespace cap

/// Controller Configuration (CC).
namespace cc {
inline constexpr std::uint32_t enable = 1;
inline constexpr std::uint32_t css_mask = 7u << 4;
inline constexpr std::uint32_t css_nvm = 0;
inline constexpr std::uint32_t css_csi = 6u << 4;
inline constexpr std::uint32_t page_size_mask = 0xfu << 7;
inline constexpr std::uint32_t arbitration_mask = 7u << 11;
inline constexpr std::uint32_t shutdown_mask = 3u << 14;
inline constexpr std::uint32_t shutdown_normal = 1u << 14;
inline constexpr std::uint32_t shutdown_abrupt = 2u << 14;
inline constexpr std::uint32_t entry_sizes_mask = 0xffu << 16;
inline constexpr std::uint32_t entry_sizes = 6u << 16 | 4u << 20;  ///< IOSQES 64 bytes, IOCQES 16 bytes
}  // namespace cc

/// Controller Status (CSTS).
namespace csts {
inline constexpr std::uint32_t ready = 1;
inline constexpr std::uint32_t fatal = 1u << 1;
inline constexpr std::uint32_t shutdown_mask = 3u << 2;
inline constexpr std::uint32_t shutdown_occurring = 1u << 2;
inline constexpr std::uint32_t shutdown_complete = 2u << 2;
}  // namespace csts

inline constexpr std::uint32_t version_1_4 = 0x00010400;

/// Discovery log page entry, figure 38; the page is a DiscoveryHeader and then these.
struct DiscoveryEntry {
    std::uint8_t transport = 0;
    std::uint8_t address_family = 0;
    std::uint8_t subsystem_type = 0;
    std::uint8_t requirements = 0;  ///< TREQ: bits 1:0 secure channel, bit 2 SQ flow control may be disabled
    le16 port_id;
    le16 controller_id;
    le16 admin_queue_size;
    std::uint8_t reserved10[22] = {};
    std::array<char, 32> service_id{};  ///< padded with spaces or zeroes
    std::uint8_t reserved64[192] = {};
    std::array<char, nqn_field_bytes> subsystem_nqn{};
    std::array<char, 256> address{};
    std::array<std::uint8_t, 256> transport_specific{};  ///< TCP: byte 0 security type
};
static_assert(sizeof(DiscoveryEntry) == 1024);
static_assert(offsetof(DiscoveryEntry, service_id) == 32 && offsetof(DiscoveryEntry, subsystem_nqn) == 256);
static_assert(offsetof(DiscoveryEntry, address) == 512 && offsetof(DiscoveryEntry, transport_specific) == 768);

struct DiscoveryHeader {
    le64 generation;
    le64 records;
    le16 record_format;
    std::uint8_t reserved18[1006] = {};
};
static_assert(sizeof(DiscoveryHeader) == 1024);

namespace transport_type {
inline constexpr std::uint8_t rdma = 1, fibre_channel = 2, tcp = 3, loop = 254;
}
namespace address_family {
inline constexpr std::uint8_t none = 0, ipv4 = 1, ipv6 = 2, infiniband = 3, fibre_channel = 4;
}
namespace subsystem_type {
inline constexpr std::uint8_t discovery = 1, nvme = 2, current_discovery = 3;
}
namespace discovery_requirement {
inline constexpr std::uint8_t secure_channel_mask = 3, secure_channel_required = 1, secure_channel_not_required = 2,
                              flow_control_may_be_off = 4;
}

/// The name in an NQN field: 1 to 223 characters before a NUL, none of them a control character; nothing otherwise.
[[nodiscard]] inline std::optional<std::string_view> nqn_of(std::span<const char, nqn_field_bytes> field) noexcept {
    const std::string_view whole(field.data(), field.size());
    const auto end = whole.find('\0');
    if (end == std::string_view::npos || end == 0 || end > nqn_max_chars) return std::nullopt;
    for (const char c : whole.substr(0, end)) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return std::nullopt;
    }
    return whole.substr(0, end);
}

/// Text of a fixed field padded with zeroes or spaces.
template <std::size_t Bytes>
[[nodiscard]] std::string_view text_of(const std::array<char, Bytes>& field) noexcept {
    std::string_view text(field.data(), Bytes);
    text = text.substr(0, text.find('\0'));
    const auto last = text.find_last_not_of(' ');
    return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

/// Puts `text` into a fixed field, cut to fit (leaving room for a NUL if the padding is NUL), rest filled with
/// `padding`.
template <std::size_t Bytes>
constexpr void set_text(std::array<char, Bytes>& field, std::string_view text, char padding) noexcept {
    const std::size_t room = padding == '\0' ? Bytes - 1 : Bytes;
    for (std::size_t i = 0; i < Bytes; ++i) field[i] = i < text.size() && i < room ? text[i] : padding;
}

}  // namespace mqblk::wire::nvme
