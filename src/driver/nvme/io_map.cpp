// SPDX-License-Identifier: Apache-2.0
#include "driver/nvme/io_map.h"

namespace mqblk::driver::nvme {

namespace {

namespace io_opcode = wire::nvme::io_opcode;

void build_discard(const block::Request& request, const NamespaceIo& ns, Capsule& capsule) noexcept {
    wire::nvme::Command& command = capsule.command();
    command.opcode = io_opcode::dataset_management;
    command.cdw10 = 0;  // one range, zero-based
    command.cdw11 = wire::nvme::dsm_deallocate;
    command.cdw12 = 0;
    capsule.range.attributes = 0;
    capsule.range.blocks = static_cast<std::uint32_t>(request.sectors >> ns.sector_shift);
    capsule.range.first_block = request.sector >> ns.sector_shift;
    capsule.set_flat(Transfer::to_target, &capsule.range, sizeof(capsule.range));
}

void build_range(const block::Request& request, const NamespaceIo& ns, std::uint32_t control,
                 wire::nvme::Command& command) noexcept {
    if ((request.flags & bio_fua) != 0) control |= wire::nvme::rw_fua;
    wire::nvme::set_block_range(command, request.sector >> ns.sector_shift,
                                static_cast<std::uint32_t>(request.sectors >> ns.sector_shift), control);
}

}  // namespace

void build_command(const block::Request& request, const NamespaceIo& ns, Capsule& capsule) noexcept {
    wire::nvme::Command& command = capsule.command();
    command.flags = wire::nvme::flag_psdt_sgl;
    command.namespace_id = ns.nsid;
    switch (request.op) {
        case Op::read:
            command.opcode = io_opcode::read;
            build_range(request, ns, 0, command);
            return;
        case Op::write:
            command.opcode = io_opcode::write;
            build_range(request, ns, 0, command);
            return;
        case Op::write_zeroes:
            command.opcode = io_opcode::write_zeroes;
            build_range(request, ns, (request.flags & bio_unmap) != 0 ? wire::nvme::rw_deallocate : 0, command);
            capsule.set_no_data();
            return;
        case Op::discard:
            build_discard(request, ns, capsule);
            return;
        case Op::flush:
            command.opcode = io_opcode::flush;
            command.cdw10 = 0;
            command.cdw11 = 0;
            command.cdw12 = 0;
            capsule.set_no_data();
            return;
    }
}

}  // namespace mqblk::driver::nvme
