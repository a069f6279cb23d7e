// SPDX-License-Identifier: Apache-2.0
//
// The target's TCP end: a listener and the connections that came through it, each handed to one of the given reactors
// in turn. NVMe/TCP Transport Specification 1.0.
#pragma once

#include "device/nvme/target.h"
#include "fabric/connection.h"

#include <functional>
#include <memory>
#include <vector>

namespace mqblk::device::nvme {

class TcpTarget {
  public:
    struct Options {
        fabric::Address listen{"127.0.0.1", 4420};
        bool header_digest = true;  ///< granted to hosts that ask
        bool data_digest = true;
        std::uint32_t max_h2c_data_bytes = 4u << 20;  ///< MAXH2CDATA; no R2T asks for more
        /// Per reactor, for data on their way: a quarter to receive into, where data that come with their commands stay
        /// (and 128 KiB for each connection beyond that, at most), the rest for all others. Scarce means waiting in
        /// order, and one host gets no more than is left for others.
        std::size_t buffer_bytes = 64u << 20;
        Duration handshake = std::chrono::seconds(10);  ///< from accept to a successful Connect
    };

    /// Listens in `reactors[0]`; connections are spread over all. The port must be added to the target beforehand with
    /// the address that hosts should use; `port_id` is its id.
    [[nodiscard]] static Result<std::unique_ptr<TcpTarget>> listen(Target&, unsigned port_id, fabric::Network&,
                                                                   std::vector<Reactor*> reactors, Options);
    virtual ~TcpTarget() = default;  ///< after shutdown() has finished

    [[nodiscard]] virtual fabric::Address address() const = 0;
    [[nodiscard]] virtual unsigned connections() const noexcept = 0;
    /// Closes listener and connections; `done` runs on reactors[0] when the last one is gone. What is in the backends
    /// is answered first if that takes no longer than five seconds; then what waits for a turn at a backend is dropped,
    /// and what a backend has begun is waited for. Any thread.
    virtual void shutdown(std::function<void()> done) = 0;
};

}  // namespace mqblk::device::nvme
