// SPDX-License-Identifier: Apache-2.0
#include "device/scsi/exclusion.h"

#include "device/scsi/nexus.h"
#include "reactor/reactor.h"

#include <cassert>
#include <utility>

namespace mqblk::device::scsi {

namespace {

/// Given up by each nexus when it has drained, the last one of them ends the wait. It outlives whoever waits.
class DrainToken {
  public:
    DrainToken(std::shared_ptr<Exclusion> exclusion, std::uint64_t turn)
        : exclusion_(std::move(exclusion)), turn_(turn) {}
    ~DrainToken() { exclusion_->drained(turn_); }
    DrainToken(const DrainToken&) = delete;
    DrainToken& operator=(const DrainToken&) = delete;

  private:
    const std::shared_ptr<Exclusion> exclusion_;
    const std::uint64_t turn_;
};

}  // namespace

bool Exclusion::attach(Nexus& nexus) {
    const std::lock_guard lock(mutex_);
    nexuses_.push_back(&nexus);
    return first_ != nullptr;
}

void Exclusion::detach(Nexus& nexus) {
    const std::lock_guard lock(mutex_);
    std::erase(nexuses_, &nexus);
}

void Exclusion::post_locked(const std::function<void(Nexus&)>& fn) {
    for (Nexus* const nexus : nexuses_) {
        nexus->reactor().post([alive = nexus->alive(), nexus, fn] {
            if (!alive.expired()) fn(*nexus);
        });
    }
}

void Exclusion::for_each(const std::function<void(Nexus&)>& fn) {
    const std::lock_guard lock(mutex_);
    post_locked(fn);
}

// The token goes to the caller, who lets go of it without the lock: if all have drained meanwhile, it calls back.
std::shared_ptr<void> Exclusion::start_turn_locked() {
    running_ = false;
    auto token = std::make_shared<DrainToken>(shared_from_this(), ++turn_);
    post_locked([token](Nexus& nexus) { nexus.hold_writes(token); });
    return token;
}

std::shared_ptr<void> Exclusion::next_turn_locked() {
    first_ = first_->next;
    // Even with another one waiting: what was held back goes first, or a line of them would starve it.
    post_locked([](Nexus& nexus) { nexus.let_writes_go(); });
    if (first_ != nullptr) return start_turn_locked();
    last_ = nullptr;
    ++turn_;
    return nullptr;
}

void Exclusion::begin(Command& command) {
    std::shared_ptr<void> token;
    const std::lock_guard lock(mutex_);
    command.next = nullptr;
    if (Command* const before = std::exchange(last_, &command)) {
        before->next = &command;
        return;
    }
    first_ = &command;
    token = start_turn_locked();
}

void Exclusion::end(Command& command) {
    std::shared_ptr<void> token;
    const std::lock_guard lock(mutex_);
    assert(first_ == &command && running_);
    static_cast<void>(command);
    token = next_turn_locked();
}

void Exclusion::drained(std::uint64_t turn) {
    const std::lock_guard lock(mutex_);
    if (turn != turn_ || first_ == nullptr) return;
    Nexus& nexus = *first_->nexus;
    nexus.reactor().post([self = shared_from_this(), alive = nexus.alive(), turn] {
        if (!alive.expired()) self->run(turn);
    });
}

void Exclusion::run(std::uint64_t turn) {
    Command* command = nullptr;
    {
        const std::lock_guard lock(mutex_);
        if (turn != turn_ || first_ == nullptr || running_) return;
        running_ = true;
        command = first_;
    }
    command->step(*command);
}

Command* Exclusion::abandon(Nexus& nexus) {
    std::shared_ptr<void> token;
    Command* abandoned = nullptr;
    const std::lock_guard lock(mutex_);
    if (first_ == nullptr) return nullptr;
    last_ = first_;
    for (Command** link = &first_->next; *link != nullptr;) {
        Command* const waiting = *link;
        if (waiting->nexus != &nexus) {
            last_ = waiting;
            link = &waiting->next;
            continue;
        }
        *link = waiting->next;
        waiting->next = std::exchange(abandoned, waiting);
    }
    if (first_->nexus == &nexus && !running_) {
        Command* const head = first_;
        token = next_turn_locked();
        head->next = std::exchange(abandoned, head);
    }
    return abandoned;
}

}  // namespace mqblk::device::scsi
