// SPDX-License-Identifier: Apache-2.0
//
// Opens what stands on other devices of this process: arrays, and disks that take their time. An array lives on the
// context's control thread.
#include "base/units.h"
#include "driver/delay/delay.h"
#include "driver/raid/raid.h"
#include "registry/schemes.h"
#include "registry/services.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <thread>

namespace mqblk::registry {

namespace {

Result<> refuse_address(const Uri& uri, const SchemeInfo& info) {
    if (uri.address.empty() && uri.path.size() <= 1) return {};
    return fail(Errc::invalid_argument,
                fmt::format("{}: takes no address; write {}, as in {}", uri.scheme, info.form, info.example));
}

/// Of one member: a URI in brackets, or the word for one that is not there.
struct Listed {
    const Uri* uri = nullptr;  ///< null: missing
    std::string text;
};

std::vector<Listed> read_members(OptionReader& reader, const Uri& uri) {
    std::vector<Listed> members;
    for (const auto& option : uri.options) {
        if (option.name != "member") continue;
        if (!option.nested.empty()) {
            members.push_back({&option.nested.front(), option.nested.front().to_string()});
        } else if (option.value == "missing") {
            members.push_back({nullptr, "missing"});
        } else {
            reader.refuse(
                fmt::format("member={}: must be a URI in square brackets, such as "
                            "member=[file:///var/tmp/d0?size=1G], or missing",
                            option.value));
        }
    }
    return members;
}

driver::raid::Options read_raid_options(OptionReader& reader, const Uri& uri, unsigned level) {
    constexpr std::array<std::string_view, 2> journals{"degraded", "always"};
    constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
    driver::raid::Options options;
    options.level = level;
    options.name = uri.scheme;
    options.chunk = static_cast<std::uint32_t>(
        reader.size("chunk", options.chunk, driver::raid::Geometry::least_chunk, driver::raid::Geometry::most_stripe));
    options.member_bytes = reader.size("member_size", 0, 1, most);
    options.create = reader.flag("create", false);
    options.force = reader.flag("force", false);
    if (level == 6) options.journal_always = reader.choice("journal", journals, 0) == 1;
    options.queues = static_cast<unsigned>(reader.number("queues", 0, 1, 1024));
    options.depth = static_cast<unsigned>(reader.number("depth", options.depth, 1, 65536));
    if (!options.create) {
        for (const auto* name : {"chunk", "member_size", "journal"})
            if (reader.has(name))
                reader.reject(name, "is chosen when the array is made; leave it out, or add create=1");
    }
    return options;
}

/// Which members are new, by their place in the list.
void mark_replacements(OptionReader& reader, const Uri& uri, driver::raid::Options& options) {
    for (const auto& option : uri.options) {
        if (option.name != "replace") continue;
        const auto place = parse_number("replace", option.value, 0, options.members.size() - 1);
        if (!place) {
            reader.refuse(place.error().message());
        } else if (options.members[*place].device == nullptr) {
            reader.refuse(fmt::format("replace={}: that member is missing; name a device in its place", *place));
        } else {
            options.members[*place].replace = true;
        }
    }
}

Result<driver::raid::Home> make_raid_home(Services& services) {
    const auto control = services.control();
    if (!control) return std::unexpected(control.error());
    std::thread::id id;
    (*control)->run([&id] { id = std::this_thread::get_id(); });
    driver::raid::Home home;
    home.reactor = &(*control)->reactor();
    home.run = [thread = *control, id](const std::function<void()>& work) {
        std::this_thread::get_id() == id ? work() : thread->run(work);
    };
    return home;
}

Result<std::shared_ptr<Device>> open_raid(Services& services, const Uri& uri, const SchemeInfo& info, unsigned level) {
    if (auto ok = refuse_address(uri, info); !ok) return std::unexpected(ok.error());
    OptionReader reader(uri, info.options);
    auto options = read_raid_options(reader, uri, level);
    const auto members = read_members(reader, uri);
    if (members.empty()) reader.reject("member", fmt::format("is required for each member, as in {}", info.example));
    for (std::size_t i = 0; i < members.size(); ++i) {
        for (std::size_t k = 0; k < i; ++k) {
            // Memory without a name is another one each time.
            const bool named = members[i].uri != nullptr && !(members[i].uri->address + members[i].uri->path).empty();
            if (named && members[k].text == members[i].text)
                reader.refuse(
                    fmt::format("members {} and {} are the same device, {}; name each once", k, i, members[i].text));
        }
    }
    if (auto ok = reader.finish(); !ok) return std::unexpected(ok.error());
    for (const auto& member : members) {
        driver::raid::MemberOption option{nullptr, member.text, false};
        if (member.uri != nullptr) {
            auto device = services.open(*member.uri);
            if (!device) return std::unexpected(device.error().in(uri.scheme));
            option.device = std::move(*device);
        }
        options.members.push_back(std::move(option));
    }
    mark_replacements(reader, uri, options);
    if (auto ok = reader.finish(); !ok) return std::unexpected(ok.error());
    const auto home = make_raid_home(services);
    if (!home) return std::unexpected(home.error());
    const auto control = services.control();
    return (*control)->wait_for([&] { return driver::raid::open(options, *home); });
}

}  // namespace

Result<std::shared_ptr<Device>> open_raid0(Services& services, const Uri& uri, const SchemeInfo& info) {
    return open_raid(services, uri, info, 0);
}

Result<std::shared_ptr<Device>> open_raid6(Services& services, const Uri& uri, const SchemeInfo& info) {
    return open_raid(services, uri, info, 6);
}

Result<std::shared_ptr<Device>> open_delay(Services& services, const Uri& uri, const SchemeInfo& info) {
    if (auto ok = refuse_address(uri, info); !ok) return std::unexpected(ok.error());
    OptionReader reader(uri, info.options);
    driver::delay::Options options;
    const auto longest = driver::delay::Options::longest;
    options.latency = reader.time("latency", Duration::zero(), Duration::zero(), longest);
    options.seek = reader.time("seek", Duration::zero(), Duration::zero(), longest);
    options.bytes_per_second =
        reader.size("bandwidth", 0, 1, static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
    options.queues = static_cast<unsigned>(reader.number("queues", 0, 1, 1024));
    options.depth = static_cast<unsigned>(reader.number("depth", options.depth, 1, 65536));
    const auto disks = reader.uris("disk");
    if (disks.empty()) reader.reject("disk", "is required, such as disk=[ram://?size=64M]");
    if (auto ok = reader.finish(); !ok) return std::unexpected(ok.error());
    auto disk = services.open(*disks.front());
    if (!disk) return std::unexpected(disk.error());
    return driver::delay::open(std::move(*disk), options);
}

}  // namespace mqblk::registry
