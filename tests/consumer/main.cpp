// SPDX-License-Identifier: Apache-2.0
//
// Ten lines of somebody else's: a block is written to a disk in memory and read back.
#include <mqblk/context.h>

#include <array>
#include <iostream>

int main() {
    mqblk::Context context;
    const auto device = context.open("ram://?size=1M");
    if (!device) return std::cerr << device.error().message() << '\n', 1;
    const auto channel = (*device)->channel();
    if (!channel) return std::cerr << channel.error().message() << '\n', 1;
    std::array<std::byte, 4096> out, in{};
    out.fill(std::byte{42});
    for (auto* const data : {&out, &in}) {
        const mqblk::Segment segment{data->data(), data->size()};
        mqblk::Bio bio{.op = data == &out ? mqblk::Op::write : mqblk::Op::read, .sectors = 8, .data = {&segment, 1}};
        bio.done = [](mqblk::Bio&) noexcept {};
        (*channel)->submit(bio);
        (*channel)->wait();
        if (bio.status != mqblk::Status::ok) return 1;
    }
    std::cout << (*device)->identity().driver << ": " << (in == out ? "what was written was read" : "differs") << '\n';
    return in == out ? 0 : 1;
}
