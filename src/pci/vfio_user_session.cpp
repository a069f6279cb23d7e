// SPDX-License-Identifier: Apache-2.0
//
// The life of a session: version first, then commands. Queries and accesses are in vfio_user_commands.cpp.
#include "pci/vfio_user_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mqblk::pci {

namespace vu = wire::vfio_user;

namespace {

/// What a client is told that a message may carry. More would be taken, but QEMU goes away when it hears of more
/// than 16.
constexpr std::uint32_t max_fds_at_once = 16;

}  // namespace

VfioUserSession::VfioUserSession(FunctionCore& core, HostMemory& memory, DmaMessenger& messenger,
                                 VfioUserServerOptions options)
    : core_(core), options_(options), client_memory_(memory, messenger), interrupts_(core.interrupt_counts()) {}

VfioUserSession::Outcome VfioUserSession::handle(Message message, Reply& reply) {
    reply = {};
    request_ = message.header;
    if ((request_.flags & vu::flag_type_mask) != vu::flag_command) {
        breach_ = fmt::format("a message of type {} where commands are expected", request_.flags & vu::flag_type_mask);
        return Outcome::breach;
    }
    if (!negotiated_) {
        const int error = request_.command == static_cast<std::uint16_t>(vu::Command::version)
                              ? negotiate(message.payload, reply)
                              : EINVAL;
        const Outcome outcome = finish(error, reply);
        if (error == 0) return outcome;
        if (breach_.empty()) breach_ = fmt::format("command {} before the version was agreed", request_.command);
        return Outcome::breach;
    }
    const int error = dispatch(message, reply);
    if (error == 0 && !settled()) return Outcome::pending;
    return finish(error, reply);
}

VfioUserSession::Outcome VfioUserSession::resume(Reply& reply) {
    if (!settled()) return Outcome::pending;
    return finish(0, reply);
}

/// Whether what the last command began is done: memory that nobody uses any more, a model at rest.
bool VfioUserSession::settled() {
    if (waiting_memory_) waiting_memory_ = !client_memory_.drained();
    if (waiting_reset_) waiting_reset_ = !core_.model().quiet();
    return !waiting_memory_ && !waiting_reset_;
}

VfioUserSession::Outcome VfioUserSession::finish(int error, Reply& reply) {
    if (error != 0) {
        reply.payload.clear();
        reply.fds.clear();
    }
    reply.header = {.message_id = request_.message_id,
                    .command = request_.command,
                    .message_size = static_cast<std::uint32_t>(sizeof reply.header + reply.payload.size()),
                    .flags = vu::flag_reply | (error != 0 ? vu::flag_error : 0),
                    .error = static_cast<std::uint32_t>(error)};
    return (request_.flags & vu::flag_no_reply) != 0 ? Outcome::silent : Outcome::replied;
}

int VfioUserSession::negotiate(Payload payload, Reply& reply) {
    const auto proposed = decode_version(payload);
    if (!proposed) {
        breach_ = proposed.error().message();
        return EINVAL;
    }
    if (proposed->major != vu::version_major) {
        breach_ = fmt::format("protocol version {}.{}; this server speaks {}.{}", proposed->major, proposed->minor,
                              vu::version_major, vu::version_minor);
        return ENOTSUP;
    }
    client_ = *proposed;
    negotiated_ = true;
    VfioUserVersion agreed;
    agreed.minor = std::min(proposed->minor, vu::version_minor);
    agreed.max_fds = max_fds_at_once;
    agreed.max_dma_maps = ClientMemory::max_regions;
    agreed.write_multiple = proposed->write_multiple;
    if (options_.posted_writes && proposed->posted_writes >= vu::posted_writes_version && posted_.open()) {
        agreed.posted_writes = vu::posted_writes_version;
        reply.fds.push_back(posted_.fd());
    }
    reply.payload = encode_version(agreed);
    return 0;
}

int VfioUserSession::dispatch(Message& message, Reply& reply) {
    const Payload payload = message.payload;
    switch (static_cast<vu::Command>(request_.command)) {
        case vu::Command::dma_map:
            return dma_map(message);
        case vu::Command::dma_unmap:
            return dma_unmap(payload, reply);
        case vu::Command::device_get_info:
            return device_info(payload, reply);
        case vu::Command::device_get_region_info:
            return region_info(payload, reply);
        case vu::Command::device_get_irq_info:
            return irq_info(payload, reply);
        case vu::Command::device_set_irqs:
            return set_irqs(message);
        case vu::Command::region_read:
            return region_read(payload, reply);
        case vu::Command::region_write:
            return region_write(payload, reply);
        case vu::Command::region_write_multi:
            return region_write_multi(payload, reply);
        case vu::Command::device_reset:
            return device_reset();
        case vu::Command::device_get_region_io_fds:
        case vu::Command::device_feature:
        case vu::Command::mig_data_read:
        case vu::Command::mig_data_write:
            return ENOTSUP;
        case vu::Command::version:
        case vu::Command::dma_read:
        case vu::Command::dma_write:
            break;
    }
    return EINVAL;
}

int VfioUserSession::device_reset() {
    core_.reset();
    waiting_reset_ = true;
    return 0;
}

void VfioUserSession::end() {
    interrupts_.clear(core_);
    core_.set_areas_mapped(false);
    client_memory_.unmap_all();
    core_.model().memory_changed();
    core_.reset();
}

bool VfioUserSession::ended() {
    const bool drained = client_memory_.drained();
    return drained && core_.model().quiet();
}

}  // namespace mqblk::pci
