// SPDX-License-Identifier: Apache-2.0
//
// SHA-1 here names things; it protects nothing.
#include "device/nvme/identity.h"

#include "base/endian.h"
#include "wire/nvme_fabrics.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <span>

namespace mqblk::device::nvme {

namespace {

void sha1_block(std::array<std::uint32_t, 5>& state, const std::uint8_t* block) noexcept {
    std::array<std::uint32_t, 80> w;
    for (std::size_t i = 0; i < 16; ++i) {
        be32 word;
        std::memcpy(&word, block + 4 * i, 4);
        w[i] = word;
    }
    for (std::size_t i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    auto [a, b, c, d, e] = state;
    for (std::size_t i = 0; i < 80; ++i) {
        std::uint32_t f = 0, k = 0;
        if (i < 20) {
            f = (b & c) | (~b & d), k = 0x5a827999;
        } else if (i < 40) {
            f = b ^ c ^ d, k = 0x6ed9eba1;
        } else if (i < 60) {
            f = (b & c) | (b & d) | (c & d), k = 0x8f1bbcdc;
        } else {
            f = b ^ c ^ d, k = 0xca62c1d6;
        }
        const std::uint32_t next = std::rotl(a, 5) + f + e + k + w[i];
        e = d, d = c, c = std::rotl(b, 30), b = a, a = next;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e;
}

/// FIPS 180-4, section 6.1.
std::array<std::uint8_t, 20> sha1(std::string_view message) {
    std::string padded(message);
    padded.push_back('\x80');
    while (padded.size() % 64 != 56) padded.push_back('\0');
    const be64 bits = std::uint64_t{message.size()} * 8;
    padded.append(reinterpret_cast<const char*>(&bits), sizeof bits);

    std::array<std::uint32_t, 5> state{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    for (std::size_t at = 0; at < padded.size(); at += 64) {
        sha1_block(state, reinterpret_cast<const std::uint8_t*>(padded.data()) + at);
    }
    std::array<std::uint8_t, 20> digest;
    for (std::size_t i = 0; i < state.size(); ++i) {
        const be32 word = state[i];
        std::memcpy(digest.data() + 4 * i, &word, 4);
    }
    return digest;
}

std::string hex(std::span<const std::uint8_t> bytes) {
    std::string text;
    for (const std::uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
    return text;
}

int hex_digit(char c) noexcept {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

}  // namespace

Uuid derive_uuid(std::string_view subsystem_nqn, std::uint32_t nsid, std::string_view uri) {
    // The name space is RFC 4122's for URLs.
    static constexpr std::string_view url_space("\x6b\xa7\xb8\x11\x9d\xad\x11\xd1\x80\xb4\x00\xc0\x4f\xd4\x30\xc8", 16);
    const auto digest = sha1(fmt::format("{}{}#{}#{}", url_space, subsystem_nqn, nsid, uri));
    Uuid uuid;
    std::memcpy(uuid.data(), digest.data(), uuid.size());
    uuid[6] = static_cast<std::uint8_t>((uuid[6] & 0x0f) | 0x50);
    uuid[8] = static_cast<std::uint8_t>((uuid[8] & 0x3f) | 0x80);
    return uuid;
}

std::string uuid_text(const Uuid& uuid) {
    std::string text = hex(uuid);
    for (const std::size_t at : {8, 13, 18, 23}) text.insert(at, 1, '-');
    return text;
}

std::string nguid_text(const Uuid& nguid) {
    return hex(nguid);
}

Result<Uuid> parse_uuid(std::string_view what, std::string_view text) {
    Uuid uuid{};
    std::size_t digits = 0;
    for (const char c : text) {
        if (c == '-') continue;
        const int value = hex_digit(c);
        if (value < 0 || digits == 32) {
            digits = 0;
            break;
        }
        std::uint8_t& byte = uuid[digits / 2];
        byte = static_cast<std::uint8_t>(byte << 4 | value);
        ++digits;
    }
    if (digits != 32) {
        return fail(Errc::invalid_argument,
                    fmt::format("{} '{}' is not 32 hexadecimal digits, with or without dashes", what, text));
    }
    return uuid;
}

std::string derive_serial(std::string_view subsystem_nqn) {
    const auto digest = sha1(subsystem_nqn);
    return hex(std::span(digest).first(10));
}

}  // namespace mqblk::device::nvme
