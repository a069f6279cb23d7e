// SPDX-License-Identifier: Apache-2.0
#include "device/skd/fault.h"

#include "base/units.h"
#include "wire/scsi_cdb.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace mqblk::device::skd {

using wire::skd::DriveState;
using wire::skd::MessageType;

bool FaultList::meets(const Fault& fault, std::uint64_t number, const wire::scsi::Cdb& cdb) noexcept {
    if (fault.kind == FaultKind::lost_message || number < fault.command) return false;
    if (fault.kind != FaultKind::medium_error && fault.blocks == 0) return true;
    const auto range = wire::scsi::parse_blocks(cdb);
    if (!range || range->blocks == 0 || cdb[0] == wire::scsi::opcode::synchronize_cache_10 ||
        cdb[0] == wire::scsi::opcode::synchronize_cache_16) {
        return false;
    }
    if (fault.blocks == 0) return true;
    return range->lba < fault.lba + fault.blocks && fault.lba < range->lba + range->blocks;
}

bool FaultList::spend(std::size_t index) noexcept {
    Fault& fault = faults_[index];
    if (fault.count == 0 || --fault.count > 0) return false;
    faults_.erase(faults_.begin() + static_cast<std::ptrdiff_t>(index));
    return true;
}

bool FaultList::loses_answer(MessageType type) noexcept {
    for (std::size_t i = 0; i < faults_.size(); ++i) {
        const Fault& fault = faults_[i];
        if (fault.kind != FaultKind::lost_message) continue;
        if (fault.message != MessageType::none && fault.message != type) continue;
        spend(i);
        return true;
    }
    return false;
}

namespace {

struct Kind {
    std::string_view name;
    FaultKind kind;
    DriveState state;
    std::string_view keys;  ///< that it takes, each with a space behind it
};
/// What all take that a command meets.
constexpr std::string_view place_keys = "lba blocks ";
constexpr Kind kinds[] = {
    {"medium-error", FaultKind::medium_error, DriveState::online, ""},
    {"status", FaultKind::scsi_status, DriveState::online, "status key asc "},
    {"lost", FaultKind::lost_completion, DriveState::online, ""},
    {"late", FaultKind::late_completion, DriveState::online, "by "},
    {"wrong-tag", FaultKind::wrong_tag, DriveState::online, ""},
    {"twice", FaultKind::duplicate_completion, DriveState::online, "by "},
    {"busy", FaultKind::drive_state, DriveState::busy, "for "},
    {"sanitize", FaultKind::drive_state, DriveState::busy_sanitize, "for "},
    {"erase", FaultKind::drive_state, DriveState::busy_erase, "for "},
    {"fault", FaultKind::drive_state, DriveState::fault, "for "},
    {"restart", FaultKind::drive_state, DriveState::soft_reset, "for "},
    {"offline", FaultKind::drive_state, DriveState::offline, "for "},
    {"gone", FaultKind::disappear, DriveState::missing, "for "},
    {"no-answer", FaultKind::lost_message, DriveState::online, "type "},
};

Result<std::uint64_t> parse_integer(std::string_view name, std::string_view text, std::uint64_t most) {
    const bool hexadecimal = text.starts_with("0x");
    const std::string_view digits = hexadecimal ? text.substr(2) : text;
    std::uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, hexadecimal ? 16 : 10);
    if (error != std::errc{} || end != digits.data() + digits.size() || value > most)
        return fail(Errc::invalid_argument, fmt::format("{}={}: must be a number from 0 to {}", name, text, most));
    return value;
}

/// Reads a number into an integer or an enumeration.
template <class T>
Result<> parse_into(std::string_view key, std::string_view value, std::uint64_t most, T& to) {
    const auto number = parse_integer(key, value, most);
    if (!number) return std::unexpected(number.error());
    to = static_cast<T>(*number);
    return {};
}

Result<> set_key(Fault& fault, std::string_view key, std::string_view value) {
    constexpr std::uint64_t any = std::numeric_limits<std::int64_t>::max();
    if (key == "lba") return parse_into(key, value, any, fault.lba);
    if (key == "blocks") return parse_into(key, value, any, fault.blocks);
    if (key == "status") return parse_into(key, value, 0xff, fault.status);
    if (key == "key") return parse_into(key, value, 0xf, fault.sense.key);
    if (key == "asc") return parse_into(key, value, 0xffff, fault.sense.code);
    if (key == "type") return parse_into(key, value, 0xff, fault.message);
    const auto time = parse_duration(key, value);  // "by" and "for"
    if (!time) return std::unexpected(time.error());
    fault.duration = *time;
    return {};
}

/// The part before `separator`, which is taken off `text` together with it; all of it if there is none.
std::string_view take_until(std::string_view& text, char separator) {
    const std::size_t at = text.find(separator);
    const std::string_view part = text.substr(0, at);
    text = at == std::string_view::npos ? std::string_view{} : text.substr(at + 1);
    return part;
}

Result<> parse_when(Fault& fault, std::string_view text) {
    std::string_view rest = text;
    const std::string_view command = take_until(rest, 'x');
    constexpr std::uint64_t any = std::numeric_limits<std::int64_t>::max();
    if (auto read = parse_into("the command after '@'", command, any, fault.command); !read) return read;
    if (text.find('x') == std::string_view::npos) return {};
    return parse_into("the count after 'x'", rest, any, fault.count);
}

}  // namespace

Result<Fault> parse_fault(std::string_view text) {
    std::string_view rest = text;
    std::string_view head = take_until(rest, ',');
    const bool placed = head.find('@') != std::string_view::npos;
    const std::string_view name = take_until(head, '@');
    const auto* const kind = std::ranges::find(kinds, name, &Kind::name);
    if (kind == std::end(kinds)) {
        std::string known;
        for (const Kind& each : kinds) known += fmt::format("{}{}", known.empty() ? "" : ", ", each.name);
        return fail(Errc::invalid_argument, fmt::format("fault '{}': no such kind; there are {}", text, known));
    }
    Fault fault{.kind = kind->kind, .state = kind->state};
    if (fault.kind == FaultKind::medium_error) fault.count = 0;
    if (placed) {
        if (auto when = parse_when(fault, head); !when)
            return std::unexpected(when.error().in(fmt::format("fault '{}'", text)));
    }
    const std::string keys =
        fmt::format("{}{}", kind->keys, fault.kind == FaultKind::lost_message ? std::string_view{} : place_keys);
    while (!rest.empty()) {
        std::string_view value = take_until(rest, ',');
        const std::string_view key = take_until(value, '=');
        if (key.empty() || keys.find(fmt::format("{} ", key)) == std::string::npos) {
            return fail(Errc::invalid_argument,
                        fmt::format("fault '{}': {} has no '{}'; it takes: {}", text, kind->name, key, keys));
        }
        if (auto set = set_key(fault, key, value); !set)
            return std::unexpected(set.error().in(fmt::format("fault '{}'", text)));
    }
    return fault;
}

}  // namespace mqblk::device::skd
