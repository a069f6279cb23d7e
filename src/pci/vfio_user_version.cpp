// SPDX-License-Identifier: Apache-2.0
#include "pci/vfio_user_version.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <string>
#include <string_view>

namespace mqblk::pci {

namespace {

using wire::vfio_user::Version;
using Json = nlohmann::json;

/// Text of capabilities is short; more than this is no honest peer's.
constexpr std::size_t max_text_bytes = 4096;
/// Deeper than any that the specification has: capabilities, twin_socket.
constexpr int max_depth = 8;
/// A page. Fewer bytes at once are nobody's need and would make thousands of messages of one transfer.
constexpr std::uint32_t least_transfer_bytes = 4096;
constexpr const char* posted_writes_name = "mqblk_posted_writes";

/// Null where the text is no JSON, or nested without end.
Json parse(std::string_view text) {
    bool too_deep = false;
    const auto watch = [&too_deep](int depth, Json::parse_event_t, Json&) {
        too_deep |= depth > max_depth;
        return !too_deep;
    };
    Json json = Json::parse(text, watch, false);
    return json.is_discarded() || too_deep ? Json(nullptr) : json;
}

bool take_number(const Json& from, const char* name, std::uint32_t low, std::uint32_t& value) {
    const auto found = from.find(name);
    if (found == from.end()) return true;
    if (!found->is_number_integer()) return false;
    if (found->is_number_unsigned() && found->get<std::uint64_t>() > UINT32_MAX) {
        value = UINT32_MAX;
        return true;
    }
    if (found->get<std::int64_t>() < low) return false;
    value = found->get<std::uint32_t>();
    return true;
}

}  // namespace

std::vector<std::byte> encode_version(const VfioUserVersion& version) {
    Json capabilities{{"max_msg_fds", version.max_fds},
                      {"max_data_xfer_size", version.max_transfer_bytes},
                      {"max_dma_maps", version.max_dma_maps},
                      {"pgsizes", 4096},
                      {"write_multiple", version.write_multiple}};
    if (version.posted_writes != 0) capabilities[posted_writes_name] = version.posted_writes;
    const std::string text = Json{{"capabilities", std::move(capabilities)}}.dump();
    std::vector<std::byte> payload(sizeof(Version) + text.size() + 1);
    const Version head{version.major, version.minor};
    std::memcpy(payload.data(), &head, sizeof head);
    std::memcpy(payload.data() + sizeof head, text.c_str(), text.size() + 1);
    return payload;
}

Result<VfioUserVersion> decode_version(std::span<const std::byte> payload) {
    Version head{};
    if (payload.size() < sizeof head || payload.size() > sizeof head + max_text_bytes) {
        return fail(Errc::protocol, fmt::format("version message of {} bytes", payload.size()));
    }
    std::memcpy(&head, payload.data(), sizeof head);
    VfioUserVersion version{.major = head.major, .minor = head.minor};
    const auto text = payload.subspan(sizeof head);
    if (text.empty()) return version;
    if (text.back() != std::byte{0}) return fail(Errc::protocol, "version text that does not end");
    const Json json = parse(std::string_view(reinterpret_cast<const char*>(text.data())));
    if (!json.is_object()) return fail(Errc::protocol, "version text that is no JSON object");
    const auto capabilities = json.find("capabilities");
    if (capabilities == json.end()) return version;
    if (!capabilities->is_object()) return fail(Errc::protocol, "capabilities that are no JSON object");
    if (!take_number(*capabilities, "max_msg_fds", 0, version.max_fds) ||
        !take_number(*capabilities, "max_data_xfer_size", least_transfer_bytes, version.max_transfer_bytes) ||
        !take_number(*capabilities, "max_dma_maps", 1, version.max_dma_maps) ||
        !take_number(*capabilities, posted_writes_name, 0, version.posted_writes)) {
        return fail(Errc::protocol, "a capability that is no sensible number");
    }
    if (const auto multi = capabilities->find("write_multiple"); multi != capabilities->end()) {
        version.write_multiple = multi->is_boolean() && multi->get<bool>();
    }
    return version;
}

}  // namespace mqblk::pci
