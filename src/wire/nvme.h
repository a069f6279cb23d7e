// SPDX-License-Identifier: Apache-2.0
//
// NVMe commands and completions as they travel. NVM Express Base Specification 1.4: section 4.2 (submission queue
// entry), 4.6 (completion queue entry).
#pragma once

#include "base/endian.h"

#include <cstddef>

namespace mqblk::wire::nvme {

/// SGL descriptor, section 4.4.
struct Sgl {
    le64 address;
    le32 length;
    std::uint8_t reserved[3] = {};
    std::uint8_t type = 0;  ///< high nibble type, low nibble subtype
};
static_assert(sizeof(Sgl) == 16);

/// Submission queue entry.
struct Command {
    std::uint8_t opcode = 0;
    std::uint8_t flags = 0;  ///< bits 1:0 fused operation, bits 7:6 PSDT
    le16 command_id;
    le32 namespace_id;
    le32 cdw2;
    le32 cdw3;
    le64 metadata;
    Sgl data;
    le32 cdw10;
    le32 cdw11;
    le32 cdw12;
    le32 cdw13;
    le32 cdw14;
    le32 cdw15;
};
static_assert(sizeof(Command) == 64);
static_assert(offsetof(Command, data) == 24 && offsetof(Command, cdw10) == 40);

/// Completion queue entry.
struct Completion {
    le64 result;
    le16 sq_head;
    le16 sq_id;
    le16 command_id;
    le16 status;  ///< bit 0 phase (zero on fabrics), status code from bit 1 on
};
static_assert(sizeof(Completion) == 16);

}  // namespace mqblk::wire::nvme
