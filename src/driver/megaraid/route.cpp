// SPDX-License-Identifier: Apache-2.0
#include "driver/megaraid/route.h"

#include <algorithm>

namespace mqblk::driver::megaraid {

using namespace wire::megaraid;

namespace {

constexpr std::uint8_t one_segment = 1 << 4;

/// What the later generation wants in each context.
void set_type(RaidContext& context, Generation generation) noexcept {
    if (generation == Generation::invader) context.type = one_segment | context_type_cuda;
}

void set_sequence(RaidContext& context, const Route& route, Generation generation) noexcept {
    if (generation != Generation::invader) return;
    context.lock_flags |= lock_sequence_number;
    context.config_seq = route.sequence;
}

/// The rows of a volume that a command touches: whole strips, so that nothing that it depends on changes meanwhile.
void set_lock(RaidContext& context, const Route& route, std::uint64_t block, std::uint64_t blocks) noexcept {
    if (!route.layout) return;
    const Layout& layout = *route.layout;
    const std::uint64_t row_blocks = layout.data_arms * layout.strip_blocks();
    const std::uint64_t first = block / row_blocks, last = (block + blocks - 1) / row_blocks;
    context.lock_row = first << layout.strip_shift;
    context.lock_length = static_cast<std::uint32_t>((last - first + 1) << layout.strip_shift);
}

Path disk_path(const Route& route, Generation generation, bool direct) noexcept {
    Path path;
    path.context.raid_flags = subtype_system_pd << raid_flags_subtype_shift;
    path.context.sges_high = 0;
    set_type(path.context, generation);
    if (!direct || route.handle == handle_invalid) {
        path.dev_handle = path.context.target_id = route.id;
        return path;
    }
    path.type = RequestType::high_priority;
    path.function = Function::scsi_io;
    path.fast = true;
    path.dev_handle = route.handle;
    path.context.target_id = route.context_id;
    set_sequence(path.context, route, generation);
    return path;
}

/// The arm to go to, with its block; false where that is the firmware's business.
bool find_arm(const Route& route, std::uint64_t block, unsigned& arm, std::uint64_t& at) noexcept {
    const DiskBlock place = locate(*route.layout, block);
    arm = place.arm;
    at = place.block + route.start_block;
    if (route.layout->level == 1) {
        // Both have it: strips in turn, so that both work.
        const auto other = static_cast<unsigned>(block >> route.layout->strip_shift & 1);
        if (route.handles[other] != handle_invalid) arm = other;
    }
    return route.handles[arm] != handle_invalid;
}

}  // namespace

Route route_of_volume(const MapView& map, std::uint16_t target_id) noexcept {
    Route route;
    route.id = target_id;
    route.kind = Kind::volume;
    const LdSpanMap* const ld = map.find(target_id);
    if (ld == nullptr || ld->raid.target_id != target_id) return route;
    route.mapped = true;
    route.raid = ld->raid;
    route.task_management = (ld->raid.capability & ld_task_management) != 0;
    route.sequence = ld->raid.sequence;
    route.start_block = ld->span[0].start_block;
    route.fp_timeout_s = map.fp_timeout;
    if (static_cast<LdState>(ld->raid.state) == LdState::optimal) route.layout = layout_of(ld->raid);
    for (unsigned arm = 0; arm < route.handles.size(); ++arm) {
        route.handles[arm] =
            route.layout && arm < route.layout->arms ? map.handle(*ld, 0, arm) : std::uint16_t{handle_invalid};
    }
    return route;
}

Route route_of_disk(std::span<const PdSequence> map, std::uint16_t device_id) noexcept {
    Route route;
    route.id = device_id;
    if (device_id >= map.size() || map[device_id].handle == handle_invalid) return route;
    const PdSequence& entry = map[device_id];
    route.mapped = true;
    route.handle = entry.handle;
    route.sequence = entry.sequence;
    route.task_management = (entry.capability & pd_task_management) != 0;
    route.context_id = static_cast<std::uint16_t>(device_id + pd_target_offset);
    return route;
}

Path choose_path(const Route& route, Access access, std::uint64_t block, std::uint64_t blocks, Generation generation,
                 bool direct) noexcept {
    if (route.kind == Kind::disk) return disk_path(route, generation, direct);
    Path path;
    path.dev_handle = path.context.target_id = route.id;
    set_type(path.context, generation);
    if (access == Access::other || !route.mapped) {
        if (access != Access::other) path.type = RequestType::ld_io;
        return path;
    }
    const bool read = access == Access::read;
    const std::uint8_t lock = read ? route.raid.lock_on_read : route.raid.lock_on_write;
    path.context.lock_flags = lock;
    if (direct) set_sequence(path.context, route, generation);
    set_lock(path.context, route, block, blocks);
    const bool unlocked = generation == Generation::invader && lock == static_cast<std::uint8_t>(RegionLock::unused);
    path.type = unlocked ? RequestType::no_lock : RequestType::ld_io;
    unsigned arm = 0;
    std::uint64_t at = 0;
    const bool may =
        direct && route.layout && fits_fast_path(route.raid, block, blocks, read) && (read || route.layout->level == 0);
    if (!may || !find_arm(route, block, arm, at)) return path;
    path.type = unlocked ? RequestType::no_lock : RequestType::high_priority;
    path.function = Function::scsi_io;
    path.fast = path.moved = true;
    path.dev_handle = route.handles[arm];
    path.block = at;
    path.context.span_arm = static_cast<std::uint8_t>(arm);
    path.context.timeout = route.fp_timeout_s;
    if (generation == Generation::invader) path.context.lock_flags |= lock_cuda;
    return path;
}

}  // namespace mqblk::driver::megaraid
