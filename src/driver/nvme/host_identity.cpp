// SPDX-License-Identifier: Apache-2.0
#include "driver/nvme/host_identity.h"

#include "wire/nqn.h"
#include "wire/nvme_fabrics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <string_view>

namespace mqblk::driver::nvme {

namespace {

using HostId = std::array<std::uint8_t, 16>;

/// 128 bits that depend on every character: two FNV-1a runs with different beginnings, mixed. Not for secrets.
HostId digest_of(std::string_view text) {
    HostId id{};
    for (unsigned half = 0; half < 2; ++half) {
        std::uint64_t hash = 0xcbf29ce484222325u ^ (half * 0x9e3779b97f4a7c15u);
        for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
        hash ^= hash >> 32;
        hash *= 0xd6e8feb86659fd93u;
        hash ^= hash >> 32;
        for (unsigned i = 0; i < 8; ++i) id[half * 8 + i] = static_cast<std::uint8_t>(hash >> (8 * i));
    }
    id[6] = static_cast<std::uint8_t>((id[6] & 0x0f) | 0x80);  // UUID version 8: made by the implementation
    id[8] = static_cast<std::uint8_t>((id[8] & 0x3f) | 0x80);
    return id;
}

std::string uuid_text(const HostId& id) {
    std::string text;
    for (std::size_t i = 0; i < id.size(); ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        text += fmt::format("{:02x}", id[i]);
    }
    return text;
}

std::optional<HostId> parse_uuid(std::string_view text) {
    if (text.size() != 36) return std::nullopt;
    HostId id{};
    std::size_t digits = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        const char c = text[i];
        if (dash) {
            if (c != '-') return std::nullopt;
            continue;
        }
        const auto value =
            std::string_view("0123456789abcdef").find(static_cast<char>(c >= 'A' && c <= 'F' ? c + 32 : c));
        if (value == std::string_view::npos) return std::nullopt;
        id[digits / 2] = static_cast<std::uint8_t>(id[digits / 2] << 4 | value);
        ++digits;
    }
    return id;
}

std::string machine_and_user() {
    std::string machine;
    std::ifstream file("/etc/machine-id");
    if (!std::getline(file, machine) || machine.empty()) {
        std::array<char, 256> name{};
        if (::gethostname(name.data(), name.size() - 1) == 0) machine = name.data();
    }
    return fmt::format("mqblk host {} {}", machine, ::getuid());
}

}  // namespace

Result<> check_nqn(const std::string& what, const std::string& nqn) {
    const bool printable = std::ranges::all_of(nqn, [](unsigned char c) { return c > 0x20 && c != 0x7f; });
    if (nqn.empty() || nqn.size() > wire::nvme::nqn_max_chars || !printable) {
        return fail(Errc::invalid_argument,
                    fmt::format("{} of {} characters: an NQN has 1 to {} printable characters, such as "
                                "'nqn.2014-08.org.nvmexpress:uuid:…'",
                                what, nqn.size(), wire::nvme::nqn_max_chars));
    }
    return {};
}

Result<HostIdentity> host_identity(const std::string& nqn, const std::string& id) {
    HostIdentity identity;
    identity.nqn = nqn.empty() ? "nqn.2014-08.org.nvmexpress:uuid:" + uuid_text(digest_of(machine_and_user())) : nqn;
    const auto valid = wire::nvme::check_nqn("host NQN", identity.nqn);
    if (!valid) return std::unexpected(valid.error());
    if (id.empty()) {
        identity.id = digest_of(identity.nqn);
        return identity;
    }
    const auto parsed = parse_uuid(id);
    if (!parsed) {
        return fail(Errc::invalid_argument,
                    fmt::format("host identifier '{}' is not a UUID such as 0f9e2c6a-3f6e-8a55-9c1d-6b1f2f2b7a10", id));
    }
    identity.id = *parsed;
    return identity;
}

}  // namespace mqblk::driver::nvme
