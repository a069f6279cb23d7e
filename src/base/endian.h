// SPDX-License-Identifier: Apache-2.0
//
// Integers as they lie on a wire: fixed byte order, no alignment. A struct of them has no padding, so its size and
// offsets are the specification's and can be checked at build time.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mqblk {

template <std::unsigned_integral T, std::endian Order>
class WireInteger {
  public:
    constexpr WireInteger() noexcept = default;
    constexpr WireInteger(T value) noexcept
        : bytes_(std::bit_cast<Bytes>(swap(value))) {}                                // NOLINT: implicit both ways
    constexpr operator T() const noexcept { return swap(std::bit_cast<T>(bytes_)); }  // NOLINT: by design
    [[nodiscard]] constexpr T value() const noexcept { return *this; }

  private:
    using Bytes = std::array<std::byte, sizeof(T)>;
    static constexpr T swap(T value) noexcept {
        if constexpr (Order == std::endian::native) {
            return value;
        } else {
            T result = 0;
            for (std::size_t i = 0; i < sizeof(T); ++i) {
                result = static_cast<T>(static_cast<T>(result << 8) | static_cast<T>((value >> (8 * i)) & 0xff));
            }
            return result;
        }
    }
    Bytes bytes_{};
};

using le16 = WireInteger<std::uint16_t, std::endian::little>;
using le32 = WireInteger<std::uint32_t, std::endian::little>;
using le64 = WireInteger<std::uint64_t, std::endian::little>;
using be16 = WireInteger<std::uint16_t, std::endian::big>;
using be32 = WireInteger<std::uint32_t, std::endian::big>;
using be64 = WireInteger<std::uint64_t, std::endian::big>;

static_assert(sizeof(le64) == 8 && alignof(le64) == 1);

}  // namespace mqblk
