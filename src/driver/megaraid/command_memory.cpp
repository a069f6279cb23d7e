// SPDX-License-Identifier: Apache-2.0
#include "driver/megaraid/command_memory.h"

#include <utility>

namespace mqblk::driver::megaraid {

Result<std::unique_ptr<CommandMemory>> CommandMemory::create(pci::DmaSpace& space, const Sizes& sizes) {
    const std::size_t commands = sizes.commands;
    std::unique_ptr<CommandMemory> result(new CommandMemory(space, sizes.commands, sizes.chain_bytes));
    const std::pair<pci::DmaMemory*, std::size_t> parts[] = {
        {&result->frames_, sizes.request_frames ? (commands + 1) * wire::megaraid::io_frame_bytes : 0},
        {&result->chains_, commands * sizes.chain_bytes},
        {&result->sense_, commands * wire::megaraid::sense_buffer_bytes},
        {&result->parameters_, commands * sizeof(UnmapList)},
        {&result->zeroes_, max_block_bytes}};
    for (const auto& [part, bytes] : parts) {
        if (bytes == 0) continue;
        auto memory = space.allocate(bytes, pci::AddressLimit::below_4g);
        if (!memory) return std::unexpected(memory.error());
        *part = std::move(*memory);
    }
    return result;
}

}  // namespace mqblk::driver::megaraid
