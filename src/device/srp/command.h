// SPDX-License-Identifier: Apache-2.0
//
// One SRP_CMD or SRP_TSK_MGMT at the target, from its information unit to the end of the send that answers it.
#pragma once

#include "device/scsi/command.h"
#include "fabric/rdma/work.h"
#include "memory/buffer_shares.h"
#include "wire/srp.h"

#include <mqblk/bio.h>

#include <cstdint>
#include <optional>

namespace mqblk::device::srp {

class RdmaChannel;

struct SrpCommand {
    enum class State : std::uint8_t {
        free,
        waiting_table,  ///< for memory for an external table of descriptors
        reading_table,  ///< by RDMA READ
        waiting_data,   ///< for memory for data
        fetching,       ///< data-out, by RDMA READ
        executing,      ///< in the SCSI disk
        delivering,     ///< data-in, by RDMA WRITE; its answer follows in order
        answering,      ///< its answer is on its way
        task,           ///< a task management request that waits for what it ends
    };

    scsi::Command core;
    scsi::Plan plan;
    State state = State::free;
    bool absent = false;   ///< the inventory's: there is no unit, or REPORT LUNS
    bool aborted = false;  ///< no answer is wanted
    bool lent = false;     ///< `data` is memory of the medium
    bool queued = false;   ///< in the line for room in the send queue
    be64 tag{};
    std::uint64_t lun = 0;
    std::uint64_t number = 0;   ///< of all that this channel took, in order
    std::uint16_t unit = 0;     ///< index of its unit
    std::uint16_t index = 0;    ///< of this slot
    std::uint16_t receive = 0;  ///< holds the unit until the answer goes

    wire::srp::DataDescription description;     ///< what the initiator gave for the direction that is used; in the unit
    std::uint64_t out_bytes = 0, in_bytes = 0;  ///< that the initiator gave for each direction

    // Moving data: `position` counts through the descriptors, which are in the unit or in the table.
    Segment data{nullptr, 0};
    std::uint32_t data_key = 0;
    std::uint32_t move_bytes = 0;  ///< in all
    std::uint32_t moved = 0;       ///< of those: work was posted
    std::uint32_t descriptor = 0, descriptor_offset = 0;
    unsigned works = 0;  ///< posted and not completed

    memory::SharedBufferRequest data_request, table_request;  ///< `data` is set while it has memory
    SrpCommand* next = nullptr;                               ///< free list, or those that wait for room in the queue

    // A task management request.
    wire::srp::ResponseCode outcome = wire::srp::ResponseCode::success;
    RdmaChannel* channel = nullptr;
};

}  // namespace mqblk::device::srp
