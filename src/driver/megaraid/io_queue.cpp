// SPDX-License-Identifier: Apache-2.0
//
// The data path: from a request to its frame and descriptor, and from a reply back to the request. No lock, no
// allocation. What does not go well is in io_queue_recovery.cpp.
#include "driver/megaraid/io_queue.h"

#include "driver/megaraid/controller.h"
#include "wire/scsi_cdb.h"

#include <bit>
#include <cstring>
#include <new>
#include <utility>

namespace mqblk::driver::megaraid {

using block::Issue;
using block::Request;
using namespace wire::megaraid;

namespace {

constexpr std::size_t bounce_budget_bytes = 4u << 20;
constexpr unsigned most_replies_in_a_pass = 256;
/// What is written for every command: all but the scatter-gather list.
constexpr std::size_t fixed_frame_bytes = offsetof(ScsiIoRequest, sgl);

Unit& unit_of(const Request& request) noexcept {
    return *static_cast<Unit*>(block::disk_of(request.device()).driver_data);
}

Access access_of(Op op) noexcept {
    return op == Op::read ? Access::read : op == Op::write ? Access::write : Access::other;
}

wire::scsi::Cdb build_cdb(const Request& request, std::uint64_t block, std::uint32_t blocks) noexcept {
    switch (request.op) {
        case Op::read:
            return wire::scsi::build_read(block, blocks);
        case Op::write:
            return wire::scsi::build_write(block, blocks, (request.flags & bio_fua) != 0 ? wire::scsi::block_fua : 0);
        case Op::discard:
            return wire::scsi::build_unmap(sizeof(CommandMemory::UnmapList));
        case Op::write_zeroes:
            return wire::scsi::build_write_same(block, blocks, (request.flags & bio_unmap) != 0);
        case Op::flush:
            break;
    }
    return wire::scsi::build_synchronize_cache();
}

/// What goes to the disk besides the request's own data: of UNMAP its range, of WRITE SAME a block of zeroes.
std::uint32_t write_parameters(const Request& request, const Unit& unit, CommandMemory& memory, std::uint16_t smid,
                               Generation generation) noexcept {
    if (request.op == Op::flush) return 0;
    SgWriter writer(memory, smid, 1, generation);
    if (request.op == Op::write_zeroes) {
        const std::uint32_t block_bytes = sector_bytes << unit.block_shift;
        writer.add(memory.zeroes_address(), block_bytes);
        return block_bytes;
    }
    constexpr std::uint32_t bytes = sizeof(CommandMemory::UnmapList);
    memory.unmap_list(smid) = {.header = {.bytes = bytes - 2, .descriptor_bytes = sizeof(wire::scsi::UnmapDescriptor)},
                               .range = {.lba = request.sector >> unit.block_shift,
                                         .blocks = static_cast<std::uint32_t>(request.sectors >> unit.block_shift)}};
    writer.add(memory.unmap_list_address(smid), bytes);
    return bytes;
}

}  // namespace

Result<std::unique_ptr<IoQueue>> IoQueue::create(Controller& controller, block::Queue& queue, unsigned vector) {
    std::unique_ptr<IoQueue> result(new IoQueue(controller, queue, vector));
    pci::DmaSpace& space = controller.memory().space();
    if (!space.reaches_everything()) {
        auto bounce = pci::BouncePool::create(space, bounce_budget_bytes, controller.max_bytes());
        if (!bounce) return std::unexpected(bounce.error());
        result->bounce_ = std::move(*bounce);
    }
    auto interrupt = controller.make_interrupt(vector, queue.reactor(), [] {});  // it only wakes: then it is polled
    if (!interrupt) return std::unexpected(interrupt.error());
    result->interrupt_ = std::move(*interrupt);
    return result;
}

IoQueue::IoQueue(Controller& controller, block::Queue& queue, unsigned vector)
    : controller_(controller),
      memory_(controller.memory()),
      queue_(queue),
      vector_(vector),
      ring_(controller.ring(vector)),
      answered_(memory_.commands() + 1),
      cancel_([this] { cancel_late(); }) {
    controller_.attach(*this);
}

IoQueue::~IoQueue() {
    *alive_ = false;
    index_.cancel_wait();
    controller_.detach(*this, std::move(interrupt_));
}

void IoQueue::adopt(std::uint32_t epoch, const std::shared_ptr<FewerCommands>& fewer) {
    epoch_ = epoch;
    index_.use(fewer);
}

void IoQueue::prepare(Request& request) {
    new (&request.payload<Context>()) Context;
}

Issue IoQueue::queue(Request& request, bool) noexcept {
    const bool closed = gate_.enter() != 0;
    const GateLeave leave(gate_);
    if (closed || !up_to_date() || waiting_first_ != nullptr || controller_.given_up()) [[unlikely]]
        return not_taken(request);
    Context& context = request.payload<Context>();
    if (carries_data(request.op) && !gather(request, memory_.space(), bounce_.get(), context.gathered)) [[unlikely]]
        return Issue::busy;
    if (!take_index(request, context)) [[unlikely]] {
        let_go(request, bounce_.get(), context.gathered, false);
        return Issue::busy;
    }
    context.retries = context.resets = 0;
    context.direct = true;
    context.late = context.cancelled = false;
    send(request, context);
    return Issue::accepted;
}

/// It has a SMID.
void IoQueue::send(Request& request, Context& context) noexcept {
    const std::uint16_t smid = context.smid;
    const Unit& unit = unit_of(request);
    const Generation generation = controller_.generation();
    const std::uint64_t block = request.sector >> unit.block_shift;
    const std::uint64_t blocks = request.sectors >> unit.block_shift;
    const Path path = choose_path(unit.route, access_of(request.op), block, blocks, generation, context.direct);

    ScsiIoRequest& frame = memory_.frame(smid);
    std::memset(static_cast<void*>(&frame), 0, fixed_frame_bytes);
    frame.dev_handle = path.dev_handle;
    frame.function = static_cast<std::uint8_t>(path.function);
    frame.sense_low = static_cast<std::uint32_t>(memory_.sense_address(smid));
    frame.sgl_flags = sgl_flags_64bit;
    frame.sense_bytes = sense_buffer_bytes;
    frame.sgl_offset[0] = sgl_offset_words;
    const wire::scsi::Cdb cdb = build_cdb(request, path.moved ? path.block : block, static_cast<std::uint32_t>(blocks));
    std::memcpy(frame.cdb, cdb.data(), cdb.size());
    frame.io_flags =
        static_cast<std::uint16_t>(wire::scsi::cdb_bytes(cdb[0]) | (path.fast ? unsigned{io_fast_path} : 0u));
    frame.context = path.context;
    if (carries_data(request.op)) [[likely]] {
        frame.chain_offset = write_list(request, context.gathered, memory_, bounce_.get(), smid, generation, path.fast);
        frame.data_bytes = static_cast<std::uint32_t>(request.data_bytes());
        frame.control = request.op == Op::read ? std::uint32_t{control_read} : std::uint32_t{control_write};
        frame.context.sges = static_cast<std::uint8_t>(context.gathered.count);
        frame.context.sges_high = static_cast<std::uint8_t>(context.gathered.count >> 8);
    } else if (const std::uint32_t bytes = write_parameters(request, unit, memory_, smid, generation); bytes != 0) {
        frame.data_bytes = bytes;
        frame.control = control_write;
        frame.context.sges = 1;
    }
    if (path.fast && unit.kind() == Kind::volume) std::memcpy(frame.lun, unit.route.raid.lun, sizeof frame.lun);

    context.state = Context::State::sent;
    memory_.sent(smid);
    const RequestDescriptor descriptor{.flags = request_flags(path.type),
                                       .msix_index = static_cast<std::uint8_t>(vector_),
                                       .smid = smid,
                                       .lmid = {},
                                       .dev_handle = path.dev_handle};
    controller_.bar().write64(reg::inbound_low_queue_port, std::bit_cast<le64>(descriptor));
}

unsigned IoQueue::poll() noexcept {
    const bool closed = gate_.enter() != 0;
    const GateLeave leave(gate_);
    if (closed) [[unlikely]]
        return 0;
    if (!up_to_date()) [[unlikely]] {
        recover();
        return 1;
    }
    unsigned seen = 0;
    while (seen < most_replies_in_a_pass) {
        const std::uint16_t smid = ring_.next();
        if (smid == 0) break;
        ++seen;
        replied(smid);
    }
    if (seen != 0) ring_.tell(controller_.bar());
    if (index_awaited_) [[unlikely]]
        index_came_free();
    if (waiting_first_ != nullptr) [[unlikely]]
        send_waiting();
    return seen;
}

bool IoQueue::prepare_sleep() noexcept {
    const bool closed = gate_.enter() != 0;
    const GateLeave leave(gate_);
    if (closed) [[unlikely]]
        return true;  // who opens it wakes
    if (!up_to_date() || (index_awaited_ && index_free_.load(std::memory_order_acquire))) [[unlikely]]
        return false;
    ring_.tell_now(controller_.bar());
    interrupt_->arm();
    return !ring_.pending();
}

void IoQueue::replied(std::uint16_t smid) noexcept {
    Request* const request = queue_.find(index_.tag(smid));
    if (request == nullptr || request->payload<Context>().state != Context::State::sent ||
        request->payload<Context>().smid != smid) [[unlikely]]
        return controller_.note_mismatch();
    answered(*request, request->payload<Context>());
}

void IoQueue::answered(Request& request, Context& context) noexcept {
    const ScsiIoRequest& frame = memory_.frame(context.smid);
    const std::uint8_t mfi_status = frame.context.status, scsi_status = frame.context.ex_status;
    const std::uint32_t moved = frame.data_bytes;
    const bool all = !carries_data(request.op) || moved >= request.data_bytes();
    if (mfi_status != 0 || !all) [[unlikely]]
        return failed(request, context, mfi_status, scsi_status);
    give_index_back(context);
    finish(request, context, Status::ok);
}

void IoQueue::give_index_back(Context& context) noexcept {
    memory_.ended(context.smid);
    index_.put(context.smid);
}

void IoQueue::finish(Request& request, Context& context, Status status) noexcept {
    context.state = Context::State::idle;
    let_go(request, bounce_.get(), context.gathered, status == Status::ok);
    queue_.complete(request, status);
}

bool IoQueue::up_to_date() const noexcept {
    return epoch_ == controller_.epoch();
}

}  // namespace mqblk::driver::megaraid
