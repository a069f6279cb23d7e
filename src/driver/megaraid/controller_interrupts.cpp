// SPDX-License-Identifier: Apache-2.0
//
// The controller's interrupts: a vector for each reply queue where the firmware and MSI-X have them, else one of
// whatever kind for everything (shared_replies.h). And how the control path finds its answers.
#include "driver/megaraid/controller.h"
#include "driver/megaraid/io_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <thread>

namespace mqblk::driver::megaraid {

using pci::InterruptType;

namespace {
/// The firmware may be writing nonsense without end.
constexpr unsigned most_control_replies = 2048;
}  // namespace

Result<> Controller::choose_interrupts() {
    const pci::InterruptCounts counts = function_->interrupt_counts();
    const unsigned msix = limits_.msix ? std::min(limits_.reply_queues, counts.msix) : 0;
    if (msix >= 2) {
        const unsigned wanted =
            options_.queues != 0 ? options_.queues : std::max(1u, std::thread::hardware_concurrency());
        queues_wanted_ = std::min({wanted, msix - 1, Options::most_queues});
        vectors_ = queues_wanted_ + 1;
        interrupt_type_ = InterruptType::msix;
        return {};
    }
    queues_wanted_ = vectors_ = 1;
    shared_ = std::make_unique<SharedReplies>();
    interrupt_type_ = msix != 0 ? InterruptType::msix : counts.msi != 0 ? InterruptType::msi : InterruptType::intx;
    if (interrupt_type_ != InterruptType::intx || counts.intx != 0) return {};
    return fail(Errc::not_supported,
                fmt::format("{}: has no interrupts that its firmware can use; look for what turned MSI-X, MSI and INTx "
                            "off, such as options of its model",
                            name()));
}

Result<> Controller::enable_interrupts() {
    if (auto enabled = function_->enable_interrupts(interrupt_type_, vectors_); !enabled) return enabled;
    vectors_enabled_ = true;
    auto made = make_interrupt(0, reactor_, [this] { raised(); });
    if (!made) return std::unexpected(made.error());
    interrupt_ = std::move(*made);
    arm();
    return {};
}

/// While the shared reply queue is polled the interrupt may rest: who polls finds all.
void Controller::raised() {
    if (shared_ != nullptr) {
        shared_->set_armed(false);
        if (queue_is_idle() || !shared_->polled()) arm();
    } else {
        interrupt_->arm();
    }
    drain();
}

bool Controller::queue_is_idle() noexcept {
    const std::lock_guard lock(queues_mutex_);
    return queues_.empty() || queues_.front()->in_flight() == 0;
}

void Controller::arm() {
    if (shared_ != nullptr) {
        shared_->set_armed(true);
        registers_.acknowledge(bar_);
    }
    interrupt_->arm();
}

void Controller::listen_again() {
    if (shared_ != nullptr && interrupt_ != nullptr && !shared_->armed()) arm();
}

void Controller::listen() {
    reactor_.post([this, alive = alive_] {
        if (!*alive || interrupt_ == nullptr) return;
        listen_again();
        drain();
    });
}

void Controller::drain() {
    if (shared_ != nullptr) return drain_shared();
    bool any = false;
    ReplyQueue& replies = port_->replies(0);
    unsigned left = most_control_replies;
    for (std::uint16_t smid = 0; left > 0 && replies.next(smid); --left) {
        any = true;
        if (!internal_.completed(smid)) note_mismatch();
    }
    replies.tell_now(bar_);
    if (any) signal();
}

/// What is a request's stays for its queue, unless nobody can have sent it.
void Controller::drain_shared() {
    ReplyQueue& replies = port_->replies(0);
    std::uint32_t ended = shared_->take_over();
    bool wake = false;
    {
        const std::lock_guard lock(shared_->mutex());
        unsigned left = most_control_replies;
        for (std::uint16_t smid = 0; left > 0 && replies.front(smid); --left) {
            const bool internal = SharedReplies::is_internal(smid);
            // Asked after the answer was seen: what is answered counts as in flight.
            if (!internal && !collected_ && !queue_is_idle()) {
                wake = true;
                break;
            }
            replies.pop();
            const std::uint32_t bit = internal ? 1u << tag_of(smid) : 0;
            if (bit == 0 || (ended & bit) != 0) {
                note_mismatch();
            } else {
                ended |= bit;
            }
        }
        replies.tell_now(bar_);
    }
    if (ended != 0) signal();
    for (; ended != 0; ended &= ended - 1) {
        if (!internal_.completed(smid_of(static_cast<std::uint32_t>(std::countr_zero(ended))))) note_mismatch();
    }
    if (!wake) return;
    const std::lock_guard lock(queues_mutex_);
    for (IoQueue* queue : queues_) queue->nudge();
}

void Controller::found_internal(std::uint16_t smid) noexcept {
    if (!shared_->hand_over(smid)) return note_mismatch();
    reactor_.post([this, alive = alive_] {
        if (*alive) drain();
    });
}

}  // namespace mqblk::driver::megaraid
