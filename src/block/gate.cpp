// SPDX-License-Identifier: Apache-2.0
#include "block/gate.h"

#include "base/tsan.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace mqblk::block {

bool Gate::register_membarrier() noexcept {
#ifdef MQBLK_TSAN
    return false;
#else
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
#endif
}

// Before main, while there is one thread: registering later would have to wait for the others.
const bool Gate::light_ = Gate::register_membarrier();

void Gate::barrier() noexcept {
    if (light_) static_cast<void>(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0));
}

}  // namespace mqblk::block
