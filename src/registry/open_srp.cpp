// SPDX-License-Identifier: Apache-2.0
//
// Opens LUNs of SRP targets: of one in this process, which is made on the way.
#include "base/units.h"
#include "driver/srp/srp.h"
#include "registry/schemes.h"
#include "registry/services.h"
#include "registry/srp_loop.h"

#include <fmt/format.h>

namespace mqblk::registry {

namespace {

driver::srp::Options read_srp_options(OptionReader& reader) {
    driver::srp::Options options;
    const auto number = [&](std::string_view name, auto& to, std::uint64_t low, std::uint64_t high) {
        to = static_cast<std::remove_reference_t<decltype(to)>>(reader.number(name, to, low, high));
    };
    constexpr auto ms = std::chrono::milliseconds(1);
    constexpr auto day = std::chrono::hours(24);
    number("cmd_sg_entries", options.cmd_sg_entries, 1, wire::srp::max_descriptors_in_unit);
    number("indirect_sg_entries", options.indirect_sg_entries, 1, driver::srp::Options::most_indirect_sg_entries);
    options.allow_ext_sg = reader.flag("allow_ext_sg", options.allow_ext_sg);
    number("max_sect", options.max_sect, 8, 1u << 14);
    number("queue_size", options.queue_size, 1, 4096);
    number("ch_count", options.ch_count, 0, 256);
    options.use_imm_data = reader.flag("use_imm_data", options.use_imm_data);
    options.prefer_fr = reader.flag("prefer_fr", options.prefer_fr);
    options.reconnect_delay = reader.time("reconnect_delay", options.reconnect_delay, ms, day);
    options.fast_io_fail_tmo = reader.time("fast_io_fail_tmo", options.fast_io_fail_tmo, ms, day);
    options.dev_loss_tmo = reader.time("dev_loss_tmo", options.dev_loss_tmo, ms, day);
    options.timeout = reader.time("timeout", options.timeout, ms, day);
    return options;
}

/// "/lun/N"
Result<unsigned> read_lun(const Uri& uri, const SchemeInfo& info) {
    constexpr std::string_view before = "/lun/";
    if (!uri.path.starts_with(before))
        return fail(Errc::invalid_argument, fmt::format("{}: \"{}\" names no LUN; write {}, as in {}", uri.scheme,
                                                        uri.path, info.form, info.example));
    const auto lun = parse_number("LUN", std::string_view(uri.path).substr(before.size()), 0, wire::srp::max_lun);
    if (!lun) return std::unexpected(lun.error().in(uri.scheme));
    return static_cast<unsigned>(*lun);
}

}  // namespace

Result<std::shared_ptr<Device>> open_srp_loop(Services& services, const Uri& uri, const SchemeInfo& info) {
    OptionReader reader(uri, info.options);
    auto options = read_srp_options(reader);
    const auto luns = reader.uris("lun");
    if (luns.empty()) reader.refuse("an SRP target needs a disk, such as lun=[ram://?size=64M]");
    if (auto ok = reader.finish(); !ok) return std::unexpected(ok.error());
    if (!uri.address.empty()) {
        return fail(Errc::invalid_argument,
                    fmt::format("{}: takes no address; write {}, as in {}", uri.scheme, info.form, info.example));
    }
    const auto lun = read_lun(uri, info);
    if (!lun) return std::unexpected(lun.error());
    auto loop = make_srp_loop(services, luns);
    if (!loop) return std::unexpected(loop.error().in(uri.scheme));
    const auto control = services.control();
    if (!control) return std::unexpected(control.error());
    options.name = uri.scheme;
    Reactor& reactor = (*control)->reactor();
    auto initiator = (*control)->wait_for([&] {
        return driver::srp::Initiator::connect(reactor, (*loop)->network(), SrpLoop::address(), options, *loop);
    });
    if (!initiator) return std::unexpected(initiator.error());
    return (*initiator)->device(*lun);
}

}  // namespace mqblk::registry
