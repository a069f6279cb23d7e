// SPDX-License-Identifier: Apache-2.0
//
// From a request to its command, and from a response back to the request. No lock, no allocation.
#include "driver/srp/io_queue.h"

#include "base/log.h"
#include "wire/scsi_answer.h"
#include "wire/scsi_cdb.h"
#include "wire/scsi_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace mqblk::driver::srp {

using block::Issue;
using block::Request;
using namespace wire::srp;

namespace {

constexpr auto busy_status = static_cast<std::uint8_t>(wire::scsi::Status::busy);

const Unit& unit_of(const Request& request) noexcept {
    return *static_cast<const Unit*>(block::disk_of(request.device()).driver_data);
}

/// The pieces of [from, from + bytes) of a request's data.
template <class Fn>
void for_each_piece(const Request& request, std::uint64_t from, std::uint64_t bytes, Fn&& fn) {
    std::uint64_t skip = from, left = bytes;
    request.for_each_segment([&](std::byte* data, std::size_t size) {
        if (skip >= size) {
            skip -= size;
            return;
        }
        const auto taken = static_cast<std::size_t>(std::min<std::uint64_t>(size - skip, left));
        if (taken != 0) fn(data + skip, taken);
        skip = 0;
        left -= taken;
    });
}

wire::scsi::Cdb build_cdb(const Request& request, const Unit& unit, std::uint64_t done, std::uint64_t bytes) noexcept {
    const std::uint64_t block = (request.sector + done / sector_bytes) >> unit.block_shift;
    const auto blocks = static_cast<std::uint32_t>(
        (carries_data(request.op) ? bytes / sector_bytes : request.sectors) >> unit.block_shift);
    switch (request.op) {
        case Op::read:
            return wire::scsi::build_read(block, blocks);
        case Op::write:
            return wire::scsi::build_write(block, blocks, (request.flags & bio_fua) != 0 ? wire::scsi::block_fua : 0);
        case Op::discard:
            return wire::scsi::build_unmap(sizeof(wire::scsi::UnmapHeader) + sizeof(wire::scsi::UnmapDescriptor));
        case Op::write_zeroes:
            return wire::scsi::build_write_same(block, blocks, (request.flags & bio_unmap) != 0);
        case Op::flush:
            break;
    }
    return wire::scsi::build_synchronize_cache();
}

}  // namespace

/// A command on its way into its slot.
struct IoQueue::Described {
    std::byte* unit;
    std::uint32_t bytes = sizeof(Cmd);  ///< of the unit
    DescriptorFormat format = DescriptorFormat::none;
    bool out = false;
    std::uint8_t count = 0;  ///< of descriptors in an indirect list in the unit
};

void IoQueue::prepare(Request& request) {
    new (&request.payload<Context>()) Context;
}

Issue IoQueue::queue(Request& request, bool) noexcept {
    if (phase_ == Phase::failing || phase_ == Phase::given_up) [[unlikely]] {
        request.status = phase_ == Phase::failing ? Status::transport : Status::removed;
        return Issue::done;
    }
    if (phase_ != Phase::live) [[unlikely]] {
        refused_ = true;
        return Issue::busy;
    }
    Context& context = request.payload<Context>();
    context.done_bytes = 0;
    context.retries = context.resets = 0;
    context.late = context.cancelled = false;
    const Sent sent = waiting_first_ == nullptr ? send(request, context) : Sent::not_now;
    if (sent == Sent::yes) [[likely]]
        return Issue::accepted;
    if (sent == Sent::never) {
        request.status = Status::io_error;
        return Issue::done;
    }
    if (on_wire_ != 0 && waiting_first_ == nullptr) {
        refused_ = true;
        return Issue::busy;
    }
    // Nothing that is out will bring the next chance: it waits here, where its time runs.
    wait_to_send(request, context, false);
    look_again();
    return Issue::accepted;
}

std::uint64_t IoQueue::tag_of(const Request& request) const noexcept {
    return std::uint64_t{request.generation} << 32 | index_ << 16 | request.tag;
}

std::uint32_t IoQueue::descriptors_in_unit() const noexcept {
    const std::uint32_t room = channel_->unit_bytes();
    if (room < indirect_unit_bytes(1)) return 1;  // a direct one
    return std::min(options_.cmd_sg_entries,
                    static_cast<std::uint32_t>((room - indirect_unit_bytes(0)) / sizeof(Descriptor)));
}

bool IoQueue::external_allowed() const noexcept {
    return options_.allow_ext_sg && !session_->no_external.load(std::memory_order_relaxed) &&
           channel_->unit_bytes() >= indirect_unit_bytes(0);
}

/// Bytes of whole blocks, from `from` on, that lie in so many pieces.
std::uint64_t IoQueue::piece_that_fits(const Request& request, std::uint64_t from, unsigned pieces) const noexcept {
    std::uint64_t bytes = 0;
    for_each_piece(request, from, request.data_bytes() - from, [&](std::byte*, std::size_t size) {
        if (pieces == 0) return;
        --pieces;
        bytes += size;
    });
    return bytes - bytes % unit_of(request).block_bytes;
}

void IoQueue::put_descriptors(unsigned slot, std::uint32_t count, std::uint64_t bytes, Described& to) noexcept {
    const Descriptor* const table = channel_->mapper().table(slot);
    if (count == 1) {
        to.format = DescriptorFormat::direct;
        std::memcpy(to.unit + to.bytes, table, sizeof(Descriptor));
        to.bytes += sizeof(Descriptor);
        return;
    }
    const std::uint32_t room = (channel_->unit_bytes() - indirect_unit_bytes(0)) / sizeof(Descriptor);
    const std::uint32_t in_unit = std::min({count, room, options_.cmd_sg_entries});
    const IndirectHeader header{.table = channel_->mapper().describe_table(slot, count),
                                .data_bytes = static_cast<std::uint32_t>(bytes)};
    to.format = DescriptorFormat::indirect;
    to.count = static_cast<std::uint8_t>(in_unit);
    std::memcpy(to.unit + to.bytes, &header, sizeof header);
    std::memcpy(to.unit + to.bytes + sizeof header, table, in_unit * sizeof(Descriptor));
    to.bytes = indirect_unit_bytes(in_unit);
}

/// Data of a read or write from done_bytes on: all of it, or what the target takes at once. False: not now, or, where
/// sent_bytes is 0, never.
bool IoQueue::describe_data(Request& request, Context& context, Described& to) noexcept {
    const std::uint64_t from = context.done_bytes;
    std::uint64_t bytes = request.data_bytes() - from;
    context.sent_bytes = bytes;
    to.out = request.op == Op::write;
    if (to.out && channel_->immediate() && bytes <= options_.max_imm_data &&
        linux_immediate_offset + bytes <= channel_->unit_bytes()) {
        const ImmediateHeader header{.bytes = static_cast<std::uint32_t>(bytes)};
        to.format = DescriptorFormat::immediate;
        std::memset(to.unit + to.bytes, 0, linux_immediate_offset - to.bytes);
        std::memcpy(to.unit + to.bytes, &header, sizeof header);
        std::byte* at = to.unit + linux_immediate_offset;
        for_each_piece(request, from, bytes, [&](std::byte* data, std::size_t size) {
            std::memcpy(at, data, size);
            at += size;
        });
        to.bytes = linux_immediate_offset + static_cast<std::uint32_t>(bytes);
        return true;
    }
    Mapper& mapper = channel_->mapper();
    const auto map = [&] {
        return mapper.map(channel_->queue_pair(), request.tag, !to.out,
                          [&](auto&& add) { for_each_piece(request, from, bytes, add); });
    };
    const std::uint64_t fallbacks = mapper.fallbacks();
    Mapped mapped = map();
    if (mapper.fallbacks() != fallbacks) session_->counters.fallbacks.fetch_add(1, std::memory_order_relaxed);
    const std::uint32_t in_unit = descriptors_in_unit();
    if (mapped.ok && mapped.count > in_unit && !external_allowed()) {
        mapper.unmap(channel_->queue_pair(), request.tag);
        bytes = piece_that_fits(request, from, in_unit);
        context.sent_bytes = bytes;
        if (bytes == 0) return false;
        session_->counters.pieces.fetch_add(1, std::memory_order_relaxed);
        mapped = map();
    }
    if (!mapped.ok) return false;
    context.external = mapped.count > in_unit;
    if (context.external) session_->counters.external.fetch_add(1, std::memory_order_relaxed);
    put_descriptors(request.tag, mapped.count, mapped.bytes, to);
    return true;
}

/// What goes along with UNMAP (its range) and WRITE SAME (a block of zeroes).
bool IoQueue::describe_parameters(Request& request, Described& to) noexcept {
    if (request.op == Op::flush) return true;
    const Unit& unit = unit_of(request);
    Mapper& mapper = channel_->mapper();
    Descriptor descriptor = mapper.describe_zeroes(unit.block_bytes);
    if (request.op == Op::discard) {
        const wire::scsi::UnmapDescriptor range{
            .lba = request.sector >> unit.block_shift,
            .blocks = static_cast<std::uint32_t>(request.sectors >> unit.block_shift)};
        const wire::scsi::UnmapHeader header{.bytes = sizeof header - 2 + sizeof range,
                                             .descriptor_bytes = sizeof range};
        std::memcpy(mapper.parameters(request.tag), &header, sizeof header);
        std::memcpy(mapper.parameters(request.tag) + sizeof header, &range, sizeof range);
        descriptor = mapper.describe_parameters(request.tag, sizeof header + sizeof range);
    }
    to.format = DescriptorFormat::direct;
    to.out = true;
    std::memcpy(to.unit + to.bytes, &descriptor, sizeof descriptor);
    to.bytes += sizeof descriptor;
    return true;
}

IoQueue::Sent IoQueue::send(Request& request, Context& context) noexcept {
    if (!channel_->has_credit() || !channel_->slot_is_free(request.tag)) return Sent::not_now;
    Described to{.unit = channel_->unit(request.tag).data()};
    context.external = false;
    context.sent_bytes = 1;
    if (!(carries_data(request.op) ? describe_data(request, context, to) : describe_parameters(request, to)))
        return context.sent_bytes == 0 ? Sent::never : Sent::not_now;
    const Unit& unit = unit_of(request);
    Cmd cmd;
    const auto format = static_cast<unsigned>(to.format);
    cmd.buf_fmt = static_cast<std::uint8_t>(to.out ? format << 4 : format);
    (to.out ? cmd.data_out_desc_cnt : cmd.data_in_desc_cnt) = to.count;
    cmd.tag = tag_of(request);
    cmd.lun = encode_lun(unit.lun);
    cmd.cdb = build_cdb(request, unit, context.done_bytes, context.sent_bytes);
    std::memcpy(to.unit, &cmd, sizeof cmd);
    if (!channel_->send(request.tag, to.bytes)) {
        channel_->mapper().unmap(channel_->queue_pair(), request.tag);
        return Sent::not_now;
    }
    context.state = Context::State::sent;
    ++on_wire_;
    session_->counters.commands.fetch_add(1, std::memory_order_relaxed);
    return Sent::yes;
}

void IoQueue::answered(const RspView& view) noexcept {
    const std::uint64_t tag = view.rsp.tag;
    if ((tag & task_tag_bit) != 0) return abort_answered(view);
    if ((tag >> 16 & 0x7fff) != index_ || tag >> 48 != 0) return;
    Request* const request =
        queue_.find(static_cast<std::uint32_t>(tag & 0xffff), static_cast<std::uint16_t>(tag >> 32), 0xffff);
    if (request == nullptr || request == abort_ || request->payload<Context>().state != Context::State::sent) {
        log_limited("srp: stray response",
                    fmt::format("{}: a response that fits no command is ignored", session_->address.to_string()));
        return;
    }
    ended(*request, request->payload<Context>(), view);
}

void IoQueue::ended(Request& request, Context& context, const RspView& view) noexcept {
    --on_wire_;
    channel_->mapper().unmap(channel_->queue_pair(), request.tag);
    const Rsp& rsp = view.rsp;
    if (context.cancelled) return finish(request, context, cancel_status_);
    wire::scsi::Answer answer =
        wire::scsi::judge(rsp.status, {reinterpret_cast<const std::uint8_t*>(view.sense.data()), view.sense.size()});
    if (view.code && *view.code != ResponseCode::success) answer = {};
    // Linux's target says BUSY, others that the request's fields are invalid.
    if (may_not_fetch(context) && (view.code == ResponseCode::invalid_fields || rsp.status == busy_status)) {
        learn_no_external();
        return wait_to_send(request, context, false);
    }
    const bool is_short = (rsp.flags & data_in_underflow) != 0    ? rsp.data_in_res_cnt != 0u
                          : (rsp.flags & data_out_underflow) != 0 ? rsp.data_out_res_cnt != 0u
                                                                  : false;
    if (answer.verdict == wire::scsi::Verdict::good && is_short && carries_data(request.op)) answer = {};
    switch (answer.verdict) {
        case wire::scsi::Verdict::good:
            if (may_not_fetch(context)) session_->external_works.store(true, std::memory_order_relaxed);
            if (carries_data(request.op) && (context.done_bytes += context.sent_bytes) < request.data_bytes())
                return send_again(request, context, false);
            return finish(request, context, Status::ok);
        case wire::scsi::Verdict::busy:
        case wire::scsi::Verdict::again:
        case wire::scsi::Verdict::aborted:  // not by this side
            if (context.retries >= max_retries) break;
            ++context.retries;
            return send_again(request, context, answer.verdict == wire::scsi::Verdict::busy);
        case wire::scsi::Verdict::error:
            break;
    }
    finish(request, context, answer.status);
}

/// Unless its time has passed.
void IoQueue::send_again(Request& request, Context& context, bool pause) noexcept {
    if (context.late) return finish(request, context, Status::timed_out);
    wait_to_send(request, context, pause);
}

/// The command has a table that the target has to fetch, and it has never done so.
bool IoQueue::may_not_fetch(const Context& context) const noexcept {
    return context.external && !session_->external_works.load(std::memory_order_relaxed);
}

/// The safety valve: from now on requests are cut to what fits a command.
void IoQueue::learn_no_external() noexcept {
    if (session_->no_external.exchange(true)) return;
    log_warning(
        fmt::format("{}: the SRP target does not fetch descriptor tables that do not fit a command; larger "
                    "requests go in several commands from now on (allow_ext_sg=0 says so from the start)",
                    session_->address.to_string()));
}

void IoQueue::finish(Request& request, Context& context, Status status) noexcept {
    context.state = Context::State::idle;
    queue_.complete(request, status);
}

}  // namespace mqblk::driver::srp
