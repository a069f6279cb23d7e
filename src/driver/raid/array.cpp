// SPDX-License-Identifier: Apache-2.0
#include "driver/raid/array.h"

#include "driver/raid/keeper.h"

#include <algorithm>

namespace mqblk::driver::raid {

Array::Array(const Superblock& superblock, Reactor& home)
    : regions(superblock.geometry.regions()),
      journal(std::max(1u, superblock.geometry.journal_slots)),
      level_(superblock.level),
      geometry_(superblock.geometry),
      parity_(superblock.geometry.data),
      uuid_(superblock.uuid),
      home_(home) {
    if (auto made = memory::Buffer::allocate(geometry_.chunk)) zeroes_ = std::move(*made);
}

Array::~Array() = default;

void Array::join(Participant& self) {
    const std::lock_guard lock(mutex_);
    participants_.push_back(&self);
}

void Array::part(Participant& self) noexcept {
    const std::lock_guard lock(mutex_);
    std::erase(participants_, &self);
    for (unsigned i = 0; i < Counters::count; ++i) counted_[i] += self.counters.values[i].load();
}

void Array::report_failed(Mask members) noexcept {
    const Mask before = failures_.fetch_or(members, std::memory_order_acq_rel);
    if ((members & ~before) != 0) call_keeper();
}

void Array::report_failed(Mask members, const Config& then) noexcept {
    const Config& now = config();
    for (unsigned i = 0; &now != &then && i < geometry_.members(); ++i)
        if (now.devices[i] != then.devices[i]) members &= ~bit(i);
    if (members != 0) report_failed(members);
}

void Array::want_region(std::uint32_t region, Waiter& waiter) noexcept {
    bool first = false;
    {
        const std::lock_guard lock(mutex_);
        first = wanted_.empty();
        wanted_.emplace_back(region, &waiter);
    }
    if (first) call_keeper();
}

Array::Wanted Array::take_wanted() {
    const std::lock_guard lock(mutex_);
    return std::exchange(wanted_, {});
}

bool Array::anything_wanted() const {
    const std::lock_guard lock(mutex_);
    return !wanted_.empty();
}

std::array<std::uint64_t, Counters::count> Array::counters() const {
    const std::lock_guard lock(mutex_);
    auto sum = counted_;
    for (const Participant* each : participants_)
        for (unsigned i = 0; i < Counters::count; ++i) sum[i] += each->counters.values[i].load();
    return sum;
}

bool Array::drained() const {
    const std::lock_guard lock(mutex_);
    return std::ranges::all_of(participants_, [](const Participant* each) { return each->active_.load() == 0; });
}

void Array::open_gate() noexcept {
    closed_.store(false, std::memory_order_seq_cst);
    const std::lock_guard lock(mutex_);
    for (Participant* each : participants_) each->look_again();
}

void Array::publish(std::unique_ptr<const Config> config) {
    const std::lock_guard lock(mutex_);
    config_.store(config.get(), std::memory_order_release);
    configs_.push_back(std::move(config));
}

void Array::call_keeper() noexcept {
    home_.post([weak = weak_from_this()] {
        const auto self = weak.lock();
        if (self != nullptr && self->keeper_ != nullptr) self->keeper_->look();
    });
}

}  // namespace mqblk::driver::raid
