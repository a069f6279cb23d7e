// SPDX-License-Identifier: Apache-2.0
#include "driver/megaraid/internal_commands.h"

#include "base/log.h"

#include <utility>

namespace mqblk::driver::megaraid {

using namespace wire::megaraid;

std::uint16_t InternalCommands::take() noexcept {
    for (std::uint32_t tag = 0; tag < slots_.size(); ++tag) {
        if (slots_[tag].sent) continue;
        slots_[tag].pended.reset();
        return smid_of(tag);
    }
    log_limited("megaraid: tags", "megaraid: the controller keeps all of the driver's own commands");
    return 0;
}

void InternalCommands::posting(std::uint16_t smid) {
    slots_[tag_of(smid)].sent = true;
    posts_();
}

Task<Outcome> InternalCommands::dcmd(std::uint32_t opcode, Mailbox mailbox, Transfer data, Duration bound) {
    const std::uint16_t smid = take();
    if (smid == 0) co_return Outcome{.end = Outcome::End::timed_out};
    posting(smid);
    port_.send_dcmd(smid, opcode, mailbox, data);
    co_return co_await wait(smid, bound);
}

Task<Outcome> InternalCommands::scsi(const Route& route, bool direct, wire::scsi::Cdb cdb, Transfer data,
                                     Duration bound) {
    const std::uint16_t smid = take();
    if (smid == 0) co_return Outcome{.end = Outcome::End::timed_out};
    posting(smid);
    port_.send_scsi(smid, route, direct, cdb, data);
    co_return co_await wait(smid, bound);
}

Task<Outcome> InternalCommands::task(const Route& route, TaskType type, std::uint16_t task_smid, Duration bound) {
    const std::uint16_t smid = take();
    if (smid == 0) co_return Outcome{.end = Outcome::End::timed_out};
    posting(smid);
    port_.send_task(smid, route, type, task_smid);
    co_return co_await wait(smid, bound);
}

void InternalCommands::pend(Pended what, std::uint32_t opcode, Mailbox mailbox, Transfer data) {
    for (const Slot& slot : slots_)
        if (slot.sent && slot.pended == what) return;
    const std::uint16_t smid = take();
    if (smid == 0) return;
    ended_[static_cast<std::size_t>(what)].reset();
    slots_[tag_of(smid)].pended = what;
    posting(smid);
    port_.send_dcmd(smid, opcode, mailbox, data);
}

std::optional<std::uint8_t> InternalCommands::take_pended(Pended what) noexcept {
    return std::exchange(ended_[static_cast<std::size_t>(what)], std::nullopt);
}

Task<Outcome> InternalCommands::wait(std::uint16_t smid, Duration bound) {
    Promise<Outcome> promise;
    waiter_ = &promise;
    waited_for_ = smid;
    Timer timer([this] {
        const Outcome outcome{.end = Outcome::End::timed_out, .smid = std::exchange(waited_for_, std::uint16_t{0})};
        if (auto* const waiter = std::exchange(waiter_, nullptr)) waiter->set(outcome);
    });
    timer.arm(reactor_, reactor_.now() + bound);
    co_return co_await promise;
}

bool InternalCommands::completed(std::uint16_t smid) noexcept {
    if (tag_of(smid) >= slots_.size()) return false;
    Slot& slot = slots_[tag_of(smid)];
    if (!slot.sent) return false;
    const Answered answer = port_.read_internal(smid);
    if (!answer.ended) return false;
    slot.sent = false;
    const Outcome outcome{
        .end = Outcome::End::answered, .status = answer.status, .scsi_status = answer.scsi_status, .smid = smid};
    if (slot.pended) {
        ended_[static_cast<std::size_t>(*slot.pended)] = outcome.status;
    } else if (waited_for_ == smid) {
        waited_for_ = 0;
        if (auto* const waiter = std::exchange(waiter_, nullptr)) waiter->set(outcome);
    }
    return true;
}

void InternalCommands::abandon_wait() noexcept {
    waited_for_ = 0;
    if (auto* const waiter = std::exchange(waiter_, nullptr)) waiter->set({});
}

void InternalCommands::forget_all() noexcept {
    slots_ = {};
    ended_ = {};
    abandon_wait();
}

}  // namespace mqblk::driver::megaraid
