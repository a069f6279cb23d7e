// SPDX-License-Identifier: Apache-2.0
//
// One client's session with a modelled function: each of its messages is checked and carried out, in order, and has one
// reply. No socket here: messages come in and replies go out as values, so that a fuzzer can be the client. A message
// that cannot be carried out is answered with an errno and changes nothing; one that breaks the protocol ends the
// session.
#pragma once

#include "pci/client_interrupts.h"
#include "pci/client_memory.h"
#include "pci/function_core.h"
#include "pci/posted_writes.h"
#include "pci/unix_socket.h"
#include "pci/vfio_user_server.h"
#include "pci/vfio_user_version.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mqblk::pci {

/// What goes back. The descriptors stay the session's.
struct Reply {
    wire::vfio_user::Header header{};
    std::vector<std::byte> payload;
    std::vector<int> fds;
};

/// The reactor's thread, but for deliver().
class VfioUserSession {
  public:
    enum class Outcome : std::uint8_t {
        replied,  ///< `reply` is to be sent
        silent,   ///< the client wants no reply
        pending,  ///< call resume() until it is one of the others; no message is taken meanwhile
        breach,   ///< say goodbye; `breach()` says why. A reply may be sent before
    };

    /// All outlive it.
    VfioUserSession(FunctionCore& core, HostMemory& memory, DmaMessenger& messenger, VfioUserServerOptions options);

    [[nodiscard]] Outcome handle(Message message, Reply& reply);
    [[nodiscard]] Outcome resume(Reply& reply);
    [[nodiscard]] const std::string& breach() const noexcept { return breach_; }
    [[nodiscard]] bool negotiated() const noexcept { return negotiated_; }
    [[nodiscard]] const VfioUserVersion& client() const noexcept { return client_; }

    /// Posted writes, if the client uses them. What is there is carried out before each message, and at any time when
    /// no message is pending, one by one: false if none is there. One that makes no sense does nothing.
    [[nodiscard]] bool posts() const noexcept { return posted_.opened(); }
    [[nodiscard]] bool carry_out_posted() noexcept;
    [[nodiscard]] PostedReader& posted() noexcept { return posted_; }

    /// The client is gone: nothing of it is used any more when ended() says so. The model is reset.
    void end();
    [[nodiscard]] bool ended();

    /// Any thread.
    bool deliver(InterruptType type, unsigned vector) noexcept { return interrupts_.deliver(type, vector); }
    [[nodiscard]] const ClientMemory& memory() const noexcept { return client_memory_; }

  private:
    using Payload = std::span<const std::byte>;

    /// Each returns 0 or the errno for the reply.
    [[nodiscard]] int negotiate(Payload, Reply&);
    [[nodiscard]] int dispatch(Message&, Reply&);
    [[nodiscard]] int dma_map(Message&);
    [[nodiscard]] int dma_unmap(Payload, Reply&);
    [[nodiscard]] int device_info(Payload, Reply&) const;
    [[nodiscard]] int region_info(Payload, Reply&) const;
    [[nodiscard]] int irq_info(Payload, Reply&) const;
    [[nodiscard]] int set_irqs(Message&);
    [[nodiscard]] int region_read(Payload, Reply&);
    [[nodiscard]] int region_write(Payload, Reply&);
    [[nodiscard]] int region_write_multi(Payload, Reply&);
    [[nodiscard]] int device_reset();

    [[nodiscard]] std::uint64_t region_bytes(std::uint32_t region) const noexcept;
    [[nodiscard]] bool within(std::uint64_t offset, std::uint32_t region, std::uint64_t count) const noexcept;
    void write_region(std::uint32_t region, std::uint64_t offset, Payload data);
    [[nodiscard]] bool settled();
    [[nodiscard]] Outcome finish(int error, Reply& reply);

    FunctionCore& core_;
    const VfioUserServerOptions options_;
    ClientMemory client_memory_;
    ClientInterrupts interrupts_;
    VfioUserVersion client_;
    PostedReader posted_;
    bool negotiated_ = false;
    bool waiting_memory_ = false, waiting_reset_ = false;
    wire::vfio_user::Header request_{};  ///< of the message in hand
    std::string breach_;
};

}  // namespace mqblk::pci
