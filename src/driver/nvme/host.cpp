// SPDX-License-Identifier: Apache-2.0
//
// Host: who asks for a controller that is connected already gets that one; who asks while it is being connected waits
// for the same attempt. Everything here runs in the control reactor.
#include "driver/nvme/host.h"

#include "driver/nvme/controller.h"
#include "driver/nvme/discovery.h"
#include "driver/nvme/host_identity.h"
#include "reactor/reactor.h"
#include "wire/nvme_fabrics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cassert>
#include <list>
#include <map>
#include <utility>

namespace mqblk::driver::nvme {

namespace {

using ControllerResult = Result<std::shared_ptr<Controller>>;

constexpr unsigned most_depth = 65535;

Result<> check_options(const HostOptions& options) {
    const auto negative = [](Duration duration) { return duration < Duration::zero(); };
    if (options.depth < 1 || options.depth > most_depth) {
        return fail(Errc::invalid_argument,
                    fmt::format("depth={}: an I/O queue holds 1 to {} commands", options.depth, most_depth));
    }
    if (options.queues > ControllerCore::most_io_queues) {
        return fail(Errc::invalid_argument,
                    fmt::format("queues={}: at most {} I/O queues are used; 0 means one per thread", options.queues,
                                ControllerCore::most_io_queues));
    }
    if (negative(options.keep_alive) || negative(options.ctrl_loss_tmo) ||
        options.connect_timeout <= Duration::zero() || options.io_timeout <= Duration::zero() ||
        options.admin_timeout <= Duration::zero() || options.reconnect_delay <= Duration::zero()) {
        return fail(Errc::invalid_argument, "a time of the NVMe host is negative or zero; give one such as 10s");
    }
    return {};
}

std::string key_of(const Transport& transport, const void* identity, const std::string& nqn, const HostOptions& o) {
    return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", transport.name(), transport.target(),
                       identity, nqn, o.host_nqn, o.host_id, o.queues, o.depth, o.header_digest, o.data_digest,
                       o.keep_alive.count(), o.connect_timeout.count(), o.io_timeout.count(), o.admin_timeout.count(),
                       o.reconnect_delay.count(), o.ctrl_loss_tmo.count());
}

}  // namespace

struct Host::Impl {
    struct Entry {
        std::weak_ptr<ControllerHandle> controller;
        std::weak_ptr<ControllerCore> core;
        bool connecting = false;
        std::list<Promise<ControllerResult>*> waiting;
    };

    Impl(Reactor& reactor, fabric::Network& net) : control(reactor), network(net) {}

    Task<ControllerResult> connect(std::shared_ptr<const Transport> transport, const void* identity, std::string nqn,
                                   HostOptions options);
    Task<Result<std::shared_ptr<ControllerCore>>> connect_new(std::shared_ptr<const Transport> transport,
                                                              const void* identity, std::string nqn,
                                                              HostOptions options);
    std::shared_ptr<FenceBook> fence_book(const Transport&, const void* identity, const std::string& nqn,
                                          const HostIdentity&);

    Reactor& control;
    fabric::Network& network;
    std::map<std::string, Entry> entries;
    std::map<std::string, std::shared_ptr<FenceBook>> fence_books;
};

Host::Host(Reactor& control, fabric::Network& network) : impl_(std::make_unique<Impl>(control, network)) {}
Host::~Host() {
    for (const auto& [key, entry] : impl_->entries) {
        assert(!entry.connecting);
        if (const auto core = entry.core.lock()) core->abandon();
    }
}

/// What was lost under one name is fenced under whichever options it is connected next.
std::shared_ptr<FenceBook> Host::Impl::fence_book(const Transport& transport, const void* identity,
                                                  const std::string& nqn, const HostIdentity& host) {
    std::erase_if(fence_books, [&](const auto& entry) {
        std::erase_if(*entry.second, [&](const Unfenced& lost) {
            return lost.association->may_act() == 0 || lost.dead_by <= control.now();
        });
        return entry.second.use_count() == 1 && entry.second->empty();
    });
    auto& book = fence_books[fmt::format("{} {} {} {} {} {}", transport.name(), transport.target(), identity, nqn,
                                         host.nqn, fmt::join(host.id, "."))];
    if (!book) book = std::make_shared<FenceBook>();
    return book;
}

Task<Result<std::shared_ptr<ControllerCore>>> Host::Impl::connect_new(std::shared_ptr<const Transport> transport,
                                                                      const void* identity_of, std::string nqn,
                                                                      HostOptions options) {
    const auto options_valid = check_options(options);
    if (!options_valid) co_return std::unexpected(options_valid.error());
    const auto nqn_valid = check_nqn("subsystem NQN", nqn);
    if (!nqn_valid) co_return std::unexpected(nqn_valid.error());
    auto identity = host_identity(options.host_nqn, options.host_id);
    if (!identity) co_return std::unexpected(std::move(identity.error()));
    auto book = fence_book(*transport, identity_of, nqn, *identity);
    const auto core = ControllerCore::create(control, std::move(transport), std::move(nqn), std::move(*identity),
                                             std::move(options), std::move(book));
    const auto up = co_await core->bring_up();
    if (!up) co_return std::unexpected(up.error());
    core->start();
    co_return core;
}

Task<ControllerResult> Host::Impl::connect(std::shared_ptr<const Transport> transport, const void* identity,
                                           std::string nqn, HostOptions options) {
    const std::string key = key_of(*transport, identity, nqn, options);
    std::erase_if(entries, [](const auto& entry) { return !entry.second.connecting && entry.second.core.expired(); });
    Entry& entry = entries[key];
    if (entry.connecting) {
        Promise<ControllerResult> promise;
        entry.waiting.push_back(&promise);
        co_return co_await promise;
    }
    if (const auto known = entry.controller.lock()) {
        const ControllerState state = known->state();
        if (state != ControllerState::dead && state != ControllerState::deleting) {
            co_return std::static_pointer_cast<Controller>(known);
        }
    }
    entry.connecting = true;
    const auto core = co_await connect_new(std::move(transport), identity, std::move(nqn), std::move(options));
    entry.connecting = false;
    ControllerResult result = core ? ControllerResult() : std::unexpected(core.error());
    if (core) {
        const auto handle = std::make_shared<ControllerHandle>(*core);
        entry.core = *core;
        entry.controller = handle;
        result = handle;
    }
    for (Promise<ControllerResult>* const waiter : std::exchange(entry.waiting, {})) waiter->set(result);
    co_return result;
}

Task<ControllerResult> Host::connect(fabric::Address address, std::string subsystem_nqn, HostOptions options) {
    auto transport = tcp_transport(impl_->network, {address, options.header_digest, options.data_digest});
    co_return co_await impl_->connect(std::move(transport), nullptr, std::move(subsystem_nqn), std::move(options));
}

Task<ControllerResult> Host::connect(std::shared_ptr<fabric::LoopTarget> target, std::string subsystem_nqn,
                                     HostOptions options) {
    const void* const identity = target.get();
    auto transport = loop_transport(std::move(target));
    co_return co_await impl_->connect(std::move(transport), identity, std::move(subsystem_nqn), std::move(options));
}

Task<Result<std::vector<DiscoveryEntry>>> Host::discover(fabric::Address address, HostOptions options) {
    const auto valid = check_options(options);
    if (!valid) co_return std::unexpected(valid.error());
    auto identity = host_identity(options.host_nqn, options.host_id);
    if (!identity) co_return std::unexpected(std::move(identity.error()));
    Association::Terms terms;
    terms.transport = tcp_transport(impl_->network, {address, options.header_digest, options.data_digest});
    terms.subsystem_nqn = wire::nvme::discovery_nqn;
    terms.host = std::move(*identity);
    terms.connect_timeout = options.connect_timeout;
    co_return co_await read_discovery(impl_->control, terms, options.admin_timeout);
}

}  // namespace mqblk::driver::nvme
