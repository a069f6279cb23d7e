// SPDX-License-Identifier: Apache-2.0
//
// Changes are posted under the mutex: a member that left under it is not posted to again, and its reactor may go.
#include "driver/nvme/association.h"

#include "reactor/reactor.h"

#include <algorithm>
#include <utility>

namespace mqblk::driver::nvme {

Association::Association(Terms terms, Control control) : terms_(std::move(terms)), control_(std::move(control)) {}

Association::View Association::view() const {
    const std::scoped_lock lock(mutex_);
    return view_;
}

void Association::raise(const View& controller) {
    const std::scoped_lock lock(mutex_);
    if (view_.mode == Mode::ended) return;
    view_.mode = Mode::up;
    up_epoch_ = ++view_.epoch;
    acting_ = 0;
    ids_taken_.assign(controller.queues + 1u, false);
    view_.controller_id = controller.controller_id;
    view_.in_capsule_bytes = controller.in_capsule_bytes;
    view_.queues = controller.queues;
    view_.depth = controller.depth;
    view_.retry_delays = controller.retry_delays;
    announce();
}

std::uint16_t Association::take_queue_id(std::uint64_t epoch, std::uint16_t wanted) {
    const std::scoped_lock lock(mutex_);
    if (epoch != up_epoch_) return 0;
    std::uint16_t id = wanted;
    if (id >= ids_taken_.size() || ids_taken_[id]) {
        id = 1;
        while (id < ids_taken_.size() && ids_taken_[id]) ++id;
    }
    if (id >= ids_taken_.size()) return 0;
    ids_taken_[id] = true;
    return id;
}

void Association::give_queue_id(std::uint64_t epoch, std::uint16_t id) {
    const std::scoped_lock lock(mutex_);
    if (epoch == up_epoch_ && id != 0) ids_taken_[id] = false;
}

bool Association::begin_io(std::uint64_t epoch) {
    const std::scoped_lock lock(mutex_);
    if (view_.mode != Mode::up || view_.epoch != epoch) return false;
    ++acting_;
    return true;
}

void Association::end_io(std::uint64_t epoch) {
    const std::scoped_lock lock(mutex_);
    if (epoch == up_epoch_) --acting_;
}

unsigned Association::may_act() const {
    const std::scoped_lock lock(mutex_);
    return acting_;
}

void Association::lower() {
    const std::scoped_lock lock(mutex_);
    if (view_.mode != Mode::up) return;
    view_.mode = Mode::down;
    ++view_.epoch;
    announce();
}

void Association::end(Status status) {
    const std::scoped_lock lock(mutex_);
    if (view_.mode == Mode::ended) return;
    view_.mode = Mode::ended;
    view_.end_status = status;
    ++view_.epoch;
    announce();
}

void Association::announce() {
    for (const auto& handle : members_) {
        handle->reactor->post([handle] {
            if (handle->member != nullptr) handle->member->association_changed();
        });
    }
}

void Association::join(Member& member, Reactor& reactor) {
    const std::scoped_lock lock(mutex_);
    members_.push_back(std::make_shared<Handle>(&member, &reactor));
}

void Association::leave(Member& member) {
    const std::scoped_lock lock(mutex_);
    const auto found = std::ranges::find_if(members_, [&](const auto& handle) { return handle->member == &member; });
    if (found == members_.end()) return;
    (*found)->member = nullptr;
    members_.erase(found);
}

}  // namespace mqblk::driver::nvme
