// SPDX-License-Identifier: Apache-2.0
#include "registry/target_service.h"

#include "base/units.h"
#include "registry/resize.h"
#include "registry/services.h"
#include "registry/uri.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <future>

namespace mqblk::registry {

using device::nvme::NamespaceConfig;
using device::nvme::TcpTarget;

namespace {

/// A port number that nobody has now, for the discovery log, which must name it before it is listened on.
Result<std::uint16_t> free_port(const fabric::Address& address) {
    const bool v6 = address.host.find(':') != std::string::npos;
    const int fd = ::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return std::unexpected(Error::from_errno(errno, "finding a free port"));
    sockaddr_storage place{};
    place.ss_family = v6 ? AF_INET6 : AF_INET;
    socklen_t bytes = v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    const bool ok = ::bind(fd, reinterpret_cast<sockaddr*>(&place), bytes) == 0 &&
                    ::getsockname(fd, reinterpret_cast<sockaddr*>(&place), &bytes) == 0;
    const int problem = errno;
    ::close(fd);
    if (!ok) return std::unexpected(Error::from_errno(problem, "finding a free port"));
    return ntohs(v6 ? reinterpret_cast<sockaddr_in6&>(place).sin6_port
                    : reinterpret_cast<sockaddr_in&>(place).sin_port);
}

}  // namespace

TargetService::TargetService(Context& context, Options options)
    : context_(context), options_(std::move(options)), target_(options_.target) {}

Result<std::unique_ptr<TargetService>> TargetService::start(Context& context, Options options) {
    std::unique_ptr<TargetService> service(new TargetService(context, std::move(options)));
    const auto& o = service->options_;
    const unsigned count = o.cores.empty() ? std::max(1u, o.threads) : static_cast<unsigned>(o.cores.size());
    for (unsigned i = 0; i < count; ++i) {
        const int core = o.cores.empty() ? -1 : static_cast<int>(o.cores[i]);
        auto thread = ReactorThread::start(context.services().clock(), {fmt::format("mqblk-{}", i), core, o.poll});
        if (!thread) return std::unexpected(thread.error());
        service->threads_.push_back(std::move(*thread));
    }
    return service;
}

TargetService::~TargetService() {
    constexpr Duration for_ever = std::chrono::hours(24 * 365);
    static_cast<void>(close(for_ever));
}

Result<> TargetService::close(Duration bound) {
    const auto until = std::chrono::steady_clock::now() + bound;
    for (auto& listener : listeners_) {  // one that has not ended stays, and its memory
        if (!listener) continue;
        auto gone = std::make_shared<std::promise<void>>();
        listener->shutdown([gone] { gone->set_value(); });
        if (gone->get_future().wait_until(until) != std::future_status::ready) {
            return fail(Errc::timed_out,
                        fmt::format("commands have not ended in {} s in the devices they were given to; their result "
                                    "is not known",
                                    std::chrono::duration_cast<std::chrono::seconds>(bound).count()));
        }
        threads_.front()->run([&] { listener.reset(); });
    }
    listeners_.clear();
    return {};
}

std::vector<Reactor*> TargetService::reactors() const {
    std::vector<Reactor*> result;
    for (const auto& thread : threads_) result.push_back(&thread->reactor());
    return result;
}

Result<fabric::Address> TargetService::listen(fabric::Address address) {
    const std::lock_guard lock(mutex_);
    constexpr unsigned most_attempts = 8;  // somebody else may take the free port first
    if (address.port != 0) return listen_at(std::move(address));
    for (unsigned attempt = 1;; ++attempt) {
        const auto port = free_port(address);
        if (!port) return std::unexpected(port.error());
        auto taken = listen_at({address.host, *port});
        if (taken || attempt == most_attempts || taken.error().code() != Errc::already_exists) return taken;
    }
}

Result<fabric::Address> TargetService::listen_at(fabric::Address address) {
    const auto network = context_.services().network();
    if (!network) return std::unexpected(network.error());
    const auto port = target_.add_port({0, "tcp", address.host, std::to_string(address.port)});
    if (!port) return std::unexpected(port.error());
    auto options = options_.tcp;
    options.listen = std::move(address);
    Result<std::unique_ptr<TcpTarget>> listener = fail(Errc::closed, "not started");
    threads_.front()->run([&] { listener = TcpTarget::listen(target_, *port, **network, reactors(), options); });
    if (!listener) {
        [[maybe_unused]] const auto removed = target_.remove_port(*port);
        return std::unexpected(listener.error());
    }
    const auto taken = (*listener)->address();
    listeners_.push_back(std::move(*listener));
    return taken;
}

Result<NamespaceConfig> TargetService::open_namespace(const NamespaceEntry& entry) const {
    const auto uri = Uri::parse(entry.uri);
    if (!uri) return std::unexpected(uri.error());
    auto device = context_.services().open(*uri);
    if (!device) return std::unexpected(device.error());
    NamespaceConfig config;
    config.nsid = entry.nsid;
    config.uri = uri->to_string();  // plain ASCII, as JSON can hold it
    config.device = std::move(*device);
    config.uuid = entry.uuid;
    config.nguid = entry.nguid;
    return config;
}

Result<TargetService::Added> TargetService::add_opened(const std::string& nqn, NamespaceConfig config) {
    const std::string uri = config.uri;
    const auto nsid = target_.add_namespace(nqn, std::move(config));
    if (!nsid) return std::unexpected(nsid.error());
    uris_[{nqn, *nsid}] = uri;
    auto info = target_.namespace_info(nqn, *nsid);
    if (!info) return std::unexpected(info.error());
    return Added{nqn, std::move(*info)};
}

Result<TargetService::Added> TargetService::add(const std::string& nqn, NamespaceEntry entry) {
    const std::lock_guard lock(mutex_);
    const auto created = context_.services().created_count();
    auto config = open_namespace(entry);
    if (!config) return std::unexpected(config.error());
    auto made = ensure_subsystem(nqn);
    auto added = made ? add_opened(nqn, std::move(*config)) : std::unexpected(made.error());
    if (!added) context_.services().remove_created(created);
    return added;
}

Result<> TargetService::remove(const std::string& nqn, std::uint32_t nsid) {
    const std::lock_guard lock(mutex_);
    auto removed = target_.remove_namespace(nqn, nsid);
    if (removed) uris_.erase({nqn, nsid});
    return removed;
}

Result<> TargetService::resize(const std::string& nqn, std::uint32_t nsid, std::uint64_t bytes, bool shrink) {
    const std::lock_guard lock(mutex_);
    const auto device = target_.device(nqn, nsid);
    if (!device) return std::unexpected(device.error());
    auto& text = uris_[{nqn, nsid}];
    auto uri = Uri::parse(text);
    if (!uri) return std::unexpected(uri.error());
    const std::uint64_t present = (*device)->sectors() * sector_bytes;
    if (bytes < present && !shrink) {
        return fail(Errc::invalid_argument,
                    fmt::format("{} has {}; {} would cut off what lies beyond, for good: say so with --shrink", text,
                                format_size(present), format_size(bytes)));
    }
    if (auto ok = resize_device(**device, *uri, bytes); !ok) return ok;
    // A file has its size by itself, but a smaller one must not be grown again when it is loaded.
    if (uri->scheme != "file" || uri->find("size") != nullptr) uri->set("size", format_size(bytes));
    text = uri->to_string();
    return {};
}

Result<> TargetService::ensure_subsystem(const std::string& nqn, bool allow_any) {
    const std::lock_guard lock(mutex_);
    if (target_.has_subsystem(nqn)) return {};
    device::nvme::SubsystemConfig config;
    config.nqn = nqn;
    config.allow_any_host = allow_any;
    return target_.add_subsystem(std::move(config));
}

Result<> TargetService::allow_host(const std::string& nqn, const std::string& host_nqn) {
    const std::lock_guard lock(mutex_);
    return target_.allow_host(nqn, host_nqn);
}

Result<> TargetService::disallow_host(const std::string& nqn, const std::string& host_nqn) {
    const std::lock_guard lock(mutex_);
    return target_.disallow_host(nqn, host_nqn);
}

Result<> TargetService::allow_any_host(const std::string& nqn, bool any) {
    const std::lock_guard lock(mutex_);
    return target_.allow_any_host(nqn, any);
}

std::vector<TargetService::Added> TargetService::namespaces() const {
    const std::lock_guard lock(mutex_);
    std::vector<Added> result;
    for (const auto& subsystem : target_.subsystems()) {
        const auto all = target_.namespaces(subsystem.nqn);
        if (!all) continue;
        for (auto info : *all) {
            const auto uri = uris_.find({subsystem.nqn, info.nsid});
            if (uri != uris_.end()) info.uri = uri->second;
            result.push_back({subsystem.nqn, std::move(info)});
        }
    }
    std::sort(result.begin(), result.end(), [](const Added& a, const Added& b) {
        return std::tie(a.nqn, a.info.nsid) < std::tie(b.nqn, b.info.nsid);
    });
    return result;
}

std::vector<fabric::Address> TargetService::addresses() const {
    const std::lock_guard lock(mutex_);
    std::vector<fabric::Address> result;
    for (const auto& listener : listeners_) result.push_back(listener->address());
    return result;
}

unsigned TargetService::connections() const {
    const std::lock_guard lock(mutex_);
    unsigned sum = 0;
    for (const auto& listener : listeners_) sum += listener->connections();
    return sum;
}

TargetConfig TargetService::save() const {
    const std::lock_guard lock(mutex_);
    TargetConfig config;
    for (const auto& subsystem : target_.subsystems()) {
        config.subsystems.push_back(
            {subsystem.nqn, subsystem.serial, subsystem.model, subsystem.allow_any_host, subsystem.allowed_hosts, {}});
    }
    for (auto& subsystem : config.subsystems) {
        std::sort(subsystem.allowed_hosts.begin(), subsystem.allowed_hosts.end());
    }
    std::sort(config.subsystems.begin(), config.subsystems.end(),
              [](const auto& a, const auto& b) { return a.nqn < b.nqn; });
    for (auto& [nqn, info] : namespaces()) {
        const auto entry = std::find_if(config.subsystems.begin(), config.subsystems.end(),
                                        [&, &name = nqn](const auto& s) { return s.nqn == name; });
        if (entry != config.subsystems.end()) entry->namespaces.push_back({info.nsid, info.uri, info.uuid, info.nguid});
    }
    return config;
}

}  // namespace mqblk::registry
