// SPDX-License-Identifier: Apache-2.0
#include "driver/nvme/scan.h"

#include "base/log.h"
#include "wire/nvme_logs.h"

#include <fmt/format.h>

#include <array>
#include <memory>

namespace mqblk::driver::nvme {

namespace {

namespace cns = wire::nvme::cns;

constexpr std::size_t ids_per_page = wire::nvme::identify_bytes / sizeof(le32);
constexpr std::uint32_t version_with_lists = 0x00010100;        // active namespace list
constexpr std::uint32_t version_with_descriptors = 0x00010300;  // namespace identification descriptors

struct ScanPages {
    std::array<le32, ids_per_page> list;
    std::array<std::uint8_t, wire::nvme::identify_bytes> descriptors;
    wire::nvme::IdentifyNamespace ns;
};

template <class Page>
AdminQueue::Order identify_order(const Session& session, std::uint8_t what, std::uint32_t nsid, Page& page,
                                 std::string_view name) {
    static_assert(sizeof(Page) == wire::nvme::identify_bytes);
    AdminQueue::Order order = session.read_order(name, &page, sizeof(page));
    order.command.opcode = wire::nvme::admin_opcode::identify;
    order.command.namespace_id = nsid;
    order.command.cdw10 = what;
    return order;
}

bool succeeded(const wire::nvme::Completion& answer) {
    return (wire::nvme::status_of(answer) & wire::nvme::status::code_mask) == 0;
}

/// Adds the identifiers of one page; false: it was the last. An order that goes back would never end.
Result<bool> take_list(const std::array<le32, ids_per_page>& page, std::uint32_t& last,
                       std::set<std::uint32_t>& active) {
    for (const std::uint32_t nsid : page) {
        if (nsid == 0) return false;
        if (nsid <= last || nsid >= 0xfffffffe) {
            return fail(Errc::protocol, fmt::format("the list of active namespaces has {} after {}", nsid, last));
        }
        if (active.size() == most_namespaces) {
            log_warning(
                fmt::format("nvme: more than {} namespaces; those from {} on are left out", most_namespaces, nsid));
            return false;
        }
        last = nsid;
        active.insert(nsid);
    }
    return true;
}

Task<Result<std::set<std::uint32_t>>> list_active(const Session& session, const ControllerFacts& facts,
                                                  ScanPages& pages) {
    std::set<std::uint32_t> active;
    if (facts.version < version_with_lists) {
        for (std::uint32_t nsid = 1; nsid <= facts.max_namespaces && nsid <= most_namespaces; ++nsid)
            active.insert(nsid);
        co_return active;
    }
    std::uint32_t last = 0;
    for (;;) {
        const auto answer = co_await session.admin->require(
            identify_order(session, cns::active_namespaces, last, pages.list, "Identify Active Namespace List"));
        if (!answer) co_return std::unexpected(answer.error());
        const auto more = take_list(pages.list, last, active);
        if (!more) co_return std::unexpected(more.error());
        if (!*more) co_return active;
    }
}

/// Errors end the scan; a namespace that cannot be used is only left out.
Task<Result<>> scan_one(const Session& session, const ControllerFacts& facts, std::uint32_t nsid, ScanPages& pages,
                        NamespaceTable& table) {
    std::span<const std::uint8_t> descriptors;
    if (facts.version >= version_with_descriptors) {
        pages.descriptors.fill(0);
        const auto answer = co_await session.admin->execute(
            identify_order(session, cns::descriptors, nsid, pages.descriptors, "Identify Namespace Descriptors"));
        if (!answer) co_return std::unexpected(answer.error());
        if (succeeded(*answer)) descriptors = pages.descriptors;
    }
    const auto answer = co_await session.admin->execute(
        identify_order(session, cns::identify_namespace, nsid, pages.ns, "Identify Namespace"));
    if (!answer) co_return std::unexpected(answer.error());
    if (!succeeded(*answer)) {
        table.remove(nsid);
        co_return Result<>();
    }
    const auto read = read_namespace(nsid, pages.ns, descriptors, facts);
    if (read) {
        table.update(*read);
    } else {
        if (read.error().code() != Errc::not_found) log_limited("nvme: namespace", read.error().message());
        table.remove(nsid);
    }
    co_return Result<>();
}

}  // namespace

Task<Result<ChangedNamespaces>> read_changed_namespaces(const Session& session) {
    const auto log = std::make_unique<wire::nvme::ChangedNamespacesLog>();
    AdminQueue::Order order = session.read_order("Get Log Page of changed namespaces", log.get(), sizeof(*log));
    order.command.opcode = wire::nvme::admin_opcode::get_log_page;
    order.command.namespace_id = wire::nvme::nsid_all;
    wire::nvme::set_log_request(order.command, wire::nvme::log_id::changed_namespaces, 0, sizeof(*log));
    const auto answer = co_await session.admin->execute(order);
    if (!answer) co_return std::unexpected(answer.error());
    ChangedNamespaces changed;
    if (!succeeded(*answer) || (*log)[0] == wire::nvme::nsid_all) {
        changed.everything = true;
        co_return changed;
    }
    for (const std::uint32_t nsid : *log) {
        if (nsid == 0) break;
        changed.which.insert(nsid);
    }
    co_return changed;
}

Task<Result<>> scan_namespaces(const Session& session, const ControllerFacts& facts, const ChangedNamespaces& changed,
                               NamespaceTable& table, std::function<bool()> stop) {
    const auto pages = std::make_unique<ScanPages>();
    const auto active = co_await list_active(session, facts, *pages);
    if (!active) co_return std::unexpected(active.error());
    table.keep_only(*active);
    for (const std::uint32_t nsid : *active) {
        if (stop()) co_return Result<>();
        if (!changed.everything && !changed.which.contains(nsid) && table.contains(nsid)) continue;
        const auto scanned = co_await scan_one(session, facts, nsid, *pages, table);
        if (!scanned) co_return std::unexpected(scanned.error());
    }
    co_return Result<>();
}

}  // namespace mqblk::driver::nvme
