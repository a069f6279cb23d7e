// SPDX-License-Identifier: Apache-2.0
#include "device/nvme/queue_core.h"

#include "device/nvme/commands.h"
#include "device/nvme/target_impl.h"
#include "wire/nvme_fabrics.h"

#include <cassert>
#include <utility>

namespace mqblk::device::nvme {

namespace status = wire::nvme::status;
using wire::nvme::Command;

namespace {
bool is_loop(const Target::Impl& target, unsigned port) {
    const auto config = target.port(port);
    return config && config->transport == "loop";
}
}  // namespace

QueueCore::QueueCore(Target::Impl& target, Reactor& reactor, unsigned port, TargetQueue::Events& events, bool lending)
    : target_(target),
      reactor_(reactor),
      events_(events),
      worker_(target.worker(reactor)),
      in_capsule_bytes_(admin_in_capsule_bytes),
      depth_(admin_queue_depth),
      lending_(lending),
      loop_(is_loop(target, port)),
      port_(port) {}

QueueCore::~QueueCore() {
    assert(worker_ == nullptr);
}

void QueueCore::shut() noexcept {
    disconnect();
    assert(outstanding_ == 0 && loans_ == 0);
    worker_.reset();
}

void QueueCore::close(std::uint16_t why) noexcept {
    if (closed_ || disconnected_) return;
    closed_ = true;
    events_.close(why);
    let_go_if_idle();
}

void QueueCore::disconnect() noexcept {
    if (std::exchange(disconnected_, true)) return;
    break_fused();
    detach();
    let_go_if_idle();
}

// No command is taken any more, and none is left.
void QueueCore::let_go_if_idle() noexcept {
    if ((closed_ || disconnected_) && outstanding_ == 0) instance_.reset();
}

void QueueCore::attach(std::shared_ptr<Controller> controller, std::shared_ptr<Instance> instance,
                       std::uint16_t queue_id, std::uint16_t depth, bool flow_control) noexcept {
    controller_ = std::move(controller);
    instance_ = std::move(instance);
    queue_id_ = queue_id;
    depth_ = depth;
    flow_control_ = flow_control;
    if (queue_id != 0) in_capsule_bytes_ = target_.limits.in_capsule_bytes;
}

void QueueCore::detach() noexcept {
    if (!controller_) return;
    // Kept by name: ending held commands may come back here.
    const auto controller = controller_;
    if (queue_id_ == 0) {
        controller->stop();
    } else {
        controller->leave(*this);
    }
    controller_.reset();
}

// --- Planning ------------------------------------------------------------------------------------------------------

Plan QueueCore::plan(TargetCommand& command) noexcept {
    command.completion = {};
    command.direct = {nullptr, 0};
    command.queue = this;
    command.channel = nullptr;
    command.step = nullptr;
    command.next = command.fused = command.next_pair = nullptr;
    command.position = 0;
    command.bytes = 0;
    command.failure = 0;
    command.state = command_idle;
    command.changes_media = command.counted = false;
    sq_head_ = static_cast<std::uint16_t>(sq_head_ + 1 == depth_ ? 0 : sq_head_ + 1);
    commands_.store(commands_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);

    const Command& sqe = command.command;
    if (closed_ || disconnected_) [[unlikely]]
        return refuse(command, status::aborted_queue_deleted);
    if ((sqe.flags & wire::nvme::flag_fuse_mask) != wire::nvme::flag_fuse_second) {
        if (fused_first != nullptr) [[unlikely]]
            break_fused();
        fused_first_failed = false;
    }
    if (sqe.opcode == wire::nvme::admin_opcode::fabrics) [[unlikely]]
        return plan_fabrics(*this, command);
    // NVMe-oF 1.1, section 3.3: Connect comes first on every queue.
    if (!controller_) [[unlikely]]
        return refuse(command, status::permanent(status::command_sequence_error));
    return queue_id_ == 0 ? plan_admin(*this, command) : plan_io(*this, command);
}

Plan QueueCore::refuse(TargetCommand& command, std::uint16_t why) noexcept {
    if (command.channel != nullptr) worker_->release(*std::exchange(command.channel, nullptr));
    fill_completion(command, why);
    if (controller_) controller_->errors.record(queue_id_, command.command, why);
    Plan plan;
    plan.status = why;
    return plan;
}

void QueueCore::fill_completion(TargetCommand& command, std::uint16_t why) const noexcept {
    command.completion.sq_head = flow_control_ ? sq_head_ : std::uint16_t{0xffff};
    command.completion.sq_id = queue_id_;
    command.completion.command_id = command.command.command_id;
    wire::nvme::set_status(command.completion, why);
}

Plan QueueCore::admit(TargetCommand& command, Direction direction, std::uint32_t bytes) noexcept {
    if (const auto why = check_sgl(command.command, direction, bytes)) [[unlikely]]
        return refuse(command, why);
    command.bytes = bytes;
    command.state = command_planned;
    ++outstanding_;
    Plan plan;
    plan.direction = direction;
    plan.bytes = bytes;
    return plan;
}

// NVMe 1.4, section 4.4; NVMe/TCP 1.0, section 3.3.1: one descriptor, whose length is the command's.
std::uint16_t QueueCore::check_sgl(const Command& sqe, Direction direction, std::uint32_t bytes) const noexcept {
    const wire::nvme::Sgl& sgl = sqe.data;
    switch (sgl.type) {
        case wire::nvme::sgl_transport_data:
            break;
        case wire::nvme::sgl_in_capsule:
            if (direction == Direction::to_host) return status::permanent(status::invalid_field);
            if (loop_) return status::permanent(status::sgl_invalid_type);
            if (sgl.address != 0 || sgl.length > in_capsule_bytes_) {
                return status::permanent(status::sgl_invalid_offset);
            }
            break;
        case wire::nvme::sgl_data_block:
            // Elsewhere an address means nothing; an empty descriptor of zeroes is a command without data.
            if (!loop_ && (sgl.length != 0 || bytes != 0)) return status::permanent(status::sgl_invalid_type);
            break;
        default:
            return status::permanent(status::sgl_invalid_type);
    }
    if (sgl.length != bytes) return status::permanent(status::sgl_invalid_data_length);
    return status::success;
}

// --- Execution -----------------------------------------------------------------------------------------------------

void QueueCore::execute(TargetCommand& command) noexcept {
    assert(command.state == command_planned);
    command.state = command_executing;
    if (command.failure != 0) [[unlikely]]
        return complete(command, command.failure);
    if (command.command.opcode == wire::nvme::admin_opcode::fabrics) [[unlikely]]
        return execute_fabrics(*this, command);
    return queue_id_ == 0 ? execute_admin(*this, command) : execute_io(*this, command);
}

void QueueCore::complete(TargetCommand& command, std::uint16_t why) noexcept {
    assert(command.state == command_executing);
    NamespaceChannel* const channel = command.channel;
    command.state = command_idle;
    if (channel != nullptr) {
        if (command.direct.data != nullptr && !command.changes_media) {
            command.state = command_loaned;  // release() gives the memory back
            ++loans_;
        } else {
            if (command.counted) worker_->finish(*channel, command.changes_media);
            worker_->release(*channel);
            command.channel = nullptr;
        }
    }
    fill_completion(command, why);
    if (why != status::success && controller_) [[unlikely]]
        controller_->errors.record(queue_id_, command.command, why);
    --outstanding_;
    if (closed_ || disconnected_) [[unlikely]]
        let_go_if_idle();
    command.respond(command);
}

void QueueCore::release(TargetCommand& command) noexcept {
    assert(command.state == command_loaned);
    command.state = command_idle;
    NamespaceChannel& channel = *std::exchange(command.channel, nullptr);
    worker_->finish(channel, false);
    worker_->release(channel);
    --loans_;
}

void QueueCore::abandon(TargetCommand& command) noexcept {
    assert(command.state == command_planned);
    command.state = command_idle;
    --outstanding_;
    fill_completion(command, status::success);
    if (command.channel != nullptr) {
        if (fused_first == &command || command.fused != nullptr) abandon_fused(command);
        NamespaceChannel& channel = *std::exchange(command.channel, nullptr);
        if (command.counted) worker_->finish(channel, command.changes_media);
        worker_->release(channel);
    }
    let_go_if_idle();
}

void QueueCore::give_up(TargetCommand& command) noexcept {
    NamespaceChannel* const channel = command.channel;
    if (command.state != command_executing || channel == nullptr || !channel->channel) return;
    channel->channel->cancel(command.bio);
}

bool QueueCore::abort(std::uint16_t command_id) noexcept {
    if (disconnected_ || worker_ == nullptr) return false;
    return events_.abort(command_id) || abort_check(*this, command_id);
}

// The command after the first half of a pair is not its second half.
void QueueCore::break_fused() noexcept {
    TargetCommand* const first = std::exchange(fused_first, nullptr);
    if (first == nullptr) return;
    first->failure = (disconnected_ ? status::aborted_queue_deleted : status::fused_missing) | status::do_not_retry;
    if (first->state == command_executing) complete(*first, first->failure);
}

// --- The face to transports ----------------------------------------------------------------------------------------

TargetQueue::TargetQueue(Target& target, Reactor& reactor, unsigned port, Events& events, bool allow_lending)
    : core_(std::make_shared<QueueCore>(target.impl(), reactor, port, events, allow_lending)) {}
TargetQueue::~TargetQueue() {
    core_->shut();
}

Plan TargetQueue::plan(TargetCommand& command) noexcept {
    return core_->plan(command);
}
void TargetQueue::execute(TargetCommand& command) noexcept {
    core_->execute(command);
}
void TargetQueue::abandon(TargetCommand& command) noexcept {
    core_->abandon(command);
}
void TargetQueue::give_up(TargetCommand& command) noexcept {
    core_->give_up(command);
}
void TargetQueue::drop_given_up() noexcept {
    core_->worker().drop_given_up();
}
void TargetQueue::release(TargetCommand& command) noexcept {
    core_->release(command);
}
unsigned TargetQueue::poll() noexcept {
    return core_->poll();
}
bool TargetQueue::prepare_sleep() noexcept {
    return true;
}
bool TargetQueue::wait() noexcept {
    return core_->worker().wait();
}
void TargetQueue::disconnect() noexcept {
    core_->disconnect();
}
unsigned TargetQueue::outstanding() const noexcept {
    return core_->outstanding();
}
unsigned TargetQueue::loans() const noexcept {
    return core_->loans();
}
bool TargetQueue::connected() const noexcept {
    return core_->controller() != nullptr;
}
std::uint16_t TargetQueue::queue_id() const noexcept {
    return core_->queue_id();
}
std::uint16_t TargetQueue::depth() const noexcept {
    return core_->depth();
}
bool TargetQueue::flow_control() const noexcept {
    return core_->flow_control();
}
std::uint32_t TargetQueue::in_capsule_bytes() const noexcept {
    return core_->in_capsule_bytes();
}
std::string TargetQueue::peer_nqn() const {
    return core_->controller() != nullptr ? core_->controller()->host_nqn : std::string();
}
void TargetQueue::set_peer(std::string address) {
    core_->set_peer(std::move(address));
}

}  // namespace mqblk::device::nvme
