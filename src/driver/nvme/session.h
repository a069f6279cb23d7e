// SPDX-License-Identifier: Apache-2.0
//
// Session: an enabled controller seen through its admin queue: connected, its capabilities read, ready. What a
// controller with namespaces and a discovery controller have in common. NVMe 1.4, section 7.6.1; fabrics 1.1, 3.5.
#pragma once

#include "base/task.h"
#include "driver/nvme/admin_queue.h"
#include "driver/nvme/association.h"
#include "wire/nvme_identify.h"

#include <mqblk/error.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace mqblk::driver::nvme {

struct Session {
    std::shared_ptr<AdminQueue> admin;
    std::uint16_t controller_id = 0;
    std::uint64_t capabilities = 0;  ///< CAP
    std::uint32_t version = 0;       ///< VS
    Duration admin_timeout{};

    /// A command with the time-out of admin commands.
    [[nodiscard]] AdminQueue::Order order(std::string_view what) const {
        AdminQueue::Order result;
        result.what = what;
        result.timeout = admin_timeout;
        return result;
    }
    [[nodiscard]] AdminQueue::Order read_order(std::string_view what, void* data, std::size_t bytes) const {
        AdminQueue::Order result = order(what);
        result.data = {static_cast<std::byte*>(data), bytes};
        result.transfer = Transfer::to_host;
        return result;
    }
};

struct SessionOptions {
    Duration keep_alive{};     ///< zero: none
    Duration admin_timeout{};  ///< of each command
    bool* refused = nullptr;   ///< set when the target says that this host will never be let in
    std::function<void(std::string reason)> lost;
};

/// Connects and enables, all within terms.connect_timeout, which goes on to bind the admin queue's commands until
/// AdminQueue::end_by() is told otherwise. `terms` outlives the task. It may be destroyed while it waits.
[[nodiscard]] Task<Result<Session>> open_session(Reactor&, const Association::Terms& terms, SessionOptions);

/// Identify Controller into `page`, which outlives the session.
[[nodiscard]] Task<Result<>> identify_controller(const Session&, wire::nvme::IdentifyController& page);

/// Normal shutdown: CC.SHN, then waiting for CSTS.SHST, at most `bound`. Errors mean that the target went first.
[[nodiscard]] Task<Result<>> shut_down(Reactor&, const Session&, Duration bound);

}  // namespace mqblk::driver::nvme
