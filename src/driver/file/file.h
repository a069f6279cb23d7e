// SPDX-License-Identifier: Apache-2.0
//
// A regular file or a block device as a disk. Writes go past the page cache (O_DIRECT) where the file system allows it;
// a flush is fdatasync; a discard punches holes, or is passed
// on where the file is a block device that has discards. The file is locked while it is open, so that no two writers
// meet.
#pragma once

#include "block/disk_options.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace mqblk::driver::file {

struct Options {
    static constexpr unsigned max_depth = 16384;  ///< the kernel's rings end at 32,768 entries

    std::string path;
    std::optional<std::uint64_t> bytes;  ///< creates the file, or grows it; never shrinks it
    block::DiskOptions disk;
    bool direct = true;       ///< use O_DIRECT if it can be had
    std::string name;         ///< empty: the last part of the path
    bool* created = nullptr;  ///< told whether open() made the file
};

/// Blocks while the file system is asked. Errors name the path, what is wrong with it and the remedy.
[[nodiscard]] Result<std::shared_ptr<Device>> open(const Options&);

/// Changes the size of a device that open() made on a regular file, a multiple of its block. A smaller size waits for
/// what is in flight; requests beyond the new end that come to the file later end with out_of_range. Any thread, but
/// not from within a completion.
[[nodiscard]] Result<> resize(Device&, std::uint64_t bytes);

}  // namespace mqblk::driver::file
