// SPDX-License-Identifier: Apache-2.0
//
// A hostile initiator over loop: any sequence of submission queue entries, with any data, on three queues of a target
// with a RAM disk and a null disk. Every command must end, once; nothing may crash, hang or leak. Each step of the
// input is a header of four bytes {queue and how to fill the command in, opcode, data size, value}, a raw 64-byte
// entry where asked for, and data.
#include "base/log.h"
#include "base/steady_clock.h"
#include "device/nvme/target.h"
#include "driver/null/null.h"
#include "driver/ram/ram.h"
#include "fabric/loop.h"
#include "reactor/uring_reactor.h"
#include "wire/nvme_fabrics.h"
#include "wire/nvme_logs.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace {

using namespace mqblk;
namespace wire_nvme = mqblk::wire::nvme;

constexpr std::size_t most_steps = 64;
constexpr auto nqn = "nqn.2026-01.io.mqblk:fuzz";

class Input {
  public:
    explicit Input(std::span<const std::uint8_t> bytes) : left_(bytes) {}
    [[nodiscard]] bool empty() const { return left_.empty(); }
    std::uint8_t byte() {
        if (left_.empty()) return 0;
        const std::uint8_t value = left_[0];
        left_ = left_.subspan(1);
        return value;
    }
    void fill(void* to, std::size_t bytes) {
        const std::size_t count = std::min(bytes, left_.size());
        if (count > 0) std::memcpy(to, left_.data(), count);
        left_ = left_.subspan(count);
    }

  private:
    std::span<const std::uint8_t> left_;
};

struct Pending {
    fabric::LoopCommand loop;
    std::vector<std::byte> data;
    Segment segment{nullptr, 0};
    bool done = false;
};

void ended(fabric::LoopCommand& loop, const wire_nvme::Completion& completion) noexcept {
    auto& pending = *static_cast<Pending*>(loop.context);
    if (pending.done || completion.command_id != loop.command.command_id) std::abort();
    pending.done = true;
}

wire_nvme::Command connect_command(std::uint8_t value, std::vector<std::byte>& data, std::uint16_t queue_id) {
    wire_nvme::ConnectCommand command;
    command.queue_id = queue_id;
    command.sq_size = 31;
    wire_nvme::ConnectData connect;
    connect.controller_id = queue_id == 0 ? wire_nvme::controller_id_dynamic : std::uint16_t{1};
    wire_nvme::set_text(connect.subsystem_nqn, (value & 1) != 0 ? wire_nvme::discovery_nqn : nqn, '\0');
    wire_nvme::set_text(connect.host_nqn, "nqn.host", '\0');
    data.resize(sizeof connect);
    std::memcpy(data.data(), &connect, sizeof connect);
    return std::bit_cast<wire_nvme::Command>(command);
}

/// Commands of the right form, so that the fuzzer need not find out what one looks like.
wire_nvme::Command shaped(std::uint8_t how, std::uint8_t opcode, std::uint8_t value, Input& input) {
    wire_nvme::Command command;
    command.opcode = opcode;
    command.namespace_id = value & 3;
    switch (how & 3) {
        case 0:  // enable, or any property
            if (opcode == wire_nvme::admin_opcode::fabrics) {
                wire_nvme::PropertyCommand set;
                set.type = wire_nvme::fabrics_type::property_set;
                set.offset = wire_nvme::property::cc;
                set.value = wire_nvme::cc::enable | wire_nvme::cc::entry_sizes | std::uint32_t{value} << 4;
                return std::bit_cast<wire_nvme::Command>(set);
            }
            [[fallthrough]];
        case 1:
            wire_nvme::set_block_range(command, value >> 2, 1u + (value & 7));
            break;
        case 2:
            wire_nvme::set_log_request(command, value, std::uint64_t{input.byte()} * 16, 4ull * (1 + input.byte()));
            break;
        default:
            command.cdw10 = value;
            command.cdw11 = input.byte() | std::uint32_t{input.byte()} << 24;
    }
    return command;
}

class World {
  public:
    World() : target_(device::nvme::Target::Options{}) {
        static_cast<void>(target_.add_subsystem({.nqn = nqn, .serial = {}, .allowed_hosts = {}}));
        driver::ram::Options ram;
        ram.bytes = 64 << 10;
        driver::null::Options null;
        null.bytes = 1 << 20;
        static_cast<void>(target_.add_namespace(nqn, {1, "ram", *driver::ram::open(ram), {}, {}}));
        static_cast<void>(target_.add_namespace(nqn, {2, "null", *driver::null::open(null), {}, {}}));
        loop_ = target_.loop(*target_.add_port({0, "loop", "", ""}));
        for (auto& queue : queues_) queue = *loop_->open_queue(reactor());
    }

    static Reactor& reactor() {
        static SteadyClock clock;
        static SeededRandom random{1};
        static const std::unique_ptr<Reactor> only = std::move(*make_uring_reactor(clock, random));
        return *only;
    }

    void step(Input& input) {
        const std::uint8_t how = input.byte(), opcode = input.byte(), size = input.byte(), value = input.byte();
        Pending& pending = commands_.emplace_back();
        const unsigned which = how >> 6 & 3;
        if (which == 3) {  // a queue goes, another comes
            queues_[value % queues_.size()] = *loop_->open_queue(reactor());
            pending.done = true;
            return;
        }
        wire_nvme::Command command;
        pending.data.resize(std::size_t{size} * 16);
        if ((how & 0x20) != 0) {
            input.fill(&command, sizeof command);
        } else if (opcode == 0x7e) {
            command = connect_command(value, pending.data, static_cast<std::uint16_t>(which));
        } else {
            command = shaped(how, opcode, value, input);
        }
        if (opcode != 0x7e) input.fill(pending.data.data(), pending.data.size());
        if ((how & 0x10) == 0) {
            command.flags = static_cast<std::uint8_t>(wire_nvme::flag_psdt_sgl | (how >> 2 & 3));
            command.data.type = wire_nvme::sgl_data_block;
            command.data.length = static_cast<std::uint32_t>(pending.data.size());
        }
        pending.segment = {pending.data.data(), pending.data.size()};
        pending.loop.command = command;
        pending.loop.data = {&pending.segment, 1};
        pending.loop.data_bytes = pending.data.size();
        pending.loop.done = &ended;
        pending.loop.context = &pending;
        queues_[which]->submit(pending.loop);
    }

    void turn() {
        for (const auto& queue : queues_) queue->poll();
        reactor().run_once(Reactor::Sleep::no);
    }

    void finish() {
        for (auto& queue : queues_) queue.reset();
        for (const Pending& pending : commands_) {
            if (!pending.done) std::abort();
        }
        reactor().run_once(Reactor::Sleep::no);
    }

  private:
    std::deque<Pending> commands_;
    device::nvme::Target target_;
    std::unique_ptr<fabric::LoopTarget> loop_;
    std::array<std::unique_ptr<fabric::LoopQueue>, 3> queues_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    set_log_level(LogLevel::off);
    Input input({bytes, size});
    World world;
    for (std::size_t steps = 0; steps < most_steps && !input.empty(); ++steps) {
        world.step(input);
        world.turn();
    }
    world.finish();
    return 0;
}
