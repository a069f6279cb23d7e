// SPDX-License-Identifier: Apache-2.0
#include "device/skd/fault.h"

#include "wire/scsi_cdb.h"

#include <fmt/format.h>

#include <algorithm>

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
    FaultWord word;
    FaultKind kind;
    std::string_view meaning;  ///< one line, for people
    DriveState state = DriveState::online;
};
/// What a command meets takes blocks, too.
constexpr Kind kinds[] = {
    {{"medium-error", "lba blocks "},
     FaultKind::medium_error,
     "reads and writes fail with a medium error; for ever, unless xCOUNT says otherwise"},
    {{"status", "status key asc lba blocks "},
     FaultKind::scsi_status,
     "the command ends with SCSI status `status` (2) and, for CHECK CONDITION (2), sense `key` (0) and `asc` (0; code "
     "and qualifier, as in 0x2400); nothing is moved"},
    {{"lost", "lba blocks "}, FaultKind::lost_completion, "the command is carried out and never told done"},
    {{"late", "by lba blocks "},
     FaultKind::late_completion,
     "the command is told done `by` later, which must be given"},
    {{"wrong-tag", "lba blocks "}, FaultKind::wrong_tag, "the command is told done with a tag that nobody has"},
    {{"twice", "by lba blocks "},
     FaultKind::duplicate_completion,
     "the command is told done twice, the second time `by` (0) later"},
    {{"busy", "for lba blocks "}, FaultKind::drive_state, "the card is busy", DriveState::busy},
    {{"sanitize", "for lba blocks "},
     FaultKind::drive_state,
     "the card is busy with a sanitize",
     DriveState::busy_sanitize},
    {{"erase", "for lba blocks "}, FaultKind::drive_state, "the card is busy with an erase", DriveState::busy_erase},
    {{"fault", "for lba blocks "},
     FaultKind::drive_state,
     "the card's firmware is in state fault, and what it had is lost",
     DriveState::fault},
    {{"restart", "for lba blocks "},
     FaultKind::drive_state,
     "the firmware restarts by itself, which takes it `for` (0); what it had is lost",
     DriveState::soft_reset},
    {{"offline", "for lba blocks "},
     FaultKind::drive_state,
     "the card is offline, and what it had is lost",
     DriveState::offline},
    {{"gone", "for lba blocks "},
     FaultKind::disappear,
     "the card is pulled out of its slot; with `for` it is put in again after that time, and a driver finds it when it "
     "opens it anew",
     DriveState::missing},
    {{"no-answer", "type "},
     FaultKind::lost_message,
     "the next mailbox message, or the next of `type`, is not answered: 1 init, 2 and 3 depths, 4 ring address, 5 arm, "
     "7 host, 8 and 9 time"},
};
constexpr auto words = fault_words_of(kinds);

/// What a kind cannot do without, and what it has no use for.
Result<> check_complete(const Fault& fault, std::string_view text) {
    if (fault.kind == FaultKind::late_completion && fault.duration == Duration{})
        return fail(Errc::invalid_argument, fmt::format("fault '{}': say how late, as in late,by=2s", text));
    if (fault.kind == FaultKind::lost_message && fault.command != 0) {
        return fail(
            Errc::invalid_argument,
            fmt::format("fault '{}': no-answer strikes messages, not commands: leave out @{}", text, fault.command));
    }
    return {};
}

Result<> set_key(Fault& fault, std::string_view key, std::string_view value) {
    if (key == "lba") {
        fault.blocks = std::max<std::uint64_t>(fault.blocks, 1);
        return parse_fault_number_into(key, value, most_fault_number, fault.lba);
    }
    if (key == "blocks") return parse_fault_number_into(key, value, most_fault_number, fault.blocks, 1);
    if (key == "status") return parse_fault_number_into(key, value, 0xff, fault.status);
    if (key == "key") return parse_fault_number_into(key, value, 0xf, fault.sense.key);
    if (key == "asc") return parse_fault_number_into(key, value, 0xffff, fault.sense.code);
    if (key == "type") return parse_fault_number_into(key, value, 0xff, fault.message);
    const auto time = parse_fault_duration(key, value);  // "by" and "for"
    if (!time) return std::unexpected(time.error());
    fault.duration = *time;
    return {};
}

}  // namespace

Result<Fault> parse_fault(std::string_view text) {
    const auto parsed = parse_fault_text(text, words);
    if (!parsed) return std::unexpected(parsed.error());
    Fault fault{.kind = kinds[parsed->kind].kind, .state = kinds[parsed->kind].state};
    fault.command = parsed->command.value_or(0);
    fault.count = parsed->count.value_or(fault.kind == FaultKind::medium_error ? 0 : 1);
    for (const auto& [key, value] : parsed->values) {
        if (auto set = set_key(fault, key, value); !set)
            return std::unexpected(set.error().in(fmt::format("fault '{}'", text)));
    }
    if (auto complete = check_complete(fault, text); !complete) return std::unexpected(complete.error());
    return fault;
}

std::vector<FaultHelp> fault_help() {
    std::vector<FaultHelp> all;
    for (const Kind& kind : kinds) {
        const bool whole_card = kind.word.keys.starts_with("for ");
        const bool stays = whole_card && kind.state != DriveState::soft_reset && kind.state != DriveState::missing;
        all.push_back(
            {kind.word.name,
             list_fault_keys(kind.word),
             fmt::format("{}{}", kind.meaning, stays ? ", for the time `for`; without it until it is reset" : ""),
             {}});
    }
    return all;
}

}  // namespace mqblk::device::skd
