// SPDX-License-Identifier: Apache-2.0
//
// Any sequence of register accesses of any width, with a message and a list in memory so that doorbells can hit
// something. Each step is {what, where, value}: reads, writes, passes of time, and short ways to the registers that
// matter. Afterwards the card must still come up, and nothing may be left of what it took.
#include "support/skd_fuzz.h"
#include "wire/scsi_cdb.h"

#include <cstring>

namespace {

using namespace mqblk;
using namespace mqblk::wire::skd;

constexpr std::size_t step_bytes = 8;
constexpr unsigned most_steps = 256;
constexpr unsigned registers[] = {reg::q_command,     reg::q_command + 4,        reg::control,
                                  reg::status,        reg::int_status_host,      reg::int_mask_host,
                                  reg::msg_to_device, reg::msg_from_device,      reg::msg_to_device_arg,
                                  reg::hw_version,    reg::msg_to_device_arg + 4};

/// A message with a read, and its list.
void prepare(test::SkdFuzz& fuzz) {
    FitMessage message;
    message.header.requests = 1;
    message.request[0].cdb = wire::scsi::build_read(0, 8);
    message.request[0].sg_list_address = fuzz.address(4096);
    message.request[0].sg_list_bytes = 4096;
    std::memcpy(fuzz.memory(), &message, sizeof message);
    const SgDescriptor descriptor{.control = sg_last, .bytes = 4096, .host_address = fuzz.address(8192)};
    std::memcpy(fuzz.memory() + 4096, &descriptor, sizeof descriptor);
}

void access(const pci::Bar& bar, unsigned offset, unsigned width, std::uint64_t value, bool write) {
    switch (width) {
        case 0:
            write ? bar.write8(offset, static_cast<std::uint8_t>(value)) : static_cast<void>(bar.read8(offset));
            return;
        case 1:
            write ? bar.write16(offset & ~1u, static_cast<std::uint16_t>(value))
                  : static_cast<void>(bar.read16(offset & ~1u));
            return;
        case 2:
            write ? bar.write32(offset & ~3u, static_cast<std::uint32_t>(value))
                  : static_cast<void>(bar.read32(offset & ~3u));
            return;
        default:
            write ? bar.write64(offset & ~7u, value) : static_cast<void>(bar.read64(offset & ~7u));
            return;
    }
}

void step(test::SkdFuzz& fuzz, const std::uint8_t* bytes) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes + 4, sizeof value);
    const unsigned width = bytes[0] >> 3 & 3;
    switch (bytes[0] & 7) {
        case 0:
        case 1: {
            const auto offset = static_cast<unsigned>(bytes[1] | bytes[2] << 8) % 0x600;
            return access(fuzz.bar(), offset, width, value, (bytes[0] & 7) == 1);
        }
        case 2:
        case 3:
            return access(fuzz.bar(), registers[bytes[1] % std::size(registers)], width, value, (bytes[0] & 7) == 3);
        case 4:
            return fuzz.bar().write64(reg::q_command, fuzz.address(std::size_t{value} % 64 * 64) | (bytes[1] & 0x3f));
        case 5:
            return fuzz.bar().write64(reg::msg_to_device_arg,
                                      fuzz.address(test::SkdFuzz::ring_offset) + (bytes[1] & 7));
        case 6:
            return fuzz.bar().write32(reg::msg_to_device, std::uint32_t{bytes[1]} % 12 << 24 | (value & 0xffffff));
        default:
            return fuzz.settle();
    }
}

void run(std::span<const std::uint8_t> input) {
    static test::SkdFuzz fuzz;
    fuzz.bring_up();
    prepare(fuzz);
    for (unsigned steps = 0; input.size() >= step_bytes && steps < most_steps; ++steps) {
        step(fuzz, input.data());
        input = input.subspan(step_bytes);
    }
    fuzz.bring_up();
    fuzz.check();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    run({data, size});
    return 0;
}
