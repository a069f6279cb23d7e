// SPDX-License-Identifier: Apache-2.0
//
// Serves a model on a vfio-user socket, to one client after the other: a virtual machine's monitor or another process
// (protocol 0.1 as published with libvfio-user and QEMU). A client is hostile: what it sends is checked byte by byte,
// what it breaks ends its own connection at most, and its end at any byte leaves the server as it was. A client that
// leaves is a power cycle for the model.
#pragma once

#include "base/clock.h"
#include "pci/model.h"

#include <mqblk/error.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace mqblk {

class Reactor;

namespace pci {

struct VfioUserServerOptions {
    bool map_areas = true;      ///< let clients map the model's areas, which the model then has to poll
    bool posted_writes = true;  ///< let clients that know it queue register writes in shared memory (wire/vfio_user.h)
    Duration version_timeout = std::chrono::seconds(10);  ///< for a client to say its version, before others wait
};

/// One reactor's. Everything runs there, the model included.
class VfioUserServer {
  public:
    /// Listens on `socket_path`, a new socket file, removed at the end; one that a dead server left behind is replaced.
    /// The error names the path, the reason and the remedy.
    [[nodiscard]] static Result<std::unique_ptr<VfioUserServer>> listen(Reactor& reactor, std::string socket_path,
                                                                        std::unique_ptr<Model> model,
                                                                        VfioUserServerOptions options = {});
    virtual ~VfioUserServer() = default;  ///< on the reactor's thread; the client sees its function go

    [[nodiscard]] virtual bool connected() const noexcept = 0;
    [[nodiscard]] virtual Model& model() noexcept = 0;
    [[nodiscard]] virtual std::uint64_t clients_served() const noexcept = 0;

  protected:
    VfioUserServer() = default;
};

}  // namespace pci
}  // namespace mqblk
