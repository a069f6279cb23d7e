// SPDX-License-Identifier: Apache-2.0
#include "wire/megaraid_map.h"

#include <cstring>

namespace mqblk::wire::megaraid {

namespace {

static_assert(alignof(MapLegacy) == 1 && alignof(MapExtended) == 1 && alignof(LdSpanMap) == 1);

template <class Map>
const Map* map_at(std::span<const std::byte> bytes) noexcept {
    return bytes.size() < sizeof(Map) ? nullptr : reinterpret_cast<const Map*>(bytes.data());
}

/// `count` volumes behind the map; nothing if they are not all there.
template <class Map>
std::optional<MapView> view_of(const Map& map, std::span<const std::byte> bytes, std::size_t count) noexcept {
    if ((bytes.size() - sizeof map) / sizeof(LdSpanMap) < count) return std::nullopt;
    return MapView{.device = map.device,
                   .target_to_ld = map.target_to_ld,
                   .array = map.array,
                   .volume = {reinterpret_cast<const LdSpanMap*>(bytes.data() + sizeof map), count},
                   .fp_timeout = map.fp_timeout};
}

}  // namespace

std::optional<MapView> decode_legacy_map(std::span<const std::byte> bytes) noexcept {
    const auto* const map = map_at<MapLegacy>(bytes);
    if (map == nullptr || map->volumes > max_volumes_legacy || map->bytes != legacy_map_bytes(map->volumes))
        return std::nullopt;
    return view_of(*map, bytes, map->volumes);
}

std::optional<MapView> decode_extended_map(std::span<const std::byte> bytes) noexcept {
    const auto* const map = map_at<MapExtended>(bytes);
    if (map == nullptr || map->volumes > max_volumes) return std::nullopt;
    return view_of(*map, bytes, map->volumes);
}

std::optional<std::span<const PdSequence>> decode_pd_map(std::span<const std::byte> bytes) noexcept {
    ListHeader header;
    if (bytes.size() < sizeof header) return std::nullopt;
    std::memcpy(&header, bytes.data(), sizeof header);
    if (header.count > max_physical_disks || bytes.size() < pd_map_bytes(header.count)) return std::nullopt;
    return std::span(reinterpret_cast<const PdSequence*>(bytes.data() + sizeof header), header.count);
}

}  // namespace mqblk::wire::megaraid
