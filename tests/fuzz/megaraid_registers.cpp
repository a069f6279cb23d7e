// SPDX-License-Identifier: Apache-2.0
//
// Any sequence of register accesses of any width, with frames in memory so that descriptors can hit something. Each
// step is {what, where, value}: reads, writes, passes of time, and short ways to the registers that matter. Afterwards
// the firmware must still come up, and nothing may be left of what it took.
#include "support/bar_fuzz.h"
#include "support/megaraid_fuzz.h"
#include "wire/scsi_cdb.h"

#include <bit>
#include <span>

namespace {

using namespace mqblk;
using namespace mqblk::wire::megaraid;

constexpr unsigned registers[] = {reg::doorbell,
                                  reg::write_sequence,
                                  reg::host_diag,
                                  reg::outbound_intr_status,
                                  reg::outbound_intr_mask,
                                  reg::reply_post_host_index,
                                  reg::scratch_pad,
                                  reg::scratch_pad_2,
                                  reg::inbound_low_queue_port,
                                  reg::inbound_high_queue_port,
                                  reg::supplemental_reply_index};

/// Frames 1 to 8: reads of 4 KiB from volumes and disks, a DCMD, a task management request.
void prepare(test::MrFuzz& fuzz) {
    for (unsigned smid = 1; smid <= 8; ++smid) {
        ScsiIoRequest request;
        request.function = static_cast<std::uint8_t>(smid % 2 == 0 ? Function::ld_io : Function::scsi_io);
        request.dev_handle = static_cast<std::uint16_t>(device::megaraid::first_handle + smid % 4);
        request.context.target_id = static_cast<std::uint16_t>(smid % 2);
        request.data_bytes = 4096;
        request.io_flags = 10;
        const auto cdb = wire::scsi::build_read(8 * smid, 8);
        std::copy(cdb.begin(), cdb.end(), request.cdb);
        request.sgl[0].address = fuzz.address(8192 + 4096 * std::size_t{smid});
        request.sgl[0].bytes = 4096;
        if (smid == 7) {
            request.function = static_cast<std::uint8_t>(Function::passthrough);
            request.sgl[0].address = fuzz.address(4096);
            request.sgl[0].flags = sge_chain;
        }
        if (smid == 8) request.function = static_cast<std::uint8_t>(Function::task_management);
        std::memcpy(fuzz.memory() + io_frame_bytes * smid, &request, sizeof request);
    }
    DcmdFrame dcmd;
    dcmd.header.command = static_cast<std::uint8_t>(MfiCommand::dcmd);
    dcmd.opcode = dcmd::ctrl_event_wait;
    dcmd.mailbox.set_word(0, 0x7fffffff);
    std::memcpy(fuzz.memory() + 4096, &dcmd, sizeof dcmd);
}

void step(test::MrFuzz& fuzz, const std::uint8_t* bytes) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes + 4, sizeof value);
    const unsigned width = bytes[0] >> 3 & 3;
    switch (bytes[0] & 7) {
        case 0:
        case 1: {
            const auto offset = static_cast<unsigned>(bytes[1] | bytes[2] << 8) % 0x408;
            return test::access_bar(fuzz.bar(), offset, width, value, (bytes[0] & 7) == 1);
        }
        case 2:
        case 3:
            return test::access_bar(fuzz.bar(), registers[bytes[1] % std::size(registers)], width, value,
                                    (bytes[0] & 7) == 3);
        case 4: {
            const RequestDescriptor descriptor{bytes[1], bytes[2], static_cast<std::uint16_t>(value % 10), 0, 0};
            return fuzz.bar().write64(reg::inbound_low_queue_port, std::bit_cast<std::uint64_t>(descriptor));
        }
        case 5:
            return fuzz.bar().write64(reg::inbound_low_queue_port,
                                      mfa_descriptor(fuzz.address(test::MrFuzz::init_offset)) + bytes[1]);
        case 6:
            return fuzz.bar().write32(reg::doorbell, 1u << (bytes[1] & 7));
        default:
            return fuzz.settle();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static test::MrFuzz fuzz;
    test::run_steps(fuzz, {data, size}, prepare, step);
    return 0;
}
