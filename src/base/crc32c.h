// SPDX-License-Identifier: Apache-2.0
//
// CRC32C (Castagnoli), as NVMe/TCP digests use it: RFC 3720, appendix B.4. ISA-L picks the fastest way the processor
// has (carry-less multiplication, crc32 instruction, table). Incremental: any split of the bytes gives the same value.
#pragma once

#include <mqblk/bio.h>

#include <cstddef>
#include <cstdint>

namespace mqblk {

class Crc32c {
  public:
    void update(const void* bytes, std::size_t count) noexcept;
    void update(Segments segments) noexcept {
        for (const Segment& segment : segments) update(segment.data, segment.bytes);
    }
    /// Of all bytes so far. Stored little endian on the wire.
    [[nodiscard]] std::uint32_t value() const noexcept { return ~state_; }
    void reset() noexcept { state_ = initial; }

    [[nodiscard]] static std::uint32_t of(const void* bytes, std::size_t count) noexcept {
        Crc32c crc;
        crc.update(bytes, count);
        return crc.value();
    }

  private:
    static constexpr std::uint32_t initial = 0xffffffff;
    std::uint32_t state_ = initial;
};

}  // namespace mqblk
