// SPDX-License-Identifier: Apache-2.0
#include "simulation/megaraid_faults.h"

#include "wire/megaraid_info.h"
#include "wire/megaraid_mfi.h"
#include "wire/scsi.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mqblk::simulation {

using device::megaraid::Fault;
using device::megaraid::FaultKind;
using wire::megaraid::MfiStatus;
using wire::megaraid::TaskResponse;
using wire::scsi::SenseKey;

namespace {

using namespace std::chrono_literals;

constexpr wire::scsi::Sense megaraid_senses[] = {
    {.key = SenseKey::not_ready, .code = 0x0401},       {.key = SenseKey::not_ready, .code = 0x0402},
    {.key = SenseKey::medium_error, .code = 0x1100},    {.key = SenseKey::hardware_error, .code = 0x4400},
    {.key = SenseKey::illegal_request, .code = 0x2400}, {.key = SenseKey::unit_attention, .code = 0x2900},
    {.key = SenseKey::unit_attention, .code = 0x3f0e},  {.key = SenseKey::aborted_command, .code = 0x4b00},
    {.key = SenseKey::data_protect, .code = 0x2700},
};
/// Busy, task set full, reservation conflict, task aborted, and one that is none.
constexpr std::uint8_t scsi_statuses[] = {0x08, 0x28, 0x18, 0x40, 0x3c};
constexpr MfiStatus io_statuses[] = {MfiStatus::scsi_io_failed,      MfiStatus::device_not_found,
                                     MfiStatus::ld_offline,          MfiStatus::config_seq_mismatch,
                                     MfiStatus::ld_init_in_progress, MfiStatus::invalid_parameter};
constexpr TaskResponse responses[] = {TaskResponse::complete, TaskResponse::invalid_frame, TaskResponse::not_supported,
                                      TaskResponse::failed,   TaskResponse::succeeded,     TaskResponse::queued_on_ioc};
constexpr std::uint32_t opcodes[] = {0,
                                     wire::megaraid::dcmd::ctrl_get_info,
                                     wire::megaraid::dcmd::pd_list_query,
                                     wire::megaraid::dcmd::ld_list_query,
                                     wire::megaraid::dcmd::ld_map_get_info,
                                     wire::megaraid::dcmd::system_pd_map_get_info,
                                     wire::megaraid::dcmd::ctrl_event_get_info,
                                     wire::megaraid::dcmd::ctrl_event_wait};
/// Of what the driver's own commands need, hardly anything is left.
constexpr std::uint32_t fewest_commands = 18;
constexpr unsigned most_added = 2;
/// Events and two maps.
constexpr unsigned most_pended = 3;
constexpr std::uint64_t most_ahead = 20;
constexpr unsigned most_idle_doublings = 10;

template <class T, std::size_t count>
const T& fault_from(Random& random, const T (&values)[count]) {
    return values[random.below(count)];
}

}  // namespace

std::vector<Fault> draw_megaraid_start_faults(Random& random) {
    constexpr FaultKind kinds[] = {FaultKind::scsi_status,
                                   FaultKind::io_failed,
                                   FaultKind::lost_completion,
                                   FaultKind::late_completion,
                                   FaultKind::duplicate_completion,
                                   FaultKind::firmware_fault,
                                   FaultKind::slow_dcmd,
                                   FaultKind::refuse_dcmd,
                                   FaultKind::wrong_abort,
                                   FaultKind::fewer_commands,
                                   FaultKind::pull_disk};
    std::vector<Fault> faults;
    for (std::uint64_t left = 1 + random.below(3); left > 0; --left) {
        Fault fault;
        fault.kind = fault_from(random, kinds);
        fault.command = random.below(30);
        fault.count = random.below(4);  // none: for ever
        fault.sense = fault_from(random, megaraid_senses);
        fault.status = static_cast<std::uint8_t>(fault_from(random, io_statuses));
        if (fault.kind == FaultKind::scsi_status) fault.status = random.below(2) == 0 ? 2 : 8;
        fault.opcode = fault_from(random, opcodes);
        fault.response = fault_from(random, responses);
        fault.commands = 16 + static_cast<std::uint32_t>(random.below(16));
        fault.permanent = random.below(4) == 0;
        if (fault.kind == FaultKind::pull_disk) fault.disk = 0;
        fault.duration = 1ms * random.below(240'000);
        faults.push_back(fault);
    }
    return faults;
}

MegaraidFaults::MegaraidFaults(MegaraidWorld& world, MegaraidFaultOptions options) : world_(world), options_(options) {
    const auto add = [this](bool wanted, Duration longest_wait, void (MegaraidFaults::*strike)()) {
        if (wanted) kinds_.push_back({longest_wait, [this, strike] { (this->*strike)(); }});
    };
    add(options.errors, options.longest_interval, &MegaraidFaults::error);
    add(options.completions, options.longest_interval, &MegaraidFaults::completion);
    add(options.slow, options.longest_peace, &MegaraidFaults::slow_disk);
    add(options.aborts, options.longest_interval, &MegaraidFaults::wrong_abort);
    add(options.crashes, options.longest_peace, &MegaraidFaults::crash);
    add(options.management, options.longest_peace, &MegaraidFaults::management);
    add(options.changes, options.longest_peace, &MegaraidFaults::change);
    add(options.disk_hang, options.longest_peace, &MegaraidFaults::hang_disk);
    add(options.dies, 4 * options.longest_peace, &MegaraidFaults::die);
}

MegaraidFaults::~MegaraidFaults() {
    *alive_ = false;
}

void MegaraidFaults::stop() {
    stopped_ = true;
    world_.card().heal();
}

Duration MegaraidFaults::up_to(Duration most) {
    return Duration(static_cast<Duration::rep>(1 + world_.random.below(static_cast<std::uint64_t>(most.count()))));
}

void MegaraidFaults::later(Duration delay, std::function<void()> event) {
    world_.sim.at(world_.sim.now() + delay, [event = std::move(event), alive = alive_] {
        if (*alive) event();
    });
}

/// What ends whether there are further faults or not.
void MegaraidFaults::back_later(Duration delay, std::function<void()> back) {
    ++away_;
    later(delay, [this, back = std::move(back)] {
        --away_;
        back();
        world_.wake_card();
    });
}

/// The longer nothing is asked of the controller, the more rarely: a reset takes seconds, and there is little to
/// strike.
void MegaraidFaults::schedule() {
    if (kinds_.empty()) return;
    const std::uint64_t taken = world_.card().counters().taken;
    idle_strikes_ = std::exchange(last_taken_, taken) == taken ? std::min(idle_strikes_ + 1, most_idle_doublings) : 0;
    const Kind& kind = kinds_[world_.random.below(kinds_.size())];
    later(up_to(kind.longest_wait * (1 << idle_strikes_)), [this, &kind] {
        if (stopped_) return;
        kind.strike();
        world_.wake_card();
        schedule();
    });
}

/// Few at once: what strikes for ever is taken away by the next.
void MegaraidFaults::inject(Fault fault, const char* what) {
    if (fault.kind < FaultKind::firmware_fault && world_.random.below(3) == 0) world_.card().heal();
    world_.tell(fmt::format("{} strikes {} times, from command {} on ({} so far)", what, fault.count, fault.command,
                            world_.card().counters().requests));
    world_.card().inject(fault);
}

/// At one of the next commands, of any disk or volume or one of them.
Fault MegaraidFaults::anywhere(FaultKind kind) {
    Random& random = world_.random;
    Fault fault{.kind = kind};
    fault.count = 1 + random.below(3);
    if (random.below(2) == 0) fault.command = world_.card().counters().requests + random.below(most_ahead);
    if (random.below(2) == 0) {
        const MegaraidUnit& unit = world_.units()[random.below(world_.units().size())];
        auto& place = unit.kind == driver::megaraid::Kind::disk ? fault.disk : fault.volume;
        place = static_cast<std::uint16_t>(unit.id);
    }
    return fault;
}

void MegaraidFaults::error() {
    Random& random = world_.random;
    switch (random.below(4)) {
        case 0: {
            Fault fault = anywhere(FaultKind::medium_error);
            fault.lba = random.below(world_.options().disk.bytes / sector_bytes);
            fault.blocks = 64;
            return inject(fault, "a medium error");
        }
        case 1: {
            Fault fault = anywhere(FaultKind::scsi_status);
            fault.status = fault_from(random, scsi_statuses);
            return inject(fault, "a SCSI status");
        }
        case 2: {
            Fault fault = anywhere(FaultKind::io_failed);
            fault.status = static_cast<std::uint8_t>(fault_from(random, io_statuses));
            return inject(fault, "a failed I/O");
        }
        default: {
            Fault fault = anywhere(FaultKind::scsi_status);
            fault.sense = fault_from(random, megaraid_senses);
            return inject(fault, "a check condition");
        }
    }
}

void MegaraidFaults::completion() {
    constexpr FaultKind kinds[] = {FaultKind::lost_completion, FaultKind::late_completion,
                                   FaultKind::duplicate_completion};
    constexpr const char* names[] = {"a lost completion", "a late completion", "a double completion"};
    const std::size_t which = world_.random.below(std::size(kinds));
    Fault fault = anywhere(kinds[which]);
    if (fault.kind == FaultKind::late_completion) fault.duration = up_to(options_.longest_delay);
    // The second finds the tag in use again, at once or after a while.
    if (fault.kind == FaultKind::duplicate_completion && world_.random.below(2) == 0) fault.duration = up_to(5ms);
    inject(fault, names[which]);
}

void MegaraidFaults::slow_disk() {
    Fault fault = anywhere(FaultKind::late_completion);
    fault.command = 0;
    fault.count = 0;
    fault.duration = up_to(world_.random.below(2) == 0 ? 20ms : options_.longest_delay);
    inject(fault, "a slow disk");
    later(up_to(options_.longest_delay), [this] {
        if (!stopped_) world_.card().heal();
    });
}

/// Besides what makes the driver abort something.
void MegaraidFaults::wrong_abort() {
    Fault fault{.kind = FaultKind::wrong_abort};
    fault.count = 1 + world_.random.below(3);
    fault.response = fault_from(world_.random, responses);
    inject(fault, "a wrong answer to an abort");
    Fault lost = anywhere(world_.random.below(2) == 0 ? FaultKind::lost_completion : FaultKind::late_completion);
    if (lost.kind == FaultKind::late_completion) lost.duration = up_to(options_.longest_delay);
    inject(lost, "a completion to be aborted");
}

/// Only of firmware that is at work: three faults on the way back from one, and the driver gives it up.
void MegaraidFaults::crash() {
    Random& random = world_.random;
    if (!options_.relentless && world_.card().in_flight() <= most_pended) return;
    world_.card().heal();
    const auto commands = world_.options().card.max_commands;
    if (random.below(2) == 0) {
        const unsigned most = random.below(2) == 0 ? commands : std::min(commands, 2 * fewest_commands);
        const auto fewer = fewest_commands + static_cast<std::uint32_t>(random.below(most - fewest_commands));
        inject({.kind = FaultKind::fewer_commands, .commands = fewer}, "fewer commands");
    }
    if (!options_.relentless && random.below(2) == 0) {
        world_.tell("the firmware faults");
        return world_.card().fault();
    }
    Fault fault{.kind = FaultKind::firmware_fault};
    fault.command = world_.card().counters().requests + 1 + random.below(most_ahead);
    if (options_.relentless) fault.count = random.below(8);
    inject(fault, "a firmware fault");
}

void MegaraidFaults::management() {
    Random& random = world_.random;
    if (random.below(2) == 0) {
        Fault fault{.kind = FaultKind::slow_dcmd};
        fault.opcode = fault_from(random, opcodes);
        fault.duration = random.below(2) == 0 ? Duration(2min) : up_to(4min);
        inject(fault, "a slow DCMD");
    } else {
        Fault fault{.kind = FaultKind::refuse_dcmd};
        fault.opcode = fault_from(random, opcodes);
        fault.status = static_cast<std::uint8_t>(random.below(2) == 0 ? MfiStatus::invalid_dcmd : MfiStatus::not_found);
        inject(fault, "a refused DCMD");
    }
    // Something that makes the driver send one.
    if (options_.changes && random.below(2) == 0) return change();
    if (options_.crashes) crash();
}

void MegaraidFaults::change() {
    Random& random = world_.random;
    if (added_ < most_added && random.below(6) == 0) {
        ++added_;
        world_.tell("a disk is added");
        return world_.add_disk();
    }
    const MegaraidUnit& unit = world_.units()[random.below(world_.units().size())];
    if (unit.kind == driver::megaraid::Kind::disk) {
        pull_disk(unit.id);
    } else {
        take_volume_offline(unit.id);
    }
}

void MegaraidFaults::pull_disk(unsigned id) {
    const Duration duration = up_to(world_.random.below(2) == 0 ? 1ms : 10s);
    world_.tell(fmt::format("disk {} is pulled for {} us", id, duration / 1us));
    world_.card().pull_disk(id);
    back_later(duration, [this, id] { world_.card().put_disk(id); });
}

void MegaraidFaults::take_volume_offline(unsigned id) {
    const Duration duration = up_to(world_.random.below(2) == 0 ? 1ms : 10s);
    world_.tell(fmt::format("volume {} is offline for {} us", id, duration / 1us));
    world_.card().set_volume_present(id, false);
    back_later(duration, [this, id] { world_.card().set_volume_present(id, true); });
}

void MegaraidFaults::hang_disk() {
    if (away_ != 0) return;
    const std::size_t which = world_.random.below(world_.units().size());
    world_.tell(fmt::format("{} hangs", world_.units()[which].name()));
    world_.units()[which].disk->hang(true);
    back_later(up_to(options_.longest_delay), [this, which] { world_.units()[which].disk->hang(false); });
}

void MegaraidFaults::die() {
    if (std::exchange(dead_, true)) return;
    world_.tell("the firmware faults for good");
    world_.card().fault(true);
}

}  // namespace mqblk::simulation
