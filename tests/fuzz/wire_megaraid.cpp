// SPDX-License-Identifier: Apache-2.0
//
// What a driver decodes of what a controller says: lists and maps of any bytes. Whatever they say, nothing beyond them
// is read, and what a map leads to is within it.
#include "wire/megaraid_info.h"
#include "wire/megaraid_layout.h"
#include "wire/megaraid_map.h"
#include "wire/megaraid_mfi.h"

#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

namespace {

using namespace mqblk::wire::megaraid;

void walk(const MapView& map, std::uint64_t block) {
    for (unsigned id = 0; id < 512; ++id) {
        const LdSpanMap* const ld = map.find(id);
        if (ld == nullptr) continue;
        const auto layout = layout_of(ld->raid);
        if (!layout) continue;
        const DiskBlock at = locate(*layout, block);
        if (at.arm >= layout->arms) std::abort();
        if (const auto back = volume_block_of(*layout, at.arm, at.block); layout->level != 1 && back && *back != block)
            std::abort();
        (void)map.handle(*ld, 0, at.arm);
        (void)fits_fast_path(ld->raid, block, 8, true);
    }
}

void run(std::span<const std::uint8_t> input) {
    if (input.size() < 9) return;
    std::uint64_t block = 0;
    std::memcpy(&block, input.data() + 1, sizeof block);
    // A copy of its own, so that reading beyond it is seen.
    const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(input.data() + 9),
                                       reinterpret_cast<const std::byte*>(input.data() + input.size()));
    std::size_t sum = 0;
    if (const auto list = decode_pd_list(bytes))
        for (const PdAddress& disk : *list) sum += disk.device_id;
    if (const auto list = decode_ld_list(bytes, max_volumes))
        for (const LdEntry& volume : *list) sum += volume.target_id;
    if (const auto list = decode_target_list(bytes, max_volumes))
        for (const std::uint8_t id : *list) sum += id;
    if (const auto list = decode_pd_map(bytes))
        for (const PdSequence& disk : *list) sum += disk.sequence;
    if (const auto map = decode_legacy_map(bytes)) walk(*map, block);
    if (const auto map = decode_extended_map(bytes)) walk(*map, block);
    for (std::size_t i = 0; i < 4; ++i)
        if (const auto sge = decode_mfi_sge(bytes, input[0], i)) sum += sge->bytes;
    volatile std::size_t used = sum;
    (void)used;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    run({data, size});
    return 0;
}
