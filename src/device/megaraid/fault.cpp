// SPDX-License-Identifier: Apache-2.0
#include "device/megaraid/fault.h"

#include "wire/megaraid_mfi.h"
#include "wire/scsi_cdb.h"

#include <fmt/format.h>

#include <algorithm>

namespace mqblk::device::megaraid {

using wire::megaraid::MfiStatus;

namespace {

[[nodiscard]] bool touches(const Fault& fault, const wire::scsi::Cdb& cdb) noexcept {
    const auto range = wire::scsi::parse_blocks(cdb);
    if (!range || range->blocks == 0 || cdb[0] == wire::scsi::opcode::synchronize_cache_10 ||
        cdb[0] == wire::scsi::opcode::synchronize_cache_16) {
        return false;
    }
    if (fault.blocks == 0) return true;
    return range->lba < fault.lba + fault.blocks && fault.lba < range->lba + range->blocks;
}

}  // namespace

bool FaultList::meets(const Fault& fault, const IoFacts& io) noexcept {
    if (fault.kind > FaultKind::duplicate_completion || io.number < fault.command) return false;
    if (fault.disk || fault.volume) {
        const auto& wanted = io.is_volume ? fault.volume : fault.disk;
        if (wanted != io.id) return false;
    }
    return fault.kind != FaultKind::medium_error || touches(fault, *io.cdb);
}

bool FaultList::spend(std::size_t index) noexcept {
    Fault& fault = faults_[index];
    if (fault.count == 0 || --fault.count > 0) return false;
    faults_.erase(faults_.begin() + static_cast<std::ptrdiff_t>(index));
    return true;
}

std::optional<Fault> FaultList::take(FaultKind kind, std::uint64_t number, std::uint32_t opcode) noexcept {
    for (std::size_t i = 0; i < faults_.size(); ++i) {
        if (faults_[i].kind != kind || number < faults_[i].command) continue;
        if (faults_[i].opcode != 0 && faults_[i].opcode != opcode) continue;
        const Fault fault = faults_[i];
        spend(i);
        return fault;
    }
    return std::nullopt;
}

namespace {

struct Kind {
    FaultWord word;
    FaultKind kind;
    std::string_view meaning;  ///< one line, for people
    std::string_view example;
};
constexpr Kind fault_kinds[] = {
    {{"medium-error", "pd ld lba blocks "},
     FaultKind::medium_error,
     "reads and writes that touch the `blocks` from `lba` on fail with a medium error; without both, all do; for ever, "
     "unless xCOUNT says otherwise",
     "medium-error,ld=0,lba=2048,blocks=8"},
    {{"status", "pd ld status key asc "},
     FaultKind::scsi_status,
     "the I/O ends with SCSI status `status` (2) and, for CHECK CONDITION (2), sense `key` (0) and `asc` (0; code and "
     "qualifier, as in 0x2400); nothing is moved",
     "status@100x3,pd=0,status=8"},
    {{"io-failed", "pd ld status "},
     FaultKind::io_failed,
     "the I/O ends with MFI status `status` (0x2e, failed); nothing is moved",
     "io-failed,ld=0,status=0x33"},
    {{"lost", "pd ld "},
     FaultKind::lost_completion,
     "the I/O is carried out and never told done; an abort finds it",
     "lost@1000,pd=1"},
    {{"late", "pd ld by "},
     FaultKind::late_completion,
     "the I/O is told done `by` later, which must be given; with x0 a disk that is slow",
     "late@0x0,pd=1,by=200ms"},
    {{"twice", "pd ld by "},
     FaultKind::duplicate_completion,
     "the I/O is told done twice, the second time `by` later, if given",
     "twice@1000"},
    {{"firmware-fault", "for-good "},
     FaultKind::firmware_fault,
     "the firmware goes to state fault, and what it had is lost; a reset helps, unless `for-good` is 1",
     "firmware-fault@5000"},
    {{"pull", "pd for "},
     FaultKind::pull_disk,
     "disk `pd`, which must be given, is pulled out, and put in again after the time `for`, if given",
     "pull@2000,pd=0,for=5s"},
    {{"slow-dcmd", "opcode by "},
     FaultKind::slow_dcmd,
     "a management command, any or the next with `opcode`, takes `by` (2m)",
     "slow-dcmd,opcode=0x02010100,by=12s"},
    {{"refuse-dcmd", "opcode status "},
     FaultKind::refuse_dcmd,
     "a management command, any or the next with `opcode`, is answered with MFI status `status` (2, no such opcode)",
     "refuse-dcmd,opcode=0x0200e102"},
    {{"wrong-abort", "response "},
     FaultKind::wrong_abort,
     "a task management request is answered with `response` (0, complete), and nothing is done",
     "wrong-abort@0x2,response=5"},
    {{"fewer-commands", "commands "},
     FaultKind::fewer_commands,
     "after its next reset the firmware takes only `commands`, which must be given",
     "fewer-commands,commands=500"},
};
constexpr auto fault_words = fault_words_of(fault_kinds);

Fault default_fault(FaultKind kind) {
    Fault fault{.kind = kind};
    if (kind == FaultKind::io_failed) fault.status = static_cast<std::uint8_t>(MfiStatus::scsi_io_failed);
    if (kind == FaultKind::refuse_dcmd) fault.status = static_cast<std::uint8_t>(MfiStatus::invalid_dcmd);
    if (kind == FaultKind::slow_dcmd) fault.duration = std::chrono::minutes(2);
    return fault;
}

Result<> set_key(Fault& fault, std::string_view key, std::string_view value) {
    if (key == "pd") return parse_fault_number_into(key, value, 255, fault.disk.emplace());
    if (key == "ld") return parse_fault_number_into(key, value, 255, fault.volume.emplace());
    if (key == "lba") {
        fault.blocks = std::max<std::uint64_t>(fault.blocks, 1);
        return parse_fault_number_into(key, value, most_fault_number, fault.lba);
    }
    if (key == "blocks") return parse_fault_number_into(key, value, most_fault_number, fault.blocks, 1);
    if (key == "status") return parse_fault_number_into(key, value, 0xff, fault.status);
    if (key == "key") return parse_fault_number_into(key, value, 0xf, fault.sense.key);
    if (key == "asc") return parse_fault_number_into(key, value, 0xffff, fault.sense.code);
    if (key == "opcode") return parse_fault_number_into(key, value, 0xffffffff, fault.opcode);
    if (key == "response") return parse_fault_number_into(key, value, 0xff, fault.response);
    if (key == "commands") return parse_fault_number_into(key, value, 0xffff, fault.commands);
    if (key == "for-good") return parse_fault_number_into(key, value, 1, fault.permanent);
    const auto time = parse_fault_duration(key, value);  // "by" and "for"
    if (!time) return std::unexpected(time.error());
    fault.duration = *time;
    return {};
}

/// What a kind cannot do without.
Result<> check_complete(const Fault& fault, std::string_view text) {
    if (fault.kind == FaultKind::pull_disk && !fault.disk)
        return fail(Errc::invalid_argument, fmt::format("fault '{}': say which disk, as in pull,pd=2", text));
    if (fault.kind == FaultKind::late_completion && fault.duration == Duration{})
        return fail(Errc::invalid_argument, fmt::format("fault '{}': say how late, as in late,by=2s", text));
    if (fault.kind == FaultKind::fewer_commands && fault.commands == 0)
        return fail(Errc::invalid_argument,
                    fmt::format("fault '{}': say how many, as in fewer-commands,commands=100", text));
    return {};
}

}  // namespace

Result<Fault> parse_fault(std::string_view text) {
    const auto parsed = parse_fault_text(text, fault_words);
    if (!parsed) return std::unexpected(parsed.error());
    Fault fault = default_fault(fault_kinds[parsed->kind].kind);
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
    for (const Kind& kind : fault_kinds)
        all.push_back({kind.word.name, list_fault_keys(kind.word), std::string(kind.meaning), kind.example});
    return all;
}

}  // namespace mqblk::device::megaraid
