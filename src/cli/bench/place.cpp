// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/place.h"

namespace mqblk::cli {

Place::Place(const Workload& work, std::uint64_t device_bytes, unsigned job)
    : unit_bytes_(work.block_bytes), first_byte_(work.offset_bytes), random_(work.random) {
    const std::uint64_t range = work.range_bytes != 0 ? work.range_bytes : device_bytes - work.offset_bytes;
    const std::uint64_t all = range / unit_bytes_;
    const std::uint64_t slice_begin = all / work.jobs * job;
    if (work.verify) {  // a slice of its own, so that no other job writes what this one checks
        const std::uint64_t slice_end = job + 1 == work.jobs ? all : all / work.jobs * (job + 1);
        units_ = slice_end - slice_begin;
        first_byte_ += slice_begin * unit_bytes_;
        record_.resize(units_);
    } else {
        units_ = all;
        position_ = slice_begin % all;
    }
}

}  // namespace mqblk::cli
