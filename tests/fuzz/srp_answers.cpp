// SPDX-License-Identifier: Apache-2.0
//
// A hostile SRP target: any answer to the login, then any units, while the initiator has commands out and time passes.
// Nothing crashes, hangs or leaks, every request ends once, and no answer is taken for one of a command that is not
// out. Steps: a kind (below 0xf0: a unit; else time passes, the connection ends, requests are submitted again, logins
// are good), two bytes of length, the unit; a unit whose tag begins with 0xee and an index has that of the command
// there.
#include "base/log.h"
#include "block/queue.h"
#include "driver/srp/io_queue.h"
#include "driver/srp/session.h"
#include "fabric/rdma/in_process.h"
#include "memory/buffer.h"
#include "unit/manual_reactor.h"
#include "wire/scsi_answer.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

namespace {

using namespace mqblk;
using namespace mqblk::fabric::rdma;
namespace srp = mqblk::driver::srp;

constexpr unsigned slots = 80, slot_bytes = 8320;

struct Input {
    std::span<const std::uint8_t> left;
    std::uint8_t byte() {
        if (left.empty()) return 0;
        const std::uint8_t value = left[0];
        left = left.subspan(1);
        return value;
    }
    std::span<const std::uint8_t> take(std::size_t most) {
        const std::size_t high = byte(), low = byte();
        const std::size_t length = std::min({high << 8 | low, left.size(), most});
        const auto taken = left.first(length);
        left = left.subspan(length);
        return taken;
    }
};

/// The latest connection, as the target has it.
class HostileTarget final : public QueuePairHandler {
  public:
    HostileTarget(Network& network, Reactor& reactor) {
        listener = std::move(*network.listen(reactor, {.host = "target"}, [this](auto pair, auto) {
            tags.clear();
            if (rejects) return pair->reject(std::as_bytes(std::span(login)));
            qp.reset();
            completions.reset();
            qp = std::move(pair);
            qp->set_handler(*this);
            key = qp->domain()->register_range(memory.data(), memory.size(), access_local_write);
            completions = std::move(*qp->domain()->make_completion_queue(2 * slots));
            if (!qp->create({.max_sends = slots, .max_receives = slots}, *completions)) std::abort();
            for (unsigned i = 0; i < slots; ++i) post_receive(i);
            static_cast<void>(qp->accept({.private_data = std::as_bytes(std::span(login))}));
        }));
    }
    ~HostileTarget() { end(); }
    void orphaned() noexcept override { end(); }
    void end() {
        qp.reset();
        completions.reset();
    }
    void send(std::span<const std::uint8_t> unit) {
        if (!qp) return;
        std::byte* const at = memory.data() + (slots + next++ % slots) * std::size_t{slot_bytes};
        std::ranges::copy(std::as_bytes(unit), at);
        if (unit.size() >= 16 && unit[8] == 0xee && !tags.empty())
            std::memcpy(at + 8, &tags[unit[9] % tags.size()], sizeof(be64));
        const LocalPiece piece{at, static_cast<std::uint32_t>(unit.size()), key};
        static_cast<void>(qp->post_send(slots, {&piece, unit.empty() ? 0u : 1u}));
    }
    void poll() {
        if (!completions) return;
        std::array<WorkCompletion, 32> batch;
        const unsigned count = completions->poll(batch);
        for (unsigned i = 0; i < count && qp; ++i) {
            if (batch[i].op != WorkOp::receive || batch[i].status != WorkStatus::success) continue;
            const std::byte* const at = memory.data() + batch[i].id * slot_bytes;
            if (batch[i].bytes >= 16) std::memcpy(static_cast<void*>(&tags.emplace_back()), at + 8, sizeof(be64));
            post_receive(static_cast<unsigned>(batch[i].id));
        }
    }

    std::vector<std::uint8_t> login;
    bool rejects = false;

  private:
    void post_receive(unsigned index) {
        const LocalPiece piece{memory.data() + index * std::size_t{slot_bytes}, slot_bytes, key};
        static_cast<void>(qp->post_receive(index, {&piece, 1}));
    }
    memory::Buffer memory = std::move(*memory::Buffer::allocate(2 * slots * std::size_t{slot_bytes}));
    std::uint32_t key = 0;
    unsigned next = 0;
    std::vector<be64> tags;  ///< of what came
    std::unique_ptr<CompletionQueue> completions;
    std::unique_ptr<QueuePair> qp;
    std::unique_ptr<QueuePairListener> listener;
};

class FuzzedDriver final : public block::Driver {
  public:
    explicit FuzzedDriver(std::shared_ptr<srp::Session> session) : session_(std::move(session)) {
        shape_.max_queues = 2;  // the last one would be a shared queue
        shape_.depth = session_->depth();
        shape_.reserved = srp::Session::reserved_tags;
        shape_.payload_bytes = sizeof(srp::Context);
        shape_.timeout = session_->options.timeout;
    }
    const Shape& shape() const noexcept override { return shape_; }
    Result<std::unique_ptr<block::HardwareQueue>> open_queue(unsigned index, block::Queue& queue,
                                                             Reactor& reactor) override {
        return std::make_unique<srp::IoQueue>(session_, index, queue, reactor);
    }

  private:
    std::shared_ptr<srp::Session> session_;
    Shape shape_;
};

struct FuzzWorld {
    test::ManualClock clock;
    SeededRandom random{1};
    test::ManualReactor reactor{clock, random};
    InProcessNetwork network;
    HostileTarget target{network, reactor};
    std::shared_ptr<srp::Session> session = std::make_shared<srp::Session>();
    std::shared_ptr<Device> device;
    std::unique_ptr<Channel> channel;

    void open(bool external) {
        session->options.queue_size = 8;
        session->options.allow_ext_sg = external;
        session->options.cmd_sg_entries = 2;
        session->network = &network;
        session->address = {.host = "target"};
        session->channels = 2;
        session->units.push_back(std::make_unique<srp::Unit>());
        session->units[0]->blocks = 1u << 20;
        block::Disk disk;
        disk.limits.max_sectors = 16384;
        disk.limits.max_segments = 2048;
        disk.limits.max_discard_sectors = disk.limits.max_write_zeroes_sectors = 1024;
        disk.limits.write_cache = true;
        disk.sectors = 1u << 20;
        disk.driver_data = session->units[0].get();
        device = block::QueueSet::create(std::make_shared<FuzzedDriver>(session))->add_disk(std::move(disk));
        channel = std::move(*device->channel(reactor));
    }
    ~FuzzWorld() {
        target.end();
        turn(4);
        channel.reset();
        device.reset();
        turn(4);
    }
    void turn(unsigned passes) {
        for (unsigned i = 0; i < passes; ++i) {
            reactor.run_once(Reactor::Sleep::no);
            target.poll();
            if (channel) channel->poll();
        }
    }
    void pass_time(Duration time) {
        const Time limit = clock.now() + time;
        for (unsigned i = 0; i < 10000 && clock.now() < limit; ++i) {
            reactor.run_once(Reactor::Sleep::yes, limit);
            target.poll();
            channel->poll();
        }
        if (clock.now() < limit) std::abort();  // it never sleeps
    }
};

struct Request {
    Bio bio;
    std::array<Segment, 4> list{};
    unsigned begun = 0, ended = 0;
};

void submit(FuzzWorld& world, Request& request, unsigned index, memory::Buffer& memory) {
    constexpr Op ops[] = {Op::write, Op::read, Op::flush, Op::discard, Op::write, Op::write_zeroes};
    if (request.begun != request.ended) return;
    ++request.begun;
    request.bio = {};
    request.bio.op = ops[index % std::size(ops)];
    request.bio.context = &request;
    request.bio.done = [](Bio& bio) noexcept {
        auto& of = *static_cast<Request*>(bio.context);
        if (++of.ended > of.begun) std::abort();
    };
    if (request.bio.op != Op::flush) request.bio.sectors = 32;
    if (carries_data(request.bio.op)) {
        for (unsigned i = 0; i < request.list.size(); ++i)
            request.list[i] = {memory.data() + (index * 8 + i * 2) * 4096, 4096};
        request.bio.data = request.list;
    }
    world.channel->submit(request.bio);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    static const bool quiet = (set_log_level(LogLevel::off), true);
    static_cast<void>(quiet);
    Input input{{bytes, size}};
    const std::uint8_t how = input.byte();
    // Sense data of any kind mean something.
    static_cast<void>(wire::scsi::judge(how, input.left));
    auto world = std::make_unique<FuzzWorld>();
    wire::srp::LoginRsp good{.req_lim_delta = 9, .max_it_iu_len = 8276, .max_ti_iu_len = 1024};
    good.rsp_flags = (how & 8) != 0 ? wire::srp::flag_immediate : std::uint8_t{0};
    const auto* const good_bytes = reinterpret_cast<const std::uint8_t*>(&good);
    world->target.login.assign(good_bytes, good_bytes + sizeof good);
    if ((how & 1) != 0) {
        const auto raw = input.take(ConnectParameters::max_private_bytes);
        world->target.login.assign(raw.begin(), raw.end());
    }
    world->target.rejects = (how & 2) != 0;
    memory::Buffer memory = std::move(*memory::Buffer::allocate(8 * 8 * 4096));
    std::array<Request, 8> requests;
    world->open((how & 4) != 0);
    world->turn(6);
    for (unsigned i = 0; i < requests.size(); ++i) submit(*world, requests[i], i, memory);
    world->turn(2);
    for (unsigned step = 0; step < 64 && !input.left.empty(); ++step) {
        const std::uint8_t kind = input.byte();
        if (kind == 0xf0) {
            world->pass_time(std::chrono::seconds(31));
        } else if (kind == 0xf1) {
            world->pass_time(std::chrono::milliseconds(200));
        } else if (kind == 0xf2) {
            world->target.end();
        } else if (kind == 0xf3) {
            for (unsigned i = 0; i < requests.size(); ++i) submit(*world, requests[i], i, memory);
        } else if (kind == 0xf4) {
            world->target.login.assign(good_bytes, good_bytes + sizeof good);
            world->target.rejects = false;
        } else {
            world->target.send(input.take(slot_bytes));
        }
        world->turn(2);
    }
    world.reset();
    for (const Request& request : requests)
        if (request.begun != request.ended) std::abort();
    return 0;
}
