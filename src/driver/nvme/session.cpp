// SPDX-License-Identifier: Apache-2.0
#include "driver/nvme/session.h"

#include "driver/nvme/connect_command.h"
#include "reactor/signal.h"
#include "wire/nvme_fabrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

namespace mqblk::driver::nvme {

namespace {

namespace property = wire::nvme::property;
namespace csts = wire::nvme::csts;
namespace cc = wire::nvme::cc;

constexpr Duration first_status_poll = std::chrono::milliseconds(1);
constexpr Duration longest_status_poll = std::chrono::milliseconds(50);

wire::nvme::Command property_command(std::uint8_t type, std::uint32_t offset, bool eight_bytes, std::uint64_t value) {
    wire::nvme::PropertyCommand command{};
    command.type = type;
    command.attributes = eight_bytes ? 1 : 0;
    command.offset = offset;
    command.value = value;
    return std::bit_cast<wire::nvme::Command>(command);
}

Task<Result<std::uint64_t>> property_get(const Session& session, std::uint32_t offset, bool eight_bytes,
                                         std::string_view what) {
    AdminQueue::Order order = session.order(what);
    order.command = property_command(wire::nvme::fabrics_type::property_get, offset, eight_bytes, 0);
    const auto answer = co_await session.admin->require(order);
    if (!answer) co_return std::unexpected(answer.error());
    co_return answer->result.value();
}

Task<Result<>> property_set(const Session& session, std::uint32_t offset, std::uint32_t value, std::string_view what) {
    AdminQueue::Order order = session.order(what);
    order.command = property_command(wire::nvme::fabrics_type::property_set, offset, false, value);
    const auto answer = co_await session.admin->require(order);
    if (!answer) co_return std::unexpected(answer.error());
    co_return Result<>();
}

/// Reads CSTS until (value & mask) == wanted.
Task<Result<>> await_status(Reactor& reactor, const Session& session, std::uint32_t mask, std::uint32_t wanted,
                            Duration bound) {
    const Time deadline = reactor.now() + bound;
    Duration pause = first_status_poll;
    for (;;) {
        const auto status = co_await property_get(session, property::csts, false, "Property Get of CSTS");
        if (!status) co_return std::unexpected(status.error());
        // First: a controller that is not there reads as all ones, ready and all.
        if ((*status & csts::fatal) != 0) {
            co_return mqblk::fail(Errc::io, fmt::format("the controller reports a fatal status (CSTS {:#x})", *status));
        }
        if ((*status & mask) == wanted) co_return Result<>();
        if (reactor.now() >= deadline) {
            const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(bound).count();
            co_return mqblk::fail(Errc::timed_out,
                                  fmt::format("the controller's status was still {:#x} after {} ms", *status, ms));
        }
        co_await Pause(reactor, pause);
        pause = std::min(pause * 2, longest_status_poll);
    }
}

Task<Result<>> connect_admin(Session& session, const Association::Terms& terms, Duration keep_alive, bool* refused) {
    const auto request = std::make_shared<ConnectRequest>(
        build_connect(terms, 0, AdminQueue::depth, wire::nvme::controller_id_dynamic, keep_alive));
    AdminQueue::Order order = session.order("Connect");
    order.timeout = terms.connect_timeout;
    order.command = request->command;
    order.data = {reinterpret_cast<std::byte*>(&request->data), sizeof(request->data)};
    order.transfer = Transfer::to_target;
    const auto answer = co_await session.admin->execute(order);
    if (!answer) co_return std::unexpected(answer.error());
    if (wire::nvme::status_of(*answer) != 0) {
        if (refused != nullptr) *refused = refused_for_good(*answer);
        co_return std::unexpected(connect_error(terms, *answer));
    }
    const auto dw0 = static_cast<std::uint32_t>(answer->result);
    if ((dw0 & wire::nvme::connect_authentication_mask) != 0) {
        co_return mqblk::fail(Errc::not_supported,
                              fmt::format("target {} wants authentication for '{}', which mqblk does not offer; switch "
                                          "it off there for this host",
                                          terms.transport->target(), terms.subsystem_nqn));
    }
    session.controller_id = static_cast<std::uint16_t>(dw0);
    co_return Result<>();
}

Task<Result<>> enable(Reactor& reactor, Session& session) {
    const auto capabilities = co_await property_get(session, property::cap, true, "Property Get of CAP");
    if (!capabilities) co_return std::unexpected(capabilities.error());
    session.capabilities = *capabilities;
    if (wire::nvme::cap::min_page_shift_of(*capabilities) > 12) {
        co_return mqblk::fail(Errc::not_supported, "the controller wants memory pages larger than 4 KiB");
    }
    const bool command_sets = (*capabilities & wire::nvme::cap::css_csi) != 0;
    const std::uint32_t configuration = cc::enable | cc::entry_sizes | (command_sets ? cc::css_csi : cc::css_nvm);
    const auto set = co_await property_set(session, property::cc, configuration, "Property Set of CC");
    if (!set) co_return std::unexpected(set.error());
    const Duration stated = std::chrono::milliseconds(wire::nvme::cap::ready_timeout_ms_of(*capabilities) + 500);
    const Duration bound = std::min(stated, session.admin_timeout);
    const auto ready = co_await await_status(reactor, session, csts::ready, csts::ready, bound);
    if (!ready) co_return std::unexpected(ready.error().in("enable the controller"));
    const auto version = co_await property_get(session, property::vs, false, "Property Get of VS");
    if (!version) co_return std::unexpected(version.error());
    session.version = static_cast<std::uint32_t>(*version);
    co_return Result<>();
}

}  // namespace

Task<Result<Session>> open_session(Reactor& reactor, const Association::Terms& terms, SessionOptions options) {
    Session session;
    session.admin_timeout = options.admin_timeout;
    session.admin = std::make_shared<AdminQueue>(reactor, terms.transport->target(), std::move(options.lost));
    session.admin->end_by(reactor.now() + terms.connect_timeout, terms.connect_timeout);
    auto pair = co_await terms.transport->open(
        reactor, *session.admin, {AdminQueue::depth, Transport::admin_capsule_bytes, terms.connect_timeout});
    if (!pair) co_return std::unexpected(std::move(pair.error()));
    session.admin->attach(std::move(*pair));
    auto done = co_await connect_admin(session, terms, options.keep_alive, options.refused);
    if (done) done = co_await enable(reactor, session);
    if (!done) {
        session.admin->close(done.error());
        co_return std::unexpected(done.error());
    }
    co_return session;
}

Task<Result<>> identify_controller(const Session& session, wire::nvme::IdentifyController& page) {
    AdminQueue::Order order = session.read_order("Identify Controller", &page, sizeof(page));
    order.command.opcode = wire::nvme::admin_opcode::identify;
    order.command.cdw10 = wire::nvme::cns::controller;
    const auto answer = co_await session.admin->require(order);
    if (!answer) co_return std::unexpected(answer.error());
    co_return Result<>();
}

Task<Result<>> shut_down(Reactor& reactor, const Session& session, Duration bound) {
    const std::uint32_t configuration = cc::enable | cc::entry_sizes | cc::shutdown_normal;
    const auto set = co_await property_set(session, property::cc, configuration, "Property Set of CC.SHN");
    if (!set) co_return std::unexpected(set.error());
    co_return co_await await_status(reactor, session, csts::shutdown_mask, csts::shutdown_complete, bound);
}

}  // namespace mqblk::driver::nvme
