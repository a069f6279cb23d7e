// SPDX-License-Identifier: Apache-2.0
//
// How news travel on a link in this process.
#pragma once

#include "fabric/rdma/in_process_queue_pair.h"

namespace mqblk::fabric::rdma {

template <class Fn>
void InProcessLink::carry(unsigned to, Fn fn) {
    const auto arrive = [self = shared_from_this(), to, fn] {
        if (self->ends[to] != nullptr) fn(*self->ends[to]);
    };
    if (courier == nullptr) return arrive();
    courier->carry(id, 1 - to, arrive);
}

template <class Fn>
void InProcessLink::tell(unsigned to, Fn fn) {
    carry(to, [self = shared_from_this(), to, fn](InProcessQueuePair& end) {
        end.reactor().post([self, to, fn] {
            if (self->ends[to] != nullptr) fn(*self->ends[to]);
        });
    });
}

}  // namespace mqblk::fabric::rdma
