// SPDX-License-Identifier: Apache-2.0
#include "driver/megaraid/command_port.h"

#include "driver/megaraid/fusion_port.h"
#include "driver/megaraid/mfi_port.h"

#include <atomic>
#include <cstring>
#include <utility>

namespace mqblk::driver::megaraid {

using namespace wire::megaraid;

namespace {
constexpr std::size_t init_bytes = 4096;
}

std::unique_ptr<CommandPort> CommandPort::create(const pci::Bar& bar, Generation generation) {
    if (is_fusion(generation)) return std::make_unique<FusionPort>(bar, generation);
    return std::make_unique<MfiPort>(bar, generation);
}

Result<> CommandPort::allocate(pci::DmaSpace& space, const Limits& limits, unsigned queues) {
    auto memory = CommandMemory::create(space, sizes(limits));
    if (!memory) return std::unexpected(memory.error());
    memory_ = std::move(*memory);
    auto init = space.allocate(init_bytes, pci::AddressLimit::below_4g);
    if (!init) return std::unexpected(init.error());
    init_memory_ = std::move(*init);
    return allocate_replies(space, limits, queues);
}

void CommandPort::write_init(const InitFrame& frame, const void* message, std::size_t bytes) noexcept {
    std::memcpy(init_memory_.data() + init_message_offset, message, bytes);
    std::memcpy(init_memory_.data(), &frame, sizeof frame);
}

std::uint8_t CommandPort::init_status() const noexcept {
    auto& status = reinterpret_cast<std::uint8_t&>(init_memory_.data()[mfi_status_offset]);
    return std::atomic_ref<std::uint8_t>(status).load(std::memory_order_acquire);
}

}  // namespace mqblk::driver::megaraid
