// SPDX-License-Identifier: Apache-2.0
//
// RAID-0 and RAID-6 over devices: 2 to 32 members in RAID-0; 3 to 32 of data and two more for P and Q in RAID-6, so 5
// to 34 members, of which any two may be missing. What each member says of itself decides, not the order in which they
// are given. docs/raid.md says what is promised when the power fails.
#pragma once

#include "base/task.h"
#include "driver/raid/geometry.h"
#include "reactor/reactor.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mqblk::driver::raid {

struct MemberOption {
    std::shared_ptr<Device> device;  ///< null: missing
    std::string name;                ///< for people: its URI
    bool replace = false;            ///< it is new: the member that is missing is rebuilt onto it
};

struct Options {
    unsigned level = 6;  ///< 0 or 6
    std::vector<MemberOption> members;
    std::uint32_t chunk = 128u << 10;  ///< with create: a power of two from 4 KiB on, at most 8 MiB of data in a stripe
    std::uint64_t member_bytes = 0;    ///< with create: what to use of each; 0: all, and all have the same size
    bool create = false;               ///< make a new array; refused where a member holds one already
    bool force = false;                ///< … but not refused; start what would not be started
    bool journal_always = false;       ///< with create: journal writes even with all members
    unsigned queues = 0;               ///< hardware queues; 0: one for each processor
    unsigned depth = 128;
    std::string name = "raid";
};

/// Where an array keeps itself: a reactor that is turned as long as the array lives, and how to run something there and
/// wait for it from another thread.
struct Home {
    Reactor* reactor = nullptr;
    std::function<void(const std::function<void()>&)> run;
};

/// On the home's thread. Every error is one sentence that names the member and the remedy; unless `create` succeeded in
/// its checks, nothing was written.
[[nodiscard]] Task<Result<std::shared_ptr<Device>>> open(Options options, Home home);

/// What there is to say of an array. Any thread.
struct Report {
    struct Member {
        std::string name;
        std::string state;  ///< "in sync", "rebuilding", "missing"
    };
    struct Running {
        bool running = false;
        std::uint64_t done = 0, all = 0, repaired = 0, failed = 0;
    };
    std::string uuid;
    std::string state;  ///< "optimal", "degraded", "rebuilding", "dead"
    unsigned level = 6, data = 0;
    std::uint32_t chunk = 0;
    std::uint64_t events = 0;
    bool journal = false;
    std::vector<Member> members;
    Running rebuild, scrub;  ///< in stripes; repaired: blocks of 512 bytes
    std::uint64_t full_stripe_writes = 0, read_modify_writes = 0, reconstruct_writes = 0, reconstructed_reads = 0,
                  repaired_chunks = 0, journaled_writes = 0;
};
/// Nothing where the device is no array.
[[nodiscard]] Result<Report> report(Device& device);

/// Puts `replacement` in the place of a member, in use or missing, and rebuilds onto it in the background. It holds no
/// array, or `force`. Any thread but the home's.
[[nodiscard]] Result<> replace(Device& device, unsigned member, MemberOption replacement, bool force);
/// Checks every stripe in the background, and repairs what one wrong chunk explains. Needs all members. Any thread but
/// the home's.
[[nodiscard]] Result<> scrub(Device& device);

}  // namespace mqblk::driver::raid
