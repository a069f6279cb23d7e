// SPDX-License-Identifier: Apache-2.0
//
// Opens disks and volumes of MegaRAID controllers, and lists them: a model in this process, one behind a vfio-user
// socket, a card in this machine. Each controller has a thread of its own, which is its model's too; sockets and cards
// are shared by all URIs that name them.
#include "device/megaraid/controller.h"
#include "driver/megaraid/generation.h"
#include "driver/megaraid/megaraid.h"
#include "pci/in_process.h"
#include "pci/vfio.h"
#include "pci/vfio_user_client.h"
#include "registry/listing.h"
#include "registry/reactor_thread.h"
#include "registry/schemes.h"
#include "registry/services.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <filesystem>

namespace mqblk::registry {

namespace {

namespace driver_mr = driver::megaraid;
namespace model_mr = device::megaraid;

/// How long a card's registers are left alone during a reset, as Linux does.
constexpr Duration fusion_reset_settle = std::chrono::seconds(3), mfi_reset_settle = std::chrono::seconds(10);

driver_mr::Options read_megaraid_options(OptionReader& reader) {
    driver_mr::Options options;
    options.queues = static_cast<unsigned>(reader.number("queues", 0, 0, options.most_queues));
    options.timeout = reader.time("timeout", options.timeout, std::chrono::milliseconds(1), std::chrono::hours(1));
    return options;
}

model_mr::Options read_megaraid_model_options(OptionReader& reader, const Uri& uri) {
    constexpr std::array<std::string_view, 2> generations{"thunderbolt", "invader"};
    model_mr::Options options;
    options.device_id = reader.choice("generation", generations, 1) == 0 ? wire::megaraid::pci_device::thunderbolt
                                                                         : wire::megaraid::pci_device::invader;
    options.max_commands = static_cast<unsigned>(reader.number("commands", options.max_commands, 32, 1008));
    options.fast_path = reader.flag("fast_path", true);
    for (const auto& option : uri.options) {
        if (option.name != "fault") continue;
        auto fault = model_mr::parse_fault(option.value);
        if (fault) {
            options.faults.push_back(*fault);
        } else {
            reader.refuse(fault.error().message());
        }
    }
    return options;
}

/// The shapes of the volumes, in order; the last one is that of all further ones.
std::vector<model_mr::VolumeSpec> read_shapes(OptionReader& reader, const Uri& uri, std::size_t volumes) {
    std::vector<model_mr::VolumeSpec> shapes;
    for (const auto& option : uri.options) {
        if (option.name != "raid") continue;
        auto shape = model_mr::parse_volume_shape(option.value);
        if (shape) {
            shapes.push_back(*shape);
        } else {
            reader.refuse(shape.error().message());
        }
    }
    if (shapes.size() > volumes) reader.reject("raid", "is given more often than ld");
    shapes.resize(volumes, shapes.empty() ? model_mr::VolumeSpec{} : shapes.back());
    return shapes;
}

using AdapterResult = Result<std::shared_ptr<driver_mr::Adapter>>;

/// "…/pd/3": what stands before, and which disk or volume; the controller alone where `named` is false.
struct UnitPath {
    std::string before;
    bool named = false;
    driver_mr::Kind kind = driver_mr::Kind::disk;
    unsigned id = 0;
};
UnitPath split_unit(std::string_view path) {
    UnitPath result;
    const std::size_t last = path.rfind('/');
    const std::size_t kind_at = last == std::string_view::npos || last == 0 ? last : path.rfind('/', last - 1);
    if (kind_at != std::string_view::npos && kind_at != last) {
        const std::string_view kind = path.substr(kind_at + 1, last - kind_at - 1), id = path.substr(last + 1);
        const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), result.id);
        const bool number = error == std::errc{} && end == id.data() + id.size();
        result.kind = kind == "ld" ? driver_mr::Kind::volume : driver_mr::Kind::disk;
        result.named = number && (kind == "pd" || kind == "ld");
    }
    if (result.named) path = path.substr(0, kind_at);
    while (!result.named && path.ends_with('/')) path.remove_suffix(1);
    result.before = path;
    return result;
}

Result<std::shared_ptr<ReactorThread>> start_thread(Services& services) {
    auto thread = ReactorThread::start(services.clock(), {.name = "megaraid"});
    if (!thread) return std::unexpected(thread.error());
    return std::shared_ptr<ReactorThread>(std::move(*thread));
}

AdapterResult open_adapter(std::shared_ptr<ReactorThread> thread, Result<std::unique_ptr<pci::Function>> function,
                           const driver_mr::Options& options) {
    if (!function) return std::unexpected(function.error());
    Reactor& reactor = thread->reactor();
    return driver_mr::Adapter::open(std::move(*function), driver_mr::threaded_control(reactor, std::move(thread)),
                                    options);
}

/// On the thread that it will live on.
Result<std::unique_ptr<pci::Function>> make_model(ReactorThread& thread, std::vector<std::shared_ptr<Device>> disks,
                                                  const std::vector<model_mr::VolumeSpec>& volumes,
                                                  model_mr::Options options) {
    Result<std::unique_ptr<pci::Function>> function = nullptr;
    thread.run([&] {
        auto model = model_mr::Controller::create(std::move(disks), volumes, std::move(options));
        function = model ? pci::make_in_process(std::move(*model), thread.reactor())
                         : Result<std::unique_ptr<pci::Function>>(std::unexpected(model.error()));
    });
    return function;
}

/// What URIs that share a controller have to agree about.
std::string shared_options(const driver_mr::Options& options) {
    return fmt::format("queues={}, timeout={}ms", options.queues, options.timeout / std::chrono::milliseconds(1));
}

AdapterResult model_adapter(Services& services, const Uri& uri, const SchemeInfo& info, const UnitPath& unit) {
    OptionReader reader(uri, info.options);
    const auto options = read_megaraid_options(reader);
    auto model = read_megaraid_model_options(reader, uri);
    const auto jbods = reader.uris("jbod"), lds = reader.uris("ld");
    auto volumes = read_shapes(reader, uri, lds.size());
    if (jbods.empty() && lds.empty()) reader.refuse("a MegaRAID model needs a disk, such as jbod=[ram://?size=64M]");
    if (auto ok = reader.finish(); !ok) return std::unexpected(ok.error());
    if (!uri.address.empty() || !unit.before.empty()) {
        return fail(Errc::invalid_argument,
                    fmt::format("{}: takes no address; write {}, as in {}", uri.scheme, info.form, info.example));
    }
    std::vector<std::shared_ptr<Device>> disks;
    for (const Uri* jbod : jbods) {
        auto disk = services.open(*jbod);
        if (!disk) return std::unexpected(disk.error());
        disks.push_back(std::move(*disk));
    }
    for (std::size_t i = 0; i < lds.size(); ++i) {
        auto disk = services.open(*lds[i]);
        if (!disk) return std::unexpected(disk.error());
        volumes[i].device = std::move(*disk);
    }
    auto thread = start_thread(services);
    if (!thread) return std::unexpected(thread.error());
    auto function = make_model(**thread, std::move(disks), volumes, std::move(model));
    return open_adapter(std::move(*thread), std::move(function), options);
}

AdapterResult vfio_user_adapter(Services& services, const Uri& uri, const SchemeInfo& info, const UnitPath& unit) {
    OptionReader reader(uri, info.options);
    auto options = read_megaraid_options(reader);
    if (auto ok = reader.finish(); !ok) return std::unexpected(ok.error());
    if (!uri.address.empty() || unit.before.size() < 2) {
        return fail(Errc::invalid_argument,
                    fmt::format("{}: \"{}{}\" is no absolute path of a socket; write three slashes, as in {}",
                                uri.scheme, uri.address, unit.before, info.example));
    }
    options.name = unit.before.substr(unit.before.rfind('/') + 1);
    std::error_code error;
    const auto path = std::filesystem::weakly_canonical(unit.before, error);
    const std::string way = error ? unit.before : path.string();
    return services.megaraid().get(way, shared_options(options), [&]() -> AdapterResult {
        auto thread = start_thread(services);
        if (!thread) return std::unexpected(thread.error());
        return open_adapter(std::move(*thread), pci::open_vfio_user(unit.before), options);
    });
}

AdapterResult pci_adapter(Services& services, const Uri& uri, const SchemeInfo& info, const UnitPath& unit) {
    OptionReader reader(uri, info.options);
    auto options = read_megaraid_options(reader);
    if (auto ok = reader.finish(); !ok) return std::unexpected(ok.error());
    if (uri.address.empty() || !unit.before.empty()) {
        return fail(Errc::invalid_argument,
                    fmt::format("{}: \"{}{}\" names no card; write its address as `lspci -D` prints it, as in {}",
                                uri.scheme, uri.address, uri.path, info.example));
    }
    const auto id = pci::read_vfio_id(uri.address);
    if (!id) return std::unexpected(id.error().in(uri.scheme));
    // Before anything is asked for that another card would need as well.
    const auto known = driver_mr::find_generation(uri.address, id->vendor, id->device);
    if (!known) return std::unexpected(known.error());
    options.name = uri.address;
    options.reset_settle = wire::megaraid::is_fusion(*known) ? fusion_reset_settle : mfi_reset_settle;
    return services.megaraid().get(uri.address, shared_options(options), [&]() -> AdapterResult {
        auto thread = start_thread(services);
        if (!thread) return std::unexpected(thread.error());
        return open_adapter(std::move(*thread), pci::open_vfio(uri.address), options);
    });
}

using MakeAdapter = AdapterResult (*)(Services&, const Uri&, const SchemeInfo&, const UnitPath&);

Result<std::shared_ptr<Device>> open_unit(Services& services, const Uri& uri, const SchemeInfo& info,
                                          MakeAdapter make) {
    const UnitPath unit = split_unit(uri.path);
    if (!unit.named)
        return fail(Errc::invalid_argument, fmt::format("{}: \"{}{}\" names no disk or volume; write {}, as in {}",
                                                        uri.scheme, uri.address, uri.path, info.form, info.example));
    auto adapter = make(services, uri, info, unit);
    if (!adapter) return std::unexpected(adapter.error());
    return (*adapter)->device(unit.kind, unit.id);
}

}  // namespace

Result<std::shared_ptr<Device>> open_megaraid_model(Services& services, const Uri& uri, const SchemeInfo& info) {
    return open_unit(services, uri, info, model_adapter);
}
Result<std::shared_ptr<Device>> open_megaraid_vfio_user(Services& services, const Uri& uri, const SchemeInfo& info) {
    return open_unit(services, uri, info, vfio_user_adapter);
}
Result<std::shared_ptr<Device>> open_megaraid_pci(Services& services, const Uri& uri, const SchemeInfo& info) {
    return open_unit(services, uri, info, pci_adapter);
}

Result<ControllerListing> list_megaraid(Services& services, const Uri& uri, const SchemeInfo& info) {
    const UnitPath unit = split_unit(uri.path);
    const MakeAdapter make = info.open == open_megaraid_model       ? model_adapter
                             : info.open == open_megaraid_vfio_user ? vfio_user_adapter
                                                                    : pci_adapter;
    const auto adapter = make(services, uri, info, unit);
    if (!adapter) return std::unexpected(adapter.error());
    ControllerListing listing;
    const auto named = [&](std::string path) {
        Uri one = uri;
        one.path = std::move(path);
        return one.to_string();
    };
    listing.uri = named(unit.before);
    listing.driver = "megaraid";
    listing.details = (*adapter)->details();
    for (const auto& each : (*adapter)->units()) {
        listing.disks.push_back(
            {.uri = named(fmt::format("{}/{}/{}", unit.before, driver_mr::to_string(each.kind), each.id)),
             .kind = each.kind == driver_mr::Kind::volume ? "volume" : "disk",
             .id = each.id,
             .bytes = each.bytes,
             .block = each.block_bytes,
             .model = each.model,
             .serial = each.serial,
             .raid_level = each.raid_level});
    }
    return listing;
}

}  // namespace mqblk::registry
