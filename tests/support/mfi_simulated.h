// SPDX-License-Identifier: Apache-2.0
//
// The MegaRAID driver on a scripted MFI controller whose firmware writes what a script of bytes says, in virtual time:
// contexts, its index, frames, states, interrupts for nothing. When the script is at its end it is honest. Each request
// is to end once, and then the driver.
#pragma once

#include "driver/megaraid/megaraid.h"
#include "driver/ram/ram.h"
#include "pci/in_process.h"
#include "reactor/simulated.h"
#include "support/mfi_adapter.h"

#include <mqblk/device.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace mqblk::test {

inline constexpr unsigned hostile_mfi_requests = 24;

/// Deals out the script's bytes; zeroes at its end.
class MfiScript {
  public:
    explicit MfiScript(std::span<const std::uint8_t> bytes) noexcept : left_(bytes) {}
    [[nodiscard]] bool ended() const noexcept { return left_.empty(); }
    std::uint8_t byte() noexcept {
        if (left_.empty()) return 0;
        const std::uint8_t value = left_.front();
        left_ = left_.subspan(1);
        return value;
    }
    std::uint32_t word() noexcept {
        const std::uint32_t low = byte(), high = byte();
        return low | high << 8;
    }
    /// What firmware writes before an answer, or instead of one.
    bool act(MfiAdapter& adapter) noexcept {
        if (ended()) return false;
        const auto& memory = adapter.host().memory();
        const std::uint8_t what = byte();
        bool mapped = true;
        switch (what & 7) {
            case 0:
                break;  // honest
            case 1:
                adapter.post_context(word());
                break;
            case 2:
                mapped = memory.publish(adapter.producer_address(), word() % (2 * adapter.entries()));
                break;
            case 3:
                mapped = memory.publish(adapter.producer_address(), word() << 16 | word());
                break;
            case 4:
                mapped = memory.publish(adapter.ring_address() + 4 * (word() % adapter.entries()), word());
                break;
            case 5:
                mapped = memory.publish(adapter.last_frame() + byte() % 64, byte());
                break;
            case 6:
                for (unsigned i = byte(); i > 0; --i) adapter.post_context(i);
                break;
            default:
                if ((what & 0x38) == 0) adapter.fault();
                break;
        }
        if (!mapped && adapter.ring_address() != 0) adapter.complain("nonsense went beside the driver's memory");
        adapter.host().raise(0);
        return (what & 0x80) != 0;
    }

  private:
    std::span<const std::uint8_t> left_;
};

/// Returns how many ends of requests there were.
inline unsigned run_hostile_mfi(std::span<const std::uint8_t> bytes) {
    MfiScript script(bytes);
    SimulatedWorld world(1);
    const auto reactor = world.make_reactor();
    constexpr std::uint16_t ids[] = {wire::megaraid::pci_device::sas1078r, wire::megaraid::pci_device::gen2_79,
                                     wire::megaraid::pci_device::skinny_73};
    const std::uint8_t kind = script.byte();
    MfiAdapterOptions options;
    options.device_id = ids[kind % 3];
    options.commands = 40;
    options.msix = (kind & 4) != 0 ? 1 : 0;
    options.msi = (kind & 8) != 0;
    options.aborts = (kind & 16) != 0;
    for (auto* list : {&options.volumes, &options.disks})
        list->push_back(driver::ram::open({.bytes = 1 << 20, .disk = {}}).value());
    auto model = std::make_unique<MfiAdapter>(options);
    MfiAdapter* const adapter = model.get();
    auto function = pci::make_in_process(std::move(model), *reactor, {.reaches_everything = false}).value();
    const bool from_the_start = (kind & 32) != 0;
    const auto hostile = [&script](MfiAdapter& each) { return script.act(each); };
    if (from_the_start) adapter->set_hostile(hostile);
    auto opened = driver::megaraid::Adapter::open(std::move(function), driver::megaraid::turned_control(*reactor), {});
    if (!opened) return hostile_mfi_requests;
    auto device =
        (*opened)->device((kind & 64) != 0 ? driver::megaraid::Kind::disk : driver::megaraid::Kind::volume, 0);
    if (!device) return hostile_mfi_requests;
    if (!from_the_start) adapter->set_hostile(hostile);
    auto channel = (*device)->channel(*reactor).value();
    std::vector<std::byte> memory(std::size_t{hostile_mfi_requests} * 4096, std::byte{0x5a});
    std::array<Segment, hostile_mfi_requests> segments{};
    std::array<Bio, hostile_mfi_requests> bios{};
    unsigned ended = 0;
    for (unsigned i = 0; i < hostile_mfi_requests; ++i) {
        segments[i] = {memory.data() + std::size_t{i} * 4096, 4096};
        bios[i].op = i % 3 == 0 ? Op::read : i % 7 == 6 ? Op::flush : Op::write;
        bios[i].sector = 8 * i;
        bios[i].sectors = bios[i].op == Op::flush ? 0 : 8;
        if (carries_data(bios[i].op)) bios[i].data = {&segments[i], 1};
        bios[i].context = &ended;
        bios[i].done = [](Bio& bio) noexcept { ++*static_cast<unsigned*>(bio.context); };
        channel->submit(bios[i]);
    }
    world.run_until(
        [&] {
            channel->poll();
            return ended >= hostile_mfi_requests;
        },
        std::chrono::hours(24));
    // To the end of its time: nothing ends twice.
    const unsigned seen = ended;
    channel.reset();
    return ended == seen ? ended : ~0u;
}

}  // namespace mqblk::test
