// SPDX-License-Identifier: Apache-2.0
//
// What Identify Controller says, checked and turned into what the host works with. Pure functions over pages that a
// target sent: nothing in them is believed that could hurt. NVMe 1.4, section 5.15.2.2.
#pragma once

#include "base/clock.h"
#include "wire/nvme_cross_reset.h"
#include "wire/nvme_identify.h"

#include <mqblk/error.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mqblk::driver::nvme {

struct ControllerFacts {
    std::string model, serial, firmware;
    std::string subsystem_nqn;  ///< as the controller states it; may be empty
    std::uint16_t controller_id = 0;
    std::uint32_t version = 0;                    ///< VS
    std::uint64_t max_transfer_bytes = 0;         ///< MDTS; 0: no limit
    std::uint32_t in_capsule_bytes = 0;           ///< IOCCSZ without the command
    std::uint16_t max_commands = 0;               ///< MAXCMD; 0: not stated
    std::uint32_t max_namespaces = 0;             ///< NN
    std::uint32_t keep_alive_granularity_ms = 0;  ///< KAS; 0: no keep-alive
    bool traffic_based_keep_alive = false;        ///< TBKAS
    std::uint32_t quiesce_ms = 0;                 ///< CQT; 0: not stated
    wire::nvme::ControllerInstance instance;      ///< CNTLID, CIU, CIRN; a random number of 0: not stated
    unsigned cross_resets = 0;                    ///< CCRL; 0: it cannot end other controllers
    std::array<Duration, 3> retry_delays{};       ///< CRDT1 to 3; zero: not stated
    std::uint32_t shutdown_us = 0;                ///< RTD3E
    std::uint32_t events = 0;                     ///< OAES
    bool write_cache = false;
    bool dataset_management = false;
    bool write_zeroes = false;
    std::uint64_t write_zeroes_bytes = 0;  ///< 0: no limit but the command's
    std::uint64_t discard_blocks = 0;      ///< in one range; 0: no limit but the command's
};

struct ControllerExpectation {
    std::uint16_t controller_id = 0;  ///< what Connect granted
    std::uint64_t capabilities = 0;   ///< CAP
    std::uint32_t version = 0;        ///< VS
    bool keep_alive = true;           ///< the host means to send them
    bool capsules = true;             ///< a transport with capsules: their sizes count
};

/// The checks that Linux makes of a fabrics controller (CNTLID, KAS, ICDOFF, SGLS, entry and capsule sizes), or what is
/// wrong in one sentence.
[[nodiscard]] Result<ControllerFacts> read_controller(const wire::nvme::IdentifyController&,
                                                      const ControllerExpectation&);

/// The limits of the NVM command set (CNS 06h), where the controller has that page.
void read_nvm_limits(const wire::nvme::IdentifyControllerNvm&, std::uint64_t capabilities, ControllerFacts&);

/// For `mqblk info`, in order.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> describe(const ControllerFacts&);

}  // namespace mqblk::driver::nvme
