// SPDX-License-Identifier: Apache-2.0
#include "block/statistics.h"

namespace mqblk::block {

bool ChannelCounters::unused() const noexcept {
    for (const Histogram& each : latency)
        if (!each.empty()) return false;
    return requests.get() == 0;
}

void ChannelCounters::add_to(Statistics& total) const noexcept {
    for (unsigned i = 0; i < op_group_count; ++i) {
        total.groups[i].bytes += groups[i].bytes.get();
        total.groups[i].errors += groups[i].errors.get();
        total.groups[i].merges += groups[i].merges.get();
        if (latency[i].empty()) continue;  // and leave its pages untouched
        total.groups[i].ios += latency[i].count();
        total.groups[i].latency.merge(latency[i]);
    }
    total.requests += requests.get();
    total.splits += splits.get();
    total.requeues += requeues.get();
    total.timeouts += timeouts.get();
}

}  // namespace mqblk::block
