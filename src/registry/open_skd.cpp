// SPDX-License-Identifier: Apache-2.0
//
// Opens S1120 cards: a model in this process, one behind a vfio-user socket, a card in this machine.
#include "device/skd/card.h"
#include "driver/skd/skd.h"
#include "pci/in_process.h"
#include "pci/vfio.h"
#include "pci/vfio_user_client.h"
#include "reactor/uring_reactor.h"
#include "registry/schemes.h"
#include "registry/services.h"

#include <fmt/format.h>

#include <array>

namespace mqblk::registry {

namespace {

using driver::skd::IsrType;

driver::skd::Options read_driver_options(OptionReader& reader) {
    constexpr std::array<std::string_view, 3> isr_types{"0", "1", "2"};
    constexpr auto ms = std::chrono::milliseconds(1);
    driver::skd::Options options;
    const auto number = [&](std::string_view name, unsigned standard, unsigned most) {
        return static_cast<unsigned>(reader.number(name, standard, 1, most));
    };
    options.max_queue_depth = number("max_queue_depth", options.max_queue_depth, options.most_queue_depth);
    options.max_req_per_msg = number("max_req_per_msg", options.max_req_per_msg, wire::skd::max_requests_per_message);
    options.sgs_per_request = number("sgs_per_request", options.sgs_per_request, options.most_sgs_per_request);
    options.isr_type =
        static_cast<IsrType>(reader.choice("isr_type", isr_types, static_cast<std::size_t>(options.isr_type)));
    options.timeout = reader.time("timeout", options.timeout, ms, std::chrono::hours(1));
    return options;
}

device::skd::Options read_model_options(OptionReader& reader, const Uri& uri) {
    device::skd::Options options;
    options.serial = reader.text("serial", "");
    if (reader.has("serial") && options.serial.empty()) reader.reject("serial", "must be 1 to 12 characters");
    if (auto fits = device::skd::check_serial(options.serial); !fits)
        reader.refuse(fits.error().in("serial").message());
    const auto profile = device::skd::parse_profile(reader.text("profile", "none"));
    if (profile) {
        options.profile = *profile;
    } else {
        reader.reject("profile", "must be none or s1120");
    }
    for (const auto& option : uri.options) {
        if (option.name != "fault") continue;
        auto fault = device::skd::parse_fault(option.value);
        if (fault) {
            options.faults.push_back(*fault);
        } else {
            reader.refuse(fault.error().message());
        }
    }
    return options;
}

/// The reactor that the card lives in.
Result<std::shared_ptr<Reactor>> make_home(Services& services) {
    SeededRandom random(machine_seed());
    auto reactor = make_uring_reactor(services.clock(), random);
    if (!reactor) return std::unexpected(reactor.error());
    auto home = (*reactor)->shareable();
    if (home == nullptr)
        return fail(Errc::no_space, "the kernel gives no further io_uring; raise RLIMIT_NOFILE or open fewer devices");
    return home;
}

Result<std::shared_ptr<Device>> open_card(Services& services, Result<std::unique_ptr<pci::Function>> function,
                                          driver::skd::Options options, std::string name) {
    if (!function) return std::unexpected(function.error());
    auto home = make_home(services);
    if (!home) return std::unexpected(home.error());
    options.name = std::move(name);
    return driver::skd::open(std::move(*function), std::move(*home), options);
}

}  // namespace

Result<std::shared_ptr<Device>> open_skd_model(Services& services, const Uri& uri, const SchemeInfo& info) {
    OptionReader reader(uri, info.options);
    auto options = read_driver_options(reader);
    auto model = read_model_options(reader, uri);
    options.name = uri.scheme;
    const auto disks = reader.uris("disk");
    if (disks.empty()) reader.reject("disk", "is required, such as disk=[ram://?size=64M]");
    if (auto ok = reader.finish(); !ok) return std::unexpected(ok.error());
    if (!uri.address.empty() || uri.path.size() > 1) {
        return fail(Errc::invalid_argument,
                    fmt::format("{}: takes no address; write {}, as in {}", uri.scheme, info.form, info.example));
    }
    auto disk = services.open(*disks.front());
    if (!disk) return std::unexpected(disk.error());
    auto card = device::skd::Card::create(std::move(*disk), std::move(model));
    if (!card) return std::unexpected(card.error());
    auto home = make_home(services);
    if (!home) return std::unexpected(home.error());
    auto function = pci::make_in_process(std::move(*card), **home);
    if (!function) return std::unexpected(function.error());
    return driver::skd::open(std::move(*function), std::move(*home), options);
}

Result<std::shared_ptr<Device>> open_skd_vfio_user(Services& services, const Uri& uri, const SchemeInfo& info) {
    OptionReader reader(uri, info.options);
    const auto options = read_driver_options(reader);
    if (auto ok = reader.finish(); !ok) return std::unexpected(ok.error());
    if (!uri.address.empty() || uri.path.size() < 2) {
        return fail(Errc::invalid_argument,
                    fmt::format("{}: \"{}{}\" is no absolute path of a socket; write three slashes, as in {}",
                                uri.scheme, uri.address, uri.path, info.example));
    }
    const auto slash = uri.path.rfind('/');
    return open_card(services, pci::open_vfio_user(uri.path), options, uri.path.substr(slash + 1));
}

Result<std::shared_ptr<Device>> open_skd_pci(Services& services, const Uri& uri, const SchemeInfo& info) {
    OptionReader reader(uri, info.options);
    const auto options = read_driver_options(reader);
    if (auto ok = reader.finish(); !ok) return std::unexpected(ok.error());
    if (uri.address.empty() || uri.path.size() > 1) {
        return fail(Errc::invalid_argument,
                    fmt::format("{}: \"{}{}\" names no card; write its address as `lspci -D` prints it, as in {}",
                                uri.scheme, uri.address, uri.path, info.example));
    }
    const auto id = pci::read_vfio_id(uri.address);
    if (!id) return std::unexpected(id.error().in(uri.scheme));
    // Before anything is asked for that another card would need as well.
    if (auto known = driver::skd::check_id(uri.address, id->vendor, id->device); !known)
        return std::unexpected(known.error());
    return open_card(services, pci::open_vfio(uri.address), options, uri.address);
}

}  // namespace mqblk::registry
