// SPDX-License-Identifier: Apache-2.0
//
// Requests become works, works wait and go on, ended works end their request. Requests are completed from poll() only.
#include "driver/raid/raid_queue.h"

#include "memory/segments.h"

#include <algorithm>
#include <bit>
#include <new>

namespace mqblk::driver::raid {

using block::Issue;
using block::Request;

RequestRoom RequestRoom::of(const Geometry& geometry, std::uint64_t max_bytes) noexcept {
    RequestRoom room;
    const auto chunks = static_cast<std::uint32_t>(max_bytes / geometry.chunk) + 2;
    const auto stripes = static_cast<std::uint32_t>(max_bytes / geometry.stripe_bytes()) + 2;
    room.pieces = max_segments + chunks;
    if (geometry.parity != 0) room.journal_pieces = room.pieces + 3 * stripes;
    return room;
}

std::size_t RequestRoom::payload_bytes() const noexcept {
    return sizeof(Payload) + (std::size_t{pieces} + journal_pieces) * sizeof(Segment);
}

RaidQueue::RaidQueue(std::shared_ptr<Array> array, block::Queue& queue, Reactor& reactor)
    : array_(std::move(array)), queue_(queue), reactor_(reactor), slots_(std::make_unique<StripeWork[]>(works)) {
    room_ = RequestRoom::of(geometry(), std::max<std::uint64_t>(Geometry::most_stripe, geometry().stripe_bytes()));
    for (unsigned i = 0; i < works; ++i) {
        StripeWork& work = slots_[i];
        work.owner = this;
        work.next = free_;
        free_ = &work;
        work.lock.context = work.waiter.context = work.memory.context = &work;
        work.lock.granted = [](StripeLock& lock) noexcept {
            StripeWork& of = *static_cast<StripeWork*>(lock.context);
            of.owner->give(of);
        };
        work.waiter.granted = [](Waiter& waiter) noexcept {
            StripeWork& of = *static_cast<StripeWork*>(waiter.context);
            of.owner->give(of);
        };
        work.memory.ready = [](memory::BufferRequest& ready) noexcept {
            StripeWork& of = *static_cast<StripeWork*>(ready.context);
            of.has_memory = true;
            of.owner->give(of);
        };
        for (MemberBio& each : work.bios) {
            each.work = &work;
            each.bio.context = &each;
            each.bio.done = [](Bio& bio) noexcept {
                MemberBio& of = *static_cast<MemberBio*>(bio.context);
                of.work->owner->ended(of);
            };
        }
    }
    array_->join(*this);
}

RaidQueue::~RaidQueue() {
    array_->part(*this);
}

Result<std::unique_ptr<RaidQueue>> RaidQueue::open(std::shared_ptr<Array> array, block::Queue& queue,
                                                   Reactor& reactor) {
    std::unique_ptr<RaidQueue> made(new RaidQueue(std::move(array), queue, reactor));
    const Geometry& g = made->geometry();
    if (g.parity != 0) {
        const std::size_t block = std::bit_ceil(std::size_t{g.members()} * g.chunk + Geometry::block);
        auto pool = memory::BufferPool::create(std::max<std::size_t>(8 * block, 16u << 20), block);
        if (!pool) return std::unexpected(pool.error());
        made->pool_ = std::move(*pool);
        made->trimmer_.emplace(reactor, *made->pool_);
    }
    made->adopt();
    return made;
}

/// The configuration as it is now, with channels to its members.
const Config& RaidQueue::adopt() noexcept {
    const Config& config = array_->config();
    if (config.generation == adopted_) return config;
    adopted_ = config.generation;
    for (unsigned i = 0; i < geometry().members(); ++i) {
        const bool used = (config.written() & bit(i)) != 0;
        if (used && devices_[i] == config.devices[i] && channels_[i] != nullptr) continue;
        if (channels_[i] != nullptr) retired_.push_back(std::move(channels_[i]));
        devices_[i] = used ? config.devices[i] : nullptr;
        if (!used) continue;
        auto channel = devices_[i]->channel(reactor_);
        if (channel) channels_[i] = std::move(*channel);  // else its I/O fails, and it is left out
    }
    return config;
}

Issue RaidQueue::queue(Request& request, bool) noexcept {
    Payload& payload = request.payload<Payload>();
    payload = Payload{};
    lay_out(request);
    (pending_ == nullptr ? pending_ : pending_last_->payload<Payload>().next) = &request;
    pending_last_ = &request;
    ++working_;
    pump();
    return Issue::accepted;
}

/// All of the request's memory, in pieces that cross no chunk's end.
void RaidQueue::lay_out(Request& request) noexcept {
    if (!carries_data(request.op)) return;
    const std::size_t chunk = geometry().chunk;
    Segment* piece = request.payload<Payload>().room();
    std::size_t left = chunk - request.sector * sector_bytes % chunk;
    request.for_each_segment([&](std::byte* data, std::size_t bytes) {
        while (bytes != 0) {
            const std::size_t take = std::min(bytes, left);
            *piece++ = {data, take};
            data += take;
            bytes -= take;
            left -= take;
            if (left == 0) left = chunk;
        }
    });
}

/// Makes works of what waits, while there are slots. What ends at once may call it again: once is enough.
void RaidQueue::pump() noexcept {
    if (pumping_) return;
    pumping_ = true;
    while (pending_ != nullptr && free_ != nullptr) {
        Request& request = *pending_;
        Payload& payload = request.payload<Payload>();
        StripeWork& work = *free_;
        free_ = work.next;
        cut(request, work);
        if (request.op == Op::flush || payload.cut == request.sectors * sector_bytes) {
            pending_ = payload.next;
            payload.next = nullptr;
        }
        start(work);
    }
    pumping_ = false;
}

/// The next stripe of a request.
void RaidQueue::cut(Request& request, StripeWork& work) noexcept {
    Payload& payload = request.payload<Payload>();
    const Geometry& g = geometry();
    ++payload.works;
    work.request = &request;
    work.wait = StripeWork::Wait::nothing;
    work.locked = work.inside = work.has_memory = false;
    work.zeroes = !carries_data(request.op) && request.op != Op::flush;
    work.region = work.journal = -1;
    work.avoid = 0;
    work.compact = false;
    work.from = work.to = work.low = work.high = 0;
    work.first_piece.fill(0);
    if (request.op == Op::flush) return;

    const std::uint64_t at = request.sector * sector_bytes + payload.cut;
    work.stripe = at / g.stripe_bytes();
    work.from = static_cast<std::uint32_t>(at % g.stripe_bytes());
    const std::uint64_t left = request.sectors * sector_bytes - payload.cut;
    work.to = static_cast<std::uint32_t>(std::min<std::uint64_t>(g.stripe_bytes(), work.from + left));
    const bool one_chunk = work.from / g.chunk == (work.to - 1) / g.chunk;
    work.low = one_chunk ? work.from % g.chunk : 0;
    work.high = one_chunk ? (work.to - 1) % g.chunk + 1 : g.chunk;

    // Its share of the request's memory, chunk by chunk.
    work.pieces = payload.room() + payload.pieces;
    work.journal_pieces = payload.room() + room_.pieces + payload.journal_pieces;
    std::uint32_t count = 0;
    for (unsigned chunk = 0; chunk <= max_data; ++chunk) {
        work.first_piece[chunk] = count;
        std::uint32_t bytes = chunk < g.data ? extent_of(work, chunk).bytes : 0;
        if (work.zeroes && bytes != 0) work.pieces[count] = {array_->zeroes(), bytes};
        while (bytes != 0) bytes -= static_cast<std::uint32_t>(work.pieces[count++].bytes);
    }
    work.compact = is_compact(work);
    payload.pieces += count;
    payload.journal_pieces += count + 3;
    payload.cut += work.to - work.from;
}

RaidQueue::Extent RaidQueue::extent_of(const StripeWork& work, unsigned chunk) const noexcept {
    const std::uint32_t size = geometry().chunk;
    if (!work.touches(chunk, size)) return {0, 0};
    const std::uint32_t begin = std::max(work.from, chunk * size), end = std::min(work.to, (chunk + 1) * size);
    return {begin - chunk * size, end - begin};
}

bool RaidQueue::is_compact(const StripeWork& work) const noexcept {
    if (!is_whole(work) || work.request->op == Op::read) return false;
    for (std::uint32_t i = 0; i < work.first_piece[geometry().data]; ++i) {
        const Segment& piece = work.pieces[i];
        if ((reinterpret_cast<std::uintptr_t>(piece.data) | piece.bytes) % Parity::fast_alignment != 0) return false;
    }
    return true;
}

void RaidQueue::start(StripeWork& work) noexcept {
    const Config& config = adopt();
    const Op op = work.request->op;
    if (config.dead) return finish(work, Status::io_error);
    if (op == Op::flush) return flush(work);
    if (array_->level() == 0) return direct(work);
    if (op == Op::read) {
        bool lost = false;
        for (unsigned chunk = 0; chunk < geometry().data; ++chunk)
            lost |= work.touches(chunk, geometry().chunk) &&
                    (config.in_sync & bit(geometry().member_of(work.stripe, chunk))) == 0;
        if (!lost) return direct(work);
    }
    get_memory(work);
}

void RaidQueue::get_memory(StripeWork& work) noexcept {
    work.memory.bytes = memory_bytes(work);
    work.wait = StripeWork::Wait::memory;
    switch (pool_->get(work.memory)) {
        case memory::BufferPool::Grant::granted:
            work.has_memory = true;
            return lock_stripe(work);
        case memory::BufferPool::Grant::waiting:
            return;
        case memory::BufferPool::Grant::too_large:
            return finish(work, Status::io_error);
    }
}

void RaidQueue::lock_stripe(StripeWork& work) noexcept {
    work.wait = StripeWork::Wait::lock;
    if (!array_->locks.acquire(work.lock, work.stripe)) return;
    work.locked = true;
    enter_gate(work);
}

void RaidQueue::enter_gate(StripeWork& work) noexcept {
    if (!array_->enter(*this)) return hold(work, StripeWork::Wait::gate);
    work.inside = true;
    work.wait = StripeWork::Wait::nothing;
    work.config = &adopt();
    if (work.config->dead) return finish(work, Status::io_error);
    if (work.request->op == Op::read) return recover_read(work);
    begin_write(work);
}

void RaidQueue::leave_gate(StripeWork& work) noexcept {
    if (!work.inside) return;
    work.inside = false;
    array_->leave(*this);
}

void RaidQueue::hold(StripeWork& work, StripeWork::Wait wait) noexcept {
    work.wait = wait;
    work.next = held_;
    held_ = &work;
}

/// Members could not be written; goes on when they are no members any more.
void RaidQueue::await_configuration(StripeWork& work) noexcept {
    work.generation = work.config->generation;
    leave_gate(work);
    hold(work, StripeWork::Wait::configuration);
    array_->report_failed(work.failed, *work.config);
    // A flush is not within the gate: what it waits for may have come already.
    if (array_->config().generation != work.generation) look_again();
}

void RaidQueue::finish(StripeWork& work, Status status) noexcept {
    if (work.region >= 0) array_->regions.end(static_cast<std::uint32_t>(work.region), work.region_generation);
    if (work.journal >= 0) array_->journal.put(static_cast<std::uint64_t>(work.journal));
    leave_gate(work);
    if (work.locked) array_->locks.release(work.lock);
    work.locked = false;
    work.region = work.journal = -1;
    if (work.has_memory) {
        work.has_memory = false;
        pool_->put(work.memory.data, work.memory.bytes);
    }
    Request& request = *work.request;
    Payload& payload = request.payload<Payload>();
    if (status != Status::ok && payload.status == Status::ok) payload.status = status;
    --payload.works;
    work.request = nullptr;
    work.next = free_;
    free_ = &work;
    settle(request);
    pump();
}

/// Ends the request if that was all of it.
void RaidQueue::settle(Request& request) noexcept {
    Payload& payload = request.payload<Payload>();
    const bool cut_up = request.op == Op::flush || payload.cut == request.sectors * sector_bytes;
    if (payload.works != 0 || !cut_up) return;
    payload.next = finished_;
    finished_ = &request;
}

/// Any thread: what a work waits for is there.
void RaidQueue::give(StripeWork& work) noexcept {
    StripeWork* head = inbox_.load(std::memory_order_relaxed);
    do {
        work.next = head;
    } while (!inbox_.compare_exchange_weak(head, &work, std::memory_order_release, std::memory_order_relaxed));
    if (head == nullptr) reactor_.wake();
}

void RaidQueue::look_again() noexcept {
    look_.store(true, std::memory_order_release);
    reactor_.wake();
}

void RaidQueue::take_inbox() noexcept {
    StripeWork* work = inbox_.exchange(nullptr, std::memory_order_acquire);
    StripeWork* oldest = nullptr;
    while (work != nullptr) {
        StripeWork* const next = work->next;
        work->next = oldest;
        oldest = work;
        work = next;
    }
    if (look_.exchange(false, std::memory_order_acq_rel)) {
        StripeWork* held = std::exchange(held_, nullptr);
        while (held != nullptr) {
            StripeWork* const next = held->next;
            held->next = oldest;
            oldest = held;
            held = next;
        }
    }
    while (oldest != nullptr) {
        StripeWork& each = *oldest;
        oldest = each.next;
        resume(each);
    }
}

void RaidQueue::resume(StripeWork& work) noexcept {
    switch (work.wait) {
        case StripeWork::Wait::memory:
            return lock_stripe(work);
        case StripeWork::Wait::lock:
            work.locked = true;
            return enter_gate(work);
        case StripeWork::Wait::gate:
        case StripeWork::Wait::region:
        case StripeWork::Wait::journal:
            return enter_gate(work);
        case StripeWork::Wait::configuration: {
            const Config& config = adopt();
            if (config.generation == work.generation) return hold(work, StripeWork::Wait::configuration);
            if (config.dead) return finish(work, Status::io_error);
            if (work.then == nullptr) return finish(work, Status::ok);
            return enter_gate(work);
        }
        case StripeWork::Wait::nothing:
            return;
    }
}

void RaidQueue::begin_step(StripeWork& work, void (RaidQueue::*then)(StripeWork&) noexcept) noexcept {
    work.then = then;
    work.failed = work.lost = 0;
    work.in_flight = 1;
}

void RaidQueue::send(StripeWork& work, unsigned member, Op op, std::uint64_t offset, std::uint64_t bytes,
                     Segments pieces, std::uint8_t flags) noexcept {
    if (channels_[member] == nullptr) {
        work.failed |= bit(member);
        work.lost |= bit(member);
        return;
    }
    MemberBio& each = work.bios[member];
    each.member = member;
    each.bio.op = op;
    each.bio.flags = flags;
    each.bio.status = Status::ok;
    each.bio.priority = work.request->priority;
    each.bio.sector = offset / sector_bytes;
    each.bio.sectors = bytes / sector_bytes;
    each.bio.data = pieces;
    ++work.in_flight;
    channels_[member]->submit(each.bio);
}

void RaidQueue::send_area(StripeWork& work, unsigned member, Op op, std::byte* memory) noexcept {
    MemberBio& each = work.bios[member];
    each.piece = {memory, work.high - work.low};
    send(work, member, op, geometry().chunk_offset(work.stripe) + work.low, each.piece.bytes, {&each.piece, 1}, 0);
}

void RaidQueue::ended(MemberBio& each) noexcept {
    StripeWork& work = *each.work;
    const Status status = each.bio.status;
    if (status != Status::ok) {
        work.failed |= bit(each.member);
        if (status != Status::medium_error && status != Status::io_error && status != Status::protection)
            work.lost |= bit(each.member);
    }
    end_step(work);
}

/// One I/O of the step has ended, or all were sent.
void RaidQueue::end_step(StripeWork& work) noexcept {
    if (--work.in_flight == 0) (this->*work.then)(work);
}

/// Channels to former members go once what they had under way has ended.
void RaidQueue::close_retired() noexcept {
    for (const auto& channel : retired_)
        if (channel->outstanding() != 0) channel->poll();
    std::erase_if(retired_, [](const auto& channel) { return channel->outstanding() == 0; });
}

unsigned RaidQueue::poll() noexcept {
    if (!retired_.empty()) [[unlikely]]
        close_retired();
    if (look_.load(std::memory_order_acquire) || inbox_.load(std::memory_order_acquire) != nullptr) take_inbox();
    for (unsigned i = 0; i < geometry().members(); ++i) {
        Channel* const channel = channels_[i].get();
        if (channel != nullptr && channel->outstanding() != 0) channel->poll();
    }
    unsigned completed = 0;
    while (finished_ != nullptr) {
        Request& request = *finished_;
        finished_ = request.payload<Payload>().next;
        --working_;
        ++completed;
        queue_.complete(request, request.payload<Payload>().status);
    }
    return completed;
}

bool RaidQueue::prepare_sleep() noexcept {
    return finished_ == nullptr && inbox_.load(std::memory_order_acquire) == nullptr &&
           !look_.load(std::memory_order_acquire) &&
           std::ranges::all_of(retired_, [](const auto& channel) { return channel->outstanding() != 0; });
}

/// What has not begun ends now, the rest when its members answer.
void RaidQueue::cancel_all(Status status) noexcept {
    Request* request = std::exchange(pending_, nullptr);
    while (request != nullptr) {
        Payload& payload = request->payload<Payload>();
        Request* const next = std::exchange(payload.next, nullptr);
        payload.status = status;
        payload.cut = request->sectors * sector_bytes;
        settle(*request);
        request = next;
    }
}

}  // namespace mqblk::driver::raid
