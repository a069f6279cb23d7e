// SPDX-License-Identifier: Apache-2.0
#include "device/scsi/reservation_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <utility>

namespace mqblk::device::scsi {

using nlohmann::ordered_json;
using wire::scsi::ReservationType;
using wire::scsi::TransportId;

namespace {

constexpr std::size_t max_file_bytes = 64 * 1024;
constexpr int format_version = 1;

std::string hex_of(const TransportId& id) {
    std::string text;
    for (const std::uint8_t byte : id) text += fmt::format("{:02x}", byte);
    return text;
}

bool parse_hex(std::string_view text, std::uint64_t& value) noexcept {
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    return problem == std::errc{} && end == text.data() + text.size() && !text.empty();
}

bool parse_id(const std::string& text, TransportId& id) noexcept {
    if (text.size() != 2 * id.size()) return false;
    for (std::size_t i = 0; i < id.size(); ++i) {
        std::uint64_t value = 0;
        if (text[2 * i] == '-' || !parse_hex(std::string_view(text).substr(2 * i, 2), value)) return false;
        id[i] = static_cast<std::uint8_t>(value);
    }
    return true;
}

std::string text_of(const ordered_json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool parse_registration(const ordered_json& entry, Reservations& to) {
    Reservations::Registration registration;
    if (!entry.is_object() || !parse_id(text_of(entry, "initiator"), registration.initiator) ||
        !parse_hex(text_of(entry, "key"), registration.key) || registration.key == 0 ||
        to.find(registration.initiator) != nullptr || to.registrations.size() >= Reservations::most_registrations)
        return false;
    to.registrations.push_back(registration);
    return true;
}

bool parse_type(const ordered_json& root, Reservations& to) {
    const auto type = root.find("type");
    if (type == root.end() || !type->is_number_unsigned()) return false;
    const auto value = type->get<std::uint64_t>();
    if (value > 8 || value == 2 || value == 4) return false;
    to.type = static_cast<ReservationType>(value);
    if (value == 0) return true;
    if (value >= 7) return !to.registrations.empty();
    return parse_id(text_of(root, "holder"), to.holder) && to.find(to.holder) != nullptr;
}

/// Writes all of it and synchronises; the errno, or 0.
int write_file(const std::string& path, std::string_view text) noexcept {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return errno;
    int problem = 0;
    while (!text.empty() && problem == 0) {
        const ssize_t written = ::write(fd, text.data(), text.size());
        if (written >= 0) {
            text.remove_prefix(static_cast<std::size_t>(written));
        } else if (errno != EINTR) {
            problem = errno;
        }
    }
    if (problem == 0 && ::fsync(fd) != 0) problem = errno;
    ::close(fd);
    return problem;
}

int sync_directory_of(const std::string& path) noexcept {
    const auto slash = path.rfind('/');
    const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno;
    const int problem = ::fsync(fd) == 0 ? 0 : errno;
    ::close(fd);
    return problem;
}

}  // namespace

Result<Reservations> parse_reservations(std::string_view text) {
    constexpr auto foreign = "this is no file of persistent reservations";
    if (text.size() > max_file_bytes) return fail(Errc::invalid_argument, foreign);
    const auto root = ordered_json::parse(text, nullptr, false);
    if (!root.is_object()) return fail(Errc::invalid_argument, foreign);
    const auto version = root.find("version");
    if (version == root.end() || *version != format_version) return fail(Errc::invalid_argument, foreign);
    Reservations result;
    result.persist = true;
    const auto list = root.find("registrations");
    bool ok = list != root.end() && list->is_array();
    if (ok) {
        for (const auto& entry : *list) ok = ok && parse_registration(entry, result);
    }
    if (!ok || !parse_type(root, result)) return fail(Errc::invalid_argument, foreign);
    return result;
}

std::string format_reservations(const Reservations& state) {
    ordered_json root{{"version", format_version}};
    auto list = ordered_json::array();
    if (state.persist) {
        for (const auto& registration : state.registrations) {
            list.push_back(
                {{"initiator", hex_of(registration.initiator)}, {"key", fmt::format("{:016x}", registration.key)}});
        }
    }
    root["type"] = state.persist ? static_cast<unsigned>(state.type) : 0u;
    if (state.persist && state.type != ReservationType::none) root["holder"] = hex_of(state.holder);
    root["registrations"] = std::move(list);
    return root.dump(2) + "\n";
}

Result<Reservations> load_reservations(const std::string& path) {
    const auto attempted = fmt::format("persistent reservations in {}", path);
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        if (errno == ENOENT) return Reservations{};
        return std::unexpected(Error::from_errno(errno, attempted));
    }
    std::string text(max_file_bytes + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    auto state = parse_reservations(text);
    if (state) return state;
    return fail(Errc::invalid_argument,
                fmt::format("{}: {}; put the right file there, or remove it to start without reservations", attempted,
                            state.error().message()));
}

Result<> save_reservations(const std::string& path, const Reservations& state) {
    const std::string fresh = path + ".new";
    int problem = write_file(fresh, format_reservations(state));
    if (problem == 0 && ::rename(fresh.c_str(), path.c_str()) != 0) problem = errno;
    if (problem == 0) problem = sync_directory_of(path);
    if (problem == 0) return {};
    return std::unexpected(Error::from_errno(problem, fmt::format("saving persistent reservations in {}", path)));
}

}  // namespace mqblk::device::scsi
