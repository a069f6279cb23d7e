// SPDX-License-Identifier: Apache-2.0
//
// Any sequence of register accesses of any width, with a message and a list in memory so that doorbells can hit
// something. Each step is {what, where, value}: reads, writes, passes of time, and short ways to the registers that
// matter. Afterwards the card must still come up, and nothing may be left of what it took.
#include "support/bar_fuzz.h"
#include "support/skd_fuzz.h"
#include "wire/scsi_cdb.h"

#include <cstring>

namespace {

using namespace mqblk;
using namespace mqblk::wire::skd;

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

void step(test::SkdFuzz& fuzz, const std::uint8_t* bytes) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes + 4, sizeof value);
    const unsigned width = bytes[0] >> 3 & 3;
    switch (bytes[0] & 7) {
        case 0:
        case 1: {
            const auto offset = static_cast<unsigned>(bytes[1] | bytes[2] << 8) % 0x600;
            return test::access_bar(fuzz.bar(), offset, width, value, (bytes[0] & 7) == 1);
        }
        case 2:
        case 3:
            return test::access_bar(fuzz.bar(), registers[bytes[1] % std::size(registers)], width, value,
                                    (bytes[0] & 7) == 3);
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static test::SkdFuzz fuzz;
    test::run_steps(fuzz, {data, size}, prepare, step);
    return 0;
}
