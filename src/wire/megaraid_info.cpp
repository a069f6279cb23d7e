// SPDX-License-Identifier: Apache-2.0
#include "wire/megaraid_info.h"

#include "wire/megaraid_mfi.h"

#include <cstring>

namespace mqblk::wire::megaraid {

namespace {

template <class T>
bool load_front(std::span<const std::byte> bytes, T& to) noexcept {
    if (bytes.size() < sizeof(T)) return false;
    std::memcpy(&to, bytes.data(), sizeof(T));
    return true;
}

template <class T>
std::optional<std::span<const T>> elements(std::span<const std::byte> bytes, std::size_t offset, std::uint32_t count,
                                           unsigned most) noexcept {
    static_assert(alignof(T) == 1);
    if (count > most || bytes.size() < offset || (bytes.size() - offset) / sizeof(T) < count) return std::nullopt;
    return std::span(reinterpret_cast<const T*>(bytes.data() + offset), count);
}

}  // namespace

std::optional<std::span<const PdAddress>> decode_pd_list(std::span<const std::byte> bytes) noexcept {
    ListHeader header;
    if (!load_front(bytes, header)) return std::nullopt;
    return elements<PdAddress>(bytes, sizeof header, header.count, max_physical_disks);
}

std::optional<std::span<const LdEntry>> decode_ld_list(std::span<const std::byte> bytes, unsigned most) noexcept {
    LdListHeader header;
    if (!load_front(bytes, header)) return std::nullopt;
    return elements<LdEntry>(bytes, sizeof header, header.count, most);
}

std::optional<std::span<const std::uint8_t>> decode_target_list(std::span<const std::byte> bytes,
                                                                unsigned most) noexcept {
    ListHeader header;
    if (!load_front(bytes, header)) return std::nullopt;
    return elements<std::uint8_t>(bytes, target_ids_offset, header.count, most);
}

std::optional<MfiRange> decode_mfi_sge(std::span<const std::byte> sgl, std::uint16_t flags,
                                       std::size_t index) noexcept {
    const std::size_t each = mfi_sge_bytes(flags);
    if (index >= sgl.size() / each) return std::nullopt;
    const std::span<const std::byte> element = sgl.subspan(index * each, each);
    if ((flags & mfi_ieee) != 0) {
        MfiSgeIeee sge;
        std::memcpy(&sge, element.data(), sizeof sge);
        return MfiRange{sge.address, sge.bytes};
    }
    if ((flags & mfi_sgl64) != 0) {
        MfiSge64 sge;
        std::memcpy(&sge, element.data(), sizeof sge);
        return MfiRange{sge.address, sge.bytes};
    }
    MfiSge32 sge;
    std::memcpy(&sge, element.data(), sizeof sge);
    return MfiRange{sge.address, sge.bytes};
}

}  // namespace mqblk::wire::megaraid
