// SPDX-License-Identifier: Apache-2.0
#include "simulation/skd_faults.h"

#include "wire/scsi.h"

#include <fmt/format.h>

#include <utility>

namespace mqblk::simulation {

using device::skd::FaultKind;
using wire::scsi::SenseKey;
using wire::skd::DriveState;

namespace {

/// None that drivers take for success: nothing was moved.
constexpr wire::scsi::Sense senses[] = {
    {.key = SenseKey::not_ready, .code = 0x0406},       {.key = SenseKey::medium_error, .code = 0x1100},
    {.key = SenseKey::hardware_error, .code = 0x4400},  {.key = SenseKey::illegal_request, .code = 0x2400},
    {.key = SenseKey::unit_attention, .code = 0x2900},  {.key = SenseKey::unit_attention, .code = 0x0b01},
    {.key = SenseKey::unit_attention, .code = 0x5d00},  {.key = SenseKey::unit_attention, .code = 0x8030},
    {.key = SenseKey::aborted_command, .code = 0x4b00}, {.key = SenseKey::data_protect, .code = 0x2700},
};
/// The card says that it will be busy, and in a moment it is.
constexpr wire::scsi::Sense busy_imminent{.key = SenseKey::unit_attention, .code = 0x3f01};

constexpr DriveState states[] = {DriveState::busy,      DriveState::busy_erase, DriveState::busy_sanitize,
                                 DriveState::fault,     DriveState::offline,    DriveState::fw_booting,
                                 DriveState::soft_reset};

}  // namespace

std::vector<device::skd::Fault> draw_start_faults(Random& random) {
    constexpr FaultKind kinds[] = {FaultKind::scsi_status, FaultKind::lost_completion,      FaultKind::late_completion,
                                   FaultKind::wrong_tag,   FaultKind::duplicate_completion, FaultKind::drive_state,
                                   FaultKind::disappear,   FaultKind::lost_message};
    std::vector<device::skd::Fault> faults;
    for (std::uint64_t left = 1 + random.below(3); left > 0; --left) {
        device::skd::Fault fault;
        fault.kind = kinds[random.below(std::size(kinds))];
        fault.command = random.below(8);
        fault.count = random.below(4);  // none: for ever
        fault.sense = senses[random.below(std::size(senses))];
        fault.state = states[random.below(std::size(states))];
        if (fault.kind == FaultKind::lost_message)
            fault.message = static_cast<wire::skd::MessageType>(random.below(10));  // 0: any
        if (random.below(4) != 0) fault.duration = std::chrono::milliseconds(random.below(100'000));
        faults.push_back(fault);
    }
    return faults;
}

SkdFaults::SkdFaults(SkdWorld& world, SkdFaultOptions options) : world_(world), options_(options) {
    const auto add = [this](bool wanted, Duration longest_wait, std::function<void()> strike) {
        if (wanted) kinds_.push_back({longest_wait, std::move(strike)});
    };
    add(options.errors, options.longest_interval, [this] { scsi_error(); });
    add(options.completions, options.longest_interval, [this] { completion(); });
    add(options.answers, options.longest_interval, [this] { inject({.kind = FaultKind::lost_message}); });
    for (const DriveState state : {DriveState::busy, DriveState::busy_erase, DriveState::busy_sanitize}) {
        add(options.busy, options.longest_peace, [this, state] { enter(state); });
    }
    for (const DriveState state :
         {DriveState::fault, DriveState::offline, DriveState::fw_booting, DriveState::soft_reset}) {
        add(options.crashes, options.longest_peace, [this, state] { enter(state); });
    }
    add(options.gone, options.longest_peace, [this] { pull_out(); });
    add(options.disk_hang, options.longest_peace, [this] { hang_disk(); });
}

SkdFaults::~SkdFaults() {
    *alive_ = false;
}

void SkdFaults::stop() {
    stopped_ = true;
    world_.card().heal();
}

Duration SkdFaults::up_to(Duration most) {
    return Duration(static_cast<Duration::rep>(1 + world_.random.below(static_cast<std::uint64_t>(most.count()))));
}

void SkdFaults::later(Duration delay, std::function<void()> event) {
    world_.sim.at(world_.sim.now() + delay, [event = std::move(event), alive = alive_] {
        if (*alive) event();
    });
}

void SkdFaults::schedule() {
    if (kinds_.empty()) return;
    const Kind& kind = kinds_[world_.random.below(kinds_.size())];
    later(up_to(kind.longest_wait), [this, &kind] {
        if (stopped_) return;
        kind.strike();
        world_.wake_card();
        schedule();
    });
}

/// One at a time, for commands under way. Of a card at rest its driver's next start-up would be the victim, time and
/// again, and that gives up some time.
void SkdFaults::inject(device::skd::Fault fault) {
    world_.card().heal();
    if (world_.card().in_flight() == 0) return;
    fault.count = 1 + world_.random.below(3);
    world_.tell(fmt::format("fault of kind {} strikes {} times", static_cast<unsigned>(fault.kind), fault.count));
    world_.card().inject(fault);
}

void SkdFaults::scsi_error() {
    const auto kind = world_.random.below(4);
    if (kind == 0) {
        const std::uint64_t sectors = world_.options().disk.bytes / sector_bytes;
        return inject({.kind = FaultKind::medium_error, .lba = world_.random.below(sectors), .blocks = 64});
    }
    if (kind == 1) return inject({.kind = FaultKind::scsi_status, .status = wire::scsi::Status::busy});
    if (kind == 2 && options_.busy && world_.random.below(4) == 0) {
        inject({.kind = FaultKind::scsi_status, .sense = busy_imminent});
        return later(up_to(options_.longest_interval), [this] {
            if (!stopped_) enter(DriveState::busy);
        });
    }
    inject({.kind = FaultKind::scsi_status, .sense = senses[world_.random.below(std::size(senses))]});
}

void SkdFaults::completion() {
    constexpr FaultKind kinds[] = {FaultKind::lost_completion, FaultKind::late_completion, FaultKind::wrong_tag,
                                   FaultKind::duplicate_completion};
    const FaultKind kind = kinds[world_.random.below(std::size(kinds))];
    // A second completion finds the same tag in use again, at once or after a while.
    const Duration most =
        kind == FaultKind::duplicate_completion ? Duration(world_.random.below(2) * 5'000'000) : options_.longest_delay;
    inject({.kind = kind, .duration = most == Duration{} ? most : up_to(most)});
}

void SkdFaults::enter(DriveState state) {
    const Duration duration = up_to(options_.longest_state);
    world_.tell(
        fmt::format("state {:#x} for {} ms", static_cast<unsigned>(state), duration / std::chrono::milliseconds(1)));
    if (world_.random.below(2) == 0) {
        world_.card().enter(state, duration);
    } else {
        world_.card().inject({.kind = FaultKind::drive_state, .state = state, .duration = duration});
    }
    world_.wake_card();
}

void SkdFaults::pull_out() {
    if (std::exchange(lost_card_, true)) return;
    world_.tell("the card is pulled out");
    if (world_.random.below(2) == 0) {
        world_.card().pull_out(up_to(options_.longest_state));
    } else {
        world_.card().inject({.kind = FaultKind::disappear});
    }
}

void SkdFaults::hang_disk() {
    if (hanging_ != 0) return;
    ++hanging_;
    world_.tell("the disk hangs");
    world_.disk().hang(true);
    later(up_to(options_.longest_delay), [this] {
        world_.tell("the disk goes on");
        world_.disk().hang(false);
        --hanging_;
    });
}

}  // namespace mqblk::simulation
