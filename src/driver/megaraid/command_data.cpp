// SPDX-License-Identifier: Apache-2.0
#include "driver/megaraid/command_data.h"

#include "wire/scsi_cdb.h"

namespace mqblk::driver::megaraid {

using block::Request;

wire::scsi::Cdb build_cdb(const Request& request, std::uint64_t block, std::uint32_t blocks) noexcept {
    switch (request.op) {
        case Op::read:
            return wire::scsi::build_read(block, blocks);
        case Op::write:
            return wire::scsi::build_write(block, blocks, (request.flags & bio_fua) != 0 ? wire::scsi::block_fua : 0);
        case Op::discard:
            return wire::scsi::build_unmap(sizeof(CommandMemory::UnmapList));
        case Op::write_zeroes:
            return wire::scsi::build_write_same(block, blocks, (request.flags & bio_unmap) != 0);
        case Op::flush:
            break;
    }
    return wire::scsi::build_synchronize_cache();
}

Parameters write_parameters(const Request& request, const Unit& unit, CommandMemory& memory,
                            std::uint16_t smid) noexcept {
    if (request.op == Op::write_zeroes) return {memory.zeroes_address(), sector_bytes << unit.block_shift};
    if (request.op != Op::discard) return {};
    constexpr std::uint32_t bytes = sizeof(CommandMemory::UnmapList);
    memory.unmap_list(smid) = {.header = {.bytes = bytes - 2, .descriptor_bytes = sizeof(wire::scsi::UnmapDescriptor)},
                               .range = {.lba = request.sector >> unit.block_shift,
                                         .blocks = static_cast<std::uint32_t>(request.sectors >> unit.block_shift)}};
    return {memory.unmap_list_address(smid), bytes};
}

}  // namespace mqblk::driver::megaraid
