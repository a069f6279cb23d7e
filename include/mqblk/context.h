// SPDX-License-Identifier: Apache-2.0
//
// Context: where devices come from. It owns what they need in common: the clock, randomness, a control thread (started
// with the first device that needs one), the network, the NVMe host, and targets that live in this process. One per
// program is usual; several do not know of each other.
#pragma once

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <memory>
#include <string>
#include <string_view>

namespace mqblk {

namespace registry {
class Services;
}

/// Thread-safe. Devices and channels that came from it must be gone before it is destroyed.
class Context {
  public:
    struct Options {
        std::string
            host_nqn;       ///< how this host names itself to NVMe targets; empty: one of this machine and user, stable
        bool poll = false;  ///< threads of the context's own never sleep
        unsigned ctrl_loss_tmo_s = 600;  ///< seconds without a connection after which I/O over a fabric fails; a URI's
                                         ///< own option counts more
    };

    Context();
    explicit Context(Options);
    ~Context();
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    /// Opens the device that `uri` names (docs/uris.md lists them all). Blocks until it is ready to use or an error is
    /// known; the time is bounded by the URI's own time-outs. Not to be called from a reactor's thread.
    [[nodiscard]] Result<std::shared_ptr<Device>> open(std::string_view uri);

    [[nodiscard]] registry::Services& services() noexcept { return *services_; }

  private:
    std::unique_ptr<registry::Services> services_;
};

}  // namespace mqblk
