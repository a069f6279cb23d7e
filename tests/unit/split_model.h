// SPDX-License-Identifier: Apache-2.0
//
// An independent model of cutting: it knows the address and the segment of every single byte of a bio and goes from
// byte to byte by the definition of each limit, without arithmetic on ranges. Also random limits and random bios for
// it. Addresses are made up; nobody follows them.
#pragma once

#include "base/random.h"

#include <mqblk/bio.h>
#include <mqblk/limits.h>

#include <cstdint>
#include <vector>

namespace mqblk::test {

struct ModelByte {
    std::uint64_t address;
    std::size_t segment;  ///< which segment it belongs to
};

struct ModelPiece {
    std::uint64_t address, bytes;
    bool operator==(const ModelPiece&) const = default;
};

struct ModelCut {
    std::uint64_t bytes = 0;
    std::vector<ModelPiece> pieces;
};

/// Every byte of the bios' memory in order, each bio's segments being different ones.
std::vector<ModelByte> bytes_of(const std::vector<const Bio*>& bios);

/// The longest request that may start with memory[from] at device byte `position`, and its pieces. 0 bytes: none may.
ModelCut longest_request(const QueueLimits&, const std::vector<ModelByte>& memory, std::size_t from,
                         std::uint64_t position);

/// Limits that validate, each of them tight with a fair chance.
QueueLimits random_limits(Random&);

struct OwnedBio {
    Bio bio;
    std::vector<Segment> segments;
};

/// A read or write of at most `max_bytes` whose memory keeps `limits.dma_alignment`: between 1 and 4,096 pieces, some
/// empty, some adjacent, some next to the boundaries in `limits`.
void random_bio(Random&, const QueueLimits& limits, std::uint64_t max_bytes, OwnedBio& result);

}  // namespace mqblk::test
