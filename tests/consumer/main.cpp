// SPDX-License-Identifier: Apache-2.0
#include <mqblk/device.h>

#include <iostream>

int main() {
    mqblk::QueueLimits limits;
    limits.logical_block_size = 1000;
    const auto valid = limits.validate();
    if (!valid) std::cout << valid.error().message() << '\n';
    return valid ? 1 : 0;
}
