// SPDX-License-Identifier: Apache-2.0
//
// The mathematics of a stripe: P is the exclusive-or of its data chunks, Q their sum with the weights 2^i in GF(2^8) of
// the polynomial 0x11d (H. P. Anvin, "The mathematics of RAID-6"). ISA-L does the work. Chunks are named by their place
// in the code: 0 … data - 1, then P, then Q; where a chunk lies is not known here. Nothing here allocates or blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace mqblk::driver::raid {

inline constexpr unsigned max_data = 32;
inline constexpr unsigned max_members = max_data + 2;

/// A set of members, or of places in the code: bit i is the i-th.
using Mask = std::uint64_t;
[[nodiscard]] constexpr Mask bit(unsigned index) noexcept {
    return Mask{1} << index;
}
[[nodiscard]] constexpr Mask first_bits(unsigned count) noexcept {
    return bit(count) - 1;
}

/// P and Q of so many data chunks. Constant once made; any thread.
class Parity {
  public:
    explicit Parity(unsigned data);  ///< 1 … max_data

    [[nodiscard]] unsigned data() const noexcept { return data_; }

    /// Of chunks that each are one piece of `bytes`. `p` or `q` may be null: not wanted. Fastest where all addresses
    /// and `bytes` are multiples of `fast_alignment`.
    void generate(const std::byte* const* chunks, std::byte* p, std::byte* q, std::size_t bytes) const noexcept;
    static constexpr std::size_t fast_alignment = 32;

    /// What P and Q gain when `change` is added to chunk `index`: `p` and `q` (or null) are changed in place.
    void update(unsigned index, const std::byte* change, std::byte* p, std::byte* q, std::size_t bytes) const noexcept;

  private:
    unsigned data_;
    std::array<unsigned char, std::size_t{2} * max_data * 32> tables_{};  // ISA-L's, a row for P and one for Q
};

/// How up to two lost chunks follow from the others. Constant once made.
class Recovery {
  public:
    /// `available` and `lost` are places in the code. Nothing if fewer than `data` chunks are available. All available
    /// data chunks are among the sources.
    [[nodiscard]] static std::optional<Recovery> make(unsigned data, Mask available, Mask lost) noexcept;

    [[nodiscard]] Mask sources() const noexcept { return sources_; }
    [[nodiscard]] Mask lost() const noexcept { return lost_; }

    /// Fills the lost chunks: `chunks` has the address of each by its place in the code, `bytes` long.
    void apply(std::byte* const* chunks, std::size_t bytes) const noexcept;

  private:
    Recovery() = default;
    unsigned data_ = 0;
    unsigned rows_ = 0;
    Mask sources_ = 0, lost_ = 0;
    std::array<unsigned char, std::size_t{2} * max_data * 32> tables_{};
};

/// What the differences between the P and Q on the members and those that the data give say of a block.
struct Diagnosis {
    enum class Kind : std::uint8_t { sound, one_wrong, beyond_repair };
    Kind kind = Kind::sound;
    unsigned wrong = 0;  ///< one_wrong: its place in the code
};
[[nodiscard]] Diagnosis diagnose(unsigned data, const std::byte* p_difference, const std::byte* q_difference,
                                 std::size_t bytes) noexcept;

}  // namespace mqblk::driver::raid
