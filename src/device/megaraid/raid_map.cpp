// SPDX-License-Identifier: Apache-2.0
#include "device/megaraid/raid_map.h"

#include "wire/megaraid_map.h"
#include "wire/megaraid_mpi.h"

#include <cstring>
#include <memory>

namespace mqblk::device::megaraid {

using namespace wire::megaraid;

namespace {

constexpr std::uint8_t fp_timeout_s = 20;

LdSpanMap describe(const Target& volume, unsigned array, const MapOptions& options) {
    const Layout& layout = volume.layout;
    LdSpanMap map;
    LdRaid& raid = map.raid;
    raid.blocks = volume.unit->blocks();
    raid.spans = 1;
    raid.level = layout.level;
    raid.primary_level = layout.level;
    raid.strip_shift = static_cast<std::uint8_t>(layout.strip_shift);
    raid.row_size = static_cast<std::uint8_t>(layout.arms);
    raid.row_data_size = static_cast<std::uint8_t>(layout.data_arms);
    raid.target_id = volume.id;
    raid.state = static_cast<std::uint8_t>(volume.present ? LdState::optimal : LdState::offline);
    raid.sequence = volume.sequence;
    raid.mod_factor = static_cast<std::uint8_t>(layout.level == 1 ? 1 : layout.arms);
    raid.lock_on_read = static_cast<std::uint8_t>(RegionLock::shared_read);
    raid.lock_on_write =
        static_cast<std::uint8_t>(layout.level >= 5 ? RegionLock::exclusive : RegionLock::shared_write);
    raid.fp_timeout = fp_timeout_s;
    std::uint32_t capability = options.task_management ? std::uint32_t{ld_task_management} : 0;
    if (options.fast_path) {
        capability |= ld_fast_path | ld_fp_read;
        if (layout.level == 0) capability |= ld_fp_write;
    }
    raid.capability = capability;
    for (unsigned i = 0; i < layout.arms; ++i) map.data_arm[i] = static_cast<std::uint8_t>(i);
    SpanBlock& span = map.span[0];
    span.blocks = disk_blocks(layout, raid.blocks);
    span.rows = span.blocks >> layout.strip_shift;
    span.array = static_cast<std::uint16_t>(array);
    span.row_size = raid.row_size;
    span.row_data_size = raid.row_data_size;
    span.quads = 1;
    if (span.rows != 0) span.quad[0].last_row = span.rows - 1;
    span.quad[0].row_step = 1;
    return map;
}

/// What both forms have alike.
template <class Map>
unsigned fill(Map& map, LdSpanMap* volumes, const Topology& topology, const MapOptions& options) {
    std::memset(map.target_to_ld, ld_invalid, sizeof map.target_to_ld);
    map.fp_timeout = fp_timeout_s;
    for (unsigned id = 0; id < topology.device_ids(); ++id) {
        if (!topology.by_device_id(id).target->present) continue;
        const auto handle = static_cast<std::uint16_t>(first_handle + id);
        map.device[id] = {.current = handle, .valid = 1, .interface = 2, .handle = {handle, handle}};
    }
    unsigned count = 0;
    for (const Target* volume : topology.volumes()) {
        if (!volume->present) continue;
        map.target_to_ld[volume->id] = static_cast<std::uint8_t>(count);
        for (ArrayInfo& array = map.array[count]; le16 & pd : array.pd) pd = pd_invalid;
        for (unsigned arm = 0; arm < volume->layout.arms; ++arm)
            map.array[count].pd[arm] = static_cast<std::uint16_t>(volume->first_disk + arm);
        volumes[count] = describe(*volume, count, options);
        ++count;
    }
    map.volumes = static_cast<decltype(map.volumes.value())>(count);
    return count;
}

template <class T>
void put(std::vector<std::byte>& bytes, std::size_t offset, const T& value) {
    std::memcpy(bytes.data() + offset, &value, sizeof value);
}

}  // namespace

std::vector<std::byte> build_map(const Topology& topology, const MapOptions& options) {
    std::vector<LdSpanMap> volumes(max_volumes);
    std::vector<std::byte> bytes;
    const auto finish = [&](auto& map, unsigned count, std::size_t total) {
        map.bytes = static_cast<std::uint32_t>(total);
        bytes.resize(total);
        put(bytes, 0, map);
        std::memcpy(bytes.data() + sizeof map, volumes.data(), count * sizeof(LdSpanMap));
    };
    if (options.extended) {
        const auto map = std::make_unique<MapExtended>();
        const unsigned count = fill(*map, volumes.data(), topology, options);
        map->arrays = map->spans = static_cast<std::uint16_t>(count);
        finish(*map, count, extended_map_bytes);
    } else {
        const auto map = std::make_unique<MapLegacy>();
        const unsigned count = fill(*map, volumes.data(), topology, options);
        finish(*map, count, legacy_map_bytes(count));
    }
    return bytes;
}

std::vector<std::byte> build_pd_map(const Topology& topology, const MapOptions& options) {
    std::vector<std::byte> bytes(pd_map_bytes(topology.device_ids()));
    const auto count = static_cast<std::uint32_t>(topology.device_ids());
    put(bytes, 0, ListHeader{.bytes = static_cast<std::uint32_t>(bytes.size()), .count = count});
    for (unsigned id = 0; id < count; ++id) {
        PdSequence entry;
        if (const Target* const disk = topology.disk(id); disk != nullptr && disk->present) {
            entry.sequence = disk->sequence;
            entry.handle = static_cast<std::uint16_t>(first_handle + id);
            entry.capability = options.task_management ? pd_task_management : std::uint8_t{0};
        }
        entry.target_id = static_cast<std::uint16_t>(id + pd_target_offset);
        put(bytes, sizeof(ListHeader) + id * sizeof entry, entry);
    }
    return bytes;
}

}  // namespace mqblk::device::megaraid
