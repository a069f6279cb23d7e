// SPDX-License-Identifier: Apache-2.0
#include "driver/megaraid/command_memory.h"

#include <utility>

namespace mqblk::driver::megaraid {

Result<std::unique_ptr<CommandMemory>> CommandMemory::create(pci::DmaSpace& space, unsigned commands,
                                                             std::uint32_t chain_bytes) {
    std::unique_ptr<CommandMemory> result(new CommandMemory(space, commands, chain_bytes));
    const std::pair<pci::DmaMemory*, std::size_t> parts[] = {
        {&result->frames_, (std::size_t{commands} + 1) * wire::megaraid::io_frame_bytes},
        {&result->chains_, std::size_t{commands} * chain_bytes},
        {&result->sense_, std::size_t{commands} * wire::megaraid::sense_buffer_bytes},
        {&result->parameters_, std::size_t{commands} * sizeof(UnmapList)},
        {&result->zeroes_, max_block_bytes}};
    for (const auto& [part, bytes] : parts) {
        auto memory = space.allocate(bytes, pci::AddressLimit::below_4g);
        if (!memory) return std::unexpected(memory.error());
        *part = std::move(*memory);
    }
    return result;
}

}  // namespace mqblk::driver::megaraid
