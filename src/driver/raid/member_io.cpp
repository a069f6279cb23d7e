// SPDX-License-Identifier: Apache-2.0
#include "driver/raid/member_io.h"

namespace mqblk::driver::raid {

Result<> MemberIo::open(unsigned member, std::shared_ptr<Device> device) {
    close(member);
    auto channel = device->channel(home_);
    if (!channel) return std::unexpected(channel.error());
    devices_[member] = std::move(device);
    channels_[member] = std::move(*channel);
    return {};
}

void MemberIo::close(unsigned member) noexcept {
    channels_[member].reset();
    devices_[member].reset();
}

Task<Status> MemberIo::io(unsigned member, Op op, std::uint64_t offset, std::byte* data, std::uint64_t bytes,
                          std::uint8_t flags) {
    if (channels_[member] == nullptr) co_return Status::removed;
    struct Wait {
        Reactor& home;
        Bio bio{};
        Segment segment{nullptr, 0};
        Promise<Status> ended{};
    } wait{home_};
    wait.bio.op = op;
    wait.bio.flags = flags;
    if (op != Op::flush) {
        wait.bio.sector = offset / sector_bytes;
        wait.bio.sectors = bytes / sector_bytes;
    }
    if (carries_data(op)) {
        wait.segment = {data, bytes};
        wait.bio.data = {&wait.segment, 1};
    }
    wait.bio.context = &wait;
    // Goes on from the reactor, not from within the completion: what follows may close the channel.
    wait.bio.done = [](Bio& ended) noexcept {
        Wait* const waiting = static_cast<Wait*>(ended.context);
        waiting->home.post([waiting] { waiting->ended.set(waiting->bio.status); });
    };
    channels_[member]->submit(wait.bio);
    const Status status = co_await wait.ended;
    co_return status;
}

Task<Mask> MemberIo::on_each(Mask members, Op op, std::uint64_t offset, MemberMemory data, std::uint64_t bytes,
                             std::uint8_t flags) {
    struct Join {
        unsigned left = 1;
        Mask failed = 0;
        Promise<bool> all;
        void end() {
            if (--left == 0) all.set(true);
        }
    } join;
    for (unsigned member = 0; member < max_members; ++member) {
        if ((members & bit(member)) == 0) continue;
        ++join.left;
        spawn(io(member, op, offset, data[member], bytes, flags), [&join, member](Status status) {
            if (status != Status::ok) join.failed |= bit(member);
            join.end();
        });
    }
    join.end();
    co_await join.all;
    co_return join.failed;
}

Task<Mask> MemberIo::flush(Mask members) {
    const Mask failed = co_await on_each(members, Op::flush, 0, {}, 0, 0);
    co_return failed;
}

}  // namespace mqblk::driver::raid
