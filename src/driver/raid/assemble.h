// SPDX-License-Identifier: Apache-2.0
//
// From devices to an array that is ready to be used: reads what each member says of itself, finds out who belongs to it
// and who is up to date, repairs what a crash left, or makes a new array. Nothing is written before all was checked.
#pragma once

#include "base/task.h"
#include "driver/raid/array.h"
#include "driver/raid/member_io.h"
#include "driver/raid/metadata.h"
#include "driver/raid/raid.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mqblk::driver::raid {

struct Assembled {
    Superblock superblock;
    std::unique_ptr<Config> config;
    std::unique_ptr<MemberIo> io;
    std::uint64_t intent_sequence = 0;
    std::uint64_t journal_next = 1;
    std::vector<std::string> names;  ///< by member
};

/// On the reactor's thread.
[[nodiscard]] Task<Result<Assembled>> assemble(const Options& options, Reactor& home);

/// What a device says of itself.
struct Found {
    std::optional<Superblock> superblock;
    bool damaged = false;  ///< it looks like a superblock, and is none
};
[[nodiscard]] Task<Result<Found>> find_superblock(MemberIo& io, unsigned place, std::string name);

// recover.cpp: what a crash left.

/// Writes again what the journal holds. Returns the first free sequence number.
[[nodiscard]] Task<Result<std::uint64_t>> replay_journal(Assembled& array, const std::string& what);
struct Intent {
    std::uint64_t sequence = 0;
    std::vector<std::uint32_t> dirty;  ///< regions
};
[[nodiscard]] Task<Intent> read_intent(Assembled& array);
/// Makes P and Q of the regions fit their data. All members are in sync.
[[nodiscard]] Task<Result<>> resync(Assembled& array, const std::vector<std::uint32_t>& regions,
                                    const std::string& what);

}  // namespace mqblk::driver::raid
