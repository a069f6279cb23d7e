// SPDX-License-Identifier: Apache-2.0
//
// The seam between the SCSI disk and what carries commands to it (a card's model, an SRP target). For each command:
// Nexus::plan() says which data moves, the transport finds or fetches memory for it, Nexus::execute() carries the
// command out, and `done` is called once. The transport owns the Command until then.
#pragma once

#include "wire/scsi.h"
#include "wire/scsi_cdb.h"

#include <mqblk/bio.h>

#include <cstdint>

namespace mqblk::device::scsi {

class Nexus;

struct Command {
    // The transport's.
    wire::scsi::Cdb cdb{};
    Segments data{};  ///< after plan(): memory of plan.bytes, or of less if the initiator gave less (see Plan)
    void (*done)(Command&) noexcept = nullptr;  ///< may run within execute()
    void* context = nullptr;

    // The answer.
    wire::scsi::Status status = wire::scsi::Status::good;
    wire::scsi::Sense sense{};      ///< meaningful with CHECK CONDITION only
    std::uint32_t transferred = 0;  ///< bytes of data that were moved

    // The disk's.
    Nexus* nexus = nullptr;
    void (*step)(Command&) noexcept = nullptr;  ///< takes the end of a bio, for commands of several
    Command* next = nullptr;                    ///< in whichever line it waits
    wire::scsi::BlockCdb blocks{};              ///< of a command about a range of blocks
    std::uint64_t position = 0;                 ///< how far a command of several bios has come
    std::uint32_t bytes = 0;                    ///< of data, as planned
    bool writes = false;                        ///< counted among the writes in progress
    bool submitted = false;                     ///< `bio` is the channel's
    bool cancelled = false;                     ///< nobody wants its end: no further bio is begun
    Segment piece{nullptr, 0};                  ///< memory of the disk's own that a bio uses
    Bio bio{};
};

enum class Direction : std::uint8_t { none, from_initiator, to_initiator };

struct Plan {
    Direction direction = Direction::none;
    std::uint32_t bytes = 0;        ///< of data, at most
    std::uint32_t granule = 1;      ///< what is less than `bytes` is cut to a multiple of this
    std::uint32_t memory_mask = 0;  ///< of Command::data: address and length of each piece have these bits clear
    bool refused = false;           ///< status and sense are set, `done` is not called: answer the command
};

}  // namespace mqblk::device::scsi
