// SPDX-License-Identifier: Apache-2.0
//
// A hostile SRP initiator: a login of any bytes, then any units, with a table of descriptors of any bytes in memory
// that the target may read. Nothing crashes, hangs or leaks, and no more answers come than requests went. Steps: two
// bytes of length, the unit.
#include "base/log.h"
#include "base/steady_clock.h"
#include "device/srp/target.h"
#include "driver/ram/ram.h"
#include "fabric/rdma/in_process.h"
#include "memory/buffer.h"
#include "reactor/uring_reactor.h"

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

constexpr std::uint32_t slots = 64, slot_bytes = 4096;
constexpr std::uint8_t all_access = access_local_write | access_remote_write | access_remote_read;

struct World {
    SteadyClock clock;
    SeededRandom random{1};
    std::unique_ptr<Reactor> reactor = std::move(*make_uring_reactor(clock, random, {}));
    InProcessNetwork network;
    std::unique_ptr<device::srp::Target> target;

    World() {
        device::srp::TargetOptions options;
        options.max_transfer_bytes = 1 << 20;
        options.buffer_bytes = 1 << 20;
        options.login.queue_depth = 16;
        driver::ram::Options ram{.bytes = 1 << 20, .disk = {}};
        target = std::move(*device::srp::Target::create(options, {{.lun = 0, .device = *driver::ram::open(ram)}}));
        if (!target->listen(network, *reactor, {.host = "target"})) std::abort();
    }
};

class Initiator final : public QueuePairHandler {
  public:
    Initiator(World& world, std::span<const std::uint8_t> login) : login_(login) {
        qp_ = world.network.open(*world.reactor, {.host = "target"}, *this, std::chrono::seconds(1));
    }
    ~Initiator() { qp_.reset(); }

    bool connected = false, over = false;

    /// Memory that the target may use: for tables of descriptors and for data.
    [[nodiscard]] std::span<std::uint8_t> shared() const {
        return {reinterpret_cast<std::uint8_t*>(memory_.data()) + 2 * slots * slot_bytes, slot_bytes};
    }
    [[nodiscard]] std::uint32_t key() const { return key_; }

    void send(std::span<const std::uint8_t> unit) {
        std::byte* const at = memory_.data() + (slots + next_++ % slots) * slot_bytes;
        std::ranges::copy(std::as_bytes(unit), at);
        const LocalPiece piece{at, static_cast<std::uint32_t>(unit.size()), key_};
        if (qp_->post_send(slots, {&piece, 1})) ++sent_;
    }
    void poll() {
        if (!completions_) return;
        std::array<WorkCompletion, 32> batch;
        const unsigned count = completions_->poll(batch);
        for (unsigned i = 0; i < count; ++i) {
            if (batch[i].op != WorkOp::receive || batch[i].status != WorkStatus::success) continue;
            if (++answered_ > 2 * sent_) std::abort();
            post_receive(static_cast<std::uint32_t>(batch[i].id));
        }
    }

  private:
    void resolved() noexcept override {
        Domain& domain = *qp_->domain();
        key_ = domain.register_range(memory_.data(), memory_.size(), all_access);
        completions_ = std::move(*domain.make_completion_queue(2 * slots));
        if (!qp_->create({.max_sends = slots, .max_receives = slots}, *completions_)) std::abort();
        for (std::uint32_t i = 0; i < slots; ++i) post_receive(i);
        qp_->connect({.private_data = std::as_bytes(login_)}, std::chrono::seconds(1));
    }
    void accepted(std::span<const std::byte>) noexcept override { connected = true; }
    void rejected(std::uint16_t, std::span<const std::byte>) noexcept override { over = true; }
    void failed(const Error&) noexcept override { over = true; }
    void disconnected() noexcept override { over = true; }
    void post_receive(std::uint32_t index) {
        const LocalPiece piece{memory_.data() + index * slot_bytes, slot_bytes, key_};
        static_cast<void>(qp_->post_receive(index, {&piece, 1}));
    }

    const std::span<const std::uint8_t> login_;
    memory::Buffer memory_ = std::move(*memory::Buffer::allocate((2 * slots + 1) * slot_bytes));
    std::uint32_t key_ = 0, next_ = 0;
    std::uint64_t sent_ = 0, answered_ = 0;
    std::unique_ptr<CompletionQueue> completions_;
    std::unique_ptr<QueuePair> qp_;
};

/// Addresses and keys of memory that is there, where a descriptor asks for them by key 1.
void aim(std::span<std::uint8_t> bytes, std::size_t from, const Initiator& initiator) {
    for (std::size_t at = from; at + 16 <= bytes.size(); at += 4) {
        if (bytes[at + 8] != 0 || bytes[at + 11] != 1) continue;
        const be64 address(reinterpret_cast<std::uintptr_t>(initiator.shared().data()));
        const be32 wire_key(initiator.key());
        std::memcpy(&bytes[at], &address, sizeof address);
        std::memcpy(&bytes[at + 8], &wire_key, sizeof wire_key);
        at += 12;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    static World world;
    static const bool quiet = (set_log_level(LogLevel::off), true);
    static_cast<void>(quiet);
    std::span<const std::uint8_t> left(bytes, size);
    if (left.empty()) return 0;
    // A login that is granted, or any.
    wire::srp::LoginReq good{.req_it_iu_len = 2048, .req_buf_fmt = wire::srp::formats_known};
    good.req_flags = wire::srp::flag_immediate;
    good.imm_data_offset = 68;
    std::array<std::uint8_t, sizeof good> login;
    std::memcpy(login.data(), static_cast<const void*>(&good), sizeof good);
    std::size_t login_bytes = login.size();
    if ((left[0] & 1) != 0) {
        login_bytes = std::min<std::size_t>(left.size(), login.size());
        std::copy_n(left.begin(), login_bytes, login.begin());
    }
    left = left.subspan(1);
    auto initiator = std::make_unique<Initiator>(world, std::span(login).first(login_bytes));
    const auto turn = [&](unsigned passes) {
        for (unsigned i = 0; i < passes; ++i) {
            world.reactor->run_once(Reactor::Sleep::no);
            initiator->poll();
        }
    };
    turn(8);
    const std::span<std::uint8_t> table = initiator->shared();
    std::copy_n(bytes, std::min<std::size_t>(size, table.size()), table.begin());
    aim(table, 0, *initiator);
    for (unsigned step = 0; step < 64 && initiator->connected && !initiator->over && left.size() >= 2; ++step) {
        const std::size_t length =
            std::min<std::size_t>({static_cast<std::size_t>(left[0]) << 8 | left[1], left.size() - 2, 2048});
        std::vector<std::uint8_t> unit(left.begin() + 2, left.begin() + 2 + static_cast<std::ptrdiff_t>(length));
        left = left.subspan(2 + length);
        aim(unit, sizeof(wire::srp::Cmd), *initiator);
        initiator->send(unit);
        turn(2);
    }
    turn(8);
    initiator.reset();
    if (world.target->connections() != 0) std::abort();
    return 0;
}
