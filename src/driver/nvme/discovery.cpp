// SPDX-License-Identifier: Apache-2.0
//
// The log is read in pieces, between two readings of its generation counter: if that moved, the pieces may not belong
// together, and all is read again.
#include "driver/nvme/discovery.h"

#include "base/printable.h"
#include "wire/nvme_fabrics.h"
#include "wire/nvme_logs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace mqblk::driver::nvme {

namespace {

constexpr std::size_t entries_per_piece = 4;
constexpr std::uint64_t most_records = 16384;  ///< a log that claims more is not believed
constexpr unsigned most_attempts = 10;

using WireEntry = wire::nvme::DiscoveryEntry;
using Piece = std::array<WireEntry, entries_per_piece>;

Task<Result<>> read_log(const Session& session, std::uint64_t offset, void* to, std::size_t bytes) {
    AdminQueue::Order order = session.read_order("Get Log Page of the discovery log", to, bytes);
    order.command.opcode = wire::nvme::admin_opcode::get_log_page;
    wire::nvme::set_log_request(order.command, wire::nvme::log_id::discovery, offset, bytes);
    const auto answer = co_await session.admin->require(order);
    if (!answer) co_return std::unexpected(answer.error());
    co_return Result<>();
}

std::string transport_name(std::uint8_t type) {
    switch (type) {
        case wire::nvme::transport_type::rdma:
            return "rdma";
        case wire::nvme::transport_type::fibre_channel:
            return "fc";
        case wire::nvme::transport_type::tcp:
            return "tcp";
        case wire::nvme::transport_type::loop:
            return "loop";
        default:
            return fmt::format("unknown ({})", type);
    }
}

std::string family_name(std::uint8_t family) {
    switch (family) {
        case wire::nvme::address_family::none:
            return "none";
        case wire::nvme::address_family::ipv4:
            return "ipv4";
        case wire::nvme::address_family::ipv6:
            return "ipv6";
        case wire::nvme::address_family::infiniband:
            return "ib";
        case wire::nvme::address_family::fibre_channel:
            return "fc";
        default:
            return fmt::format("unknown ({})", family);
    }
}

std::string subsystem_kind(std::uint8_t type) {
    switch (type) {
        case wire::nvme::subsystem_type::discovery:
            return "discovery referral";
        case wire::nvme::subsystem_type::nvme:
            return "nvme subsystem";
        case wire::nvme::subsystem_type::current_discovery:
            return "current discovery subsystem";
        default:
            return fmt::format("unknown ({})", type);
    }
}

std::string secure_channel(std::uint8_t requirements) {
    switch (requirements & wire::nvme::discovery_requirement::secure_channel_mask) {
        case wire::nvme::discovery_requirement::secure_channel_required:
            return "required";
        case wire::nvme::discovery_requirement::secure_channel_not_required:
            return "not required";
        default:
            return "not specified";
    }
}

template <std::size_t Bytes>
std::string entry_text(const std::array<char, Bytes>& field) {
    return printable(wire::nvme::text_of(field));
}

DiscoveryEntry entry_of(const WireEntry& from) {
    DiscoveryEntry entry;
    entry.transport = transport_name(from.transport);
    entry.address_family = family_name(from.address_family);
    entry.subsystem_type = subsystem_kind(from.subsystem_type);
    entry.address = entry_text(from.address);
    entry.service = entry_text(from.service_id);
    entry.nqn = entry_text(from.subsystem_nqn);
    entry.port_id = from.port_id;
    entry.controller_id = from.controller_id;
    entry.admin_queue_size = from.admin_queue_size;
    entry.secure_channel = secure_channel(from.requirements);
    return entry;
}

Task<Result<std::vector<DiscoveryEntry>>> read_entries(const Session& session) {
    const auto header = std::make_unique<wire::nvme::DiscoveryHeader>();
    const auto piece = std::make_unique<Piece>();
    for (unsigned attempt = 0; attempt < most_attempts; ++attempt) {
        auto done = co_await read_log(session, 0, header.get(), sizeof(*header));
        if (!done) co_return std::unexpected(done.error());
        const std::uint64_t generation = header->generation, records = header->records;
        if (header->record_format != 0 || records > most_records) {
            co_return mqblk::fail(Errc::protocol, fmt::format("the discovery log has {} records of format {}", records,
                                                              header->record_format.value()));
        }
        std::vector<DiscoveryEntry> entries;
        while (entries.size() < records) {
            const std::size_t count = std::min<std::uint64_t>(entries_per_piece, records - entries.size());
            const std::uint64_t offset = sizeof(*header) + entries.size() * sizeof(WireEntry);
            done = co_await read_log(session, offset, piece.get(), count * sizeof(WireEntry));
            if (!done) co_return std::unexpected(done.error());
            for (std::size_t i = 0; i < count; ++i) entries.push_back(entry_of((*piece)[i]));
        }
        done = co_await read_log(session, 0, header.get(), sizeof(*header));
        if (!done) co_return std::unexpected(done.error());
        if (header->generation == generation && header->records == records) co_return entries;
    }
    co_return mqblk::fail(
        Errc::io, fmt::format("the discovery log changed during each of {} readings; try again", most_attempts));
}

}  // namespace

Task<Result<std::vector<DiscoveryEntry>>> read_discovery(Reactor& reactor, const Association::Terms& terms,
                                                         Duration admin_timeout) {
    SessionOptions options;
    options.admin_timeout = std::min(admin_timeout, terms.connect_timeout);
    auto session = co_await open_session(reactor, terms, std::move(options));
    if (!session) co_return std::unexpected(std::move(session.error()));
    session->admin->end_by(never);
    auto entries = co_await read_entries(*session);
    if (entries) {
        // In order, but a discovery controller that does not take part costs nothing.
        const auto ended = co_await shut_down(reactor, *session, std::chrono::seconds(1));
        static_cast<void>(ended);
    }
    session->admin->close(Error(Errc::closed, "the discovery log was read"));
    if (!entries) co_return std::unexpected(entries.error().in("discover at " + terms.transport->target()));
    co_return entries;
}

}  // namespace mqblk::driver::nvme
