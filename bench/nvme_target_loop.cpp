// SPDX-License-Identifier: Apache-2.0
//
// The target alone, without an initiator's block layer above: commands by the loop queue against a null disk, at depth
// 32, with 1 to 4,096 namespaces of which one is used: the price of a command's way through plan and execute, which
// must not grow with what is idle. The `spread` ones use all namespaces in random order: then it grows with what the
// caches cannot hold.
#include "base/steady_clock.h"
#include "device/nvme/target.h"
#include "driver/null/null.h"
#include "fabric/loop.h"
#include "reactor/uring_reactor.h"
#include "wire/nvme_fabrics.h"

#include <benchmark/benchmark.h>

#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace mqblk;
namespace wire_nvme = mqblk::wire::nvme;

constexpr auto nqn = "nqn.2026-01.io.mqblk:bench";
constexpr unsigned depth = 32;
constexpr std::size_t io_bytes = 4096;

struct Command {
    fabric::LoopCommand loop;
    alignas(4096) std::byte data[io_bytes];
    Segment segment{data, io_bytes};
    class Initiator* initiator = nullptr;
};

class Initiator {
  public:
    Initiator(unsigned namespaces, bool spread) : namespaces_(namespaces), spread_(spread) {
        static_cast<void>(target_.add_subsystem({.nqn = nqn, .serial = {}, .allowed_hosts = {}}));
        driver::null::Options options;
        options.bytes = 1ull << 30;
        for (unsigned nsid = 1; nsid <= namespaces; ++nsid) {
            static_cast<void>(
                target_.add_namespace(nqn, {nsid, std::to_string(nsid), *driver::null::open(options), {}, {}}));
        }
        loop_ = target_.loop(*target_.add_port({0, "loop", "", ""}));
        admin_ = *loop_->open_queue(*reactor_);
        io_ = *loop_->open_queue(*reactor_);
        connect(*admin_, 0);
        wire_nvme::PropertyCommand enable;
        enable.type = wire_nvme::fabrics_type::property_set;
        enable.offset = wire_nvme::property::cc;
        enable.value = wire_nvme::cc::enable | wire_nvme::cc::entry_sizes;
        run(*admin_, std::bit_cast<wire_nvme::Command>(enable), {nullptr, 0});
        connect(*io_, 1);
    }

    void start(std::uint8_t opcode) {
        for (Command& command : commands_) {
            command.initiator = this;
            command.loop.command.opcode = opcode;
            command.loop.command.flags = wire_nvme::flag_psdt_sgl;
            command.loop.command.data.length = io_bytes;
            command.loop.data = {&command.segment, 1};
            command.loop.data_bytes = io_bytes;
            command.loop.context = &command;
            command.loop.done = [](fabric::LoopCommand& loop, const wire_nvme::Completion&) noexcept {
                auto& self = *static_cast<Command*>(loop.context);
                self.initiator->ended_.push_back(&self);
            };
            ended_.push_back(&command);
        }
    }
    /// One pass: everything that ended is submitted again.
    unsigned pass() {
        batch_.swap(ended_);
        const auto count = static_cast<unsigned>(batch_.size());
        for (Command* command : batch_) {
            const std::uint64_t random = random_.next();
            command->loop.command.namespace_id =
                spread_ ? 1 + static_cast<std::uint32_t>(random % namespaces_) : (namespaces_ + 1) / 2;
            wire_nvme::set_block_range(command->loop.command, random >> 46 << 3, io_bytes / 512);
            io_->submit(command->loop);
        }
        batch_.clear();
        io_->poll();
        reactor_->run_once(Reactor::Sleep::no);
        return count;
    }

  private:
    void connect(fabric::LoopQueue& queue, std::uint16_t queue_id) {
        wire_nvme::ConnectCommand command;
        command.queue_id = queue_id;
        command.sq_size = 127;
        wire_nvme::ConnectData data;
        data.controller_id = queue_id == 0 ? wire_nvme::controller_id_dynamic : std::uint16_t{1};
        wire_nvme::set_text(data.subsystem_nqn, nqn, '\0');
        wire_nvme::set_text(data.host_nqn, "nqn.host", '\0');
        run(queue, std::bit_cast<wire_nvme::Command>(command), {reinterpret_cast<std::byte*>(&data), sizeof data});
    }
    static void run(fabric::LoopQueue& queue, wire_nvme::Command command, Segment segment) {
        fabric::LoopCommand loop;
        loop.command = command;
        loop.command.data.length = static_cast<std::uint32_t>(segment.bytes);
        loop.data = {&segment, 1};
        loop.data_bytes = segment.bytes;
        loop.done = [](fabric::LoopCommand&, const wire_nvme::Completion&) noexcept {};
        queue.submit(loop);
    }

    SteadyClock clock_;
    SeededRandom random_{1};
    std::unique_ptr<Reactor> reactor_ = std::move(*make_uring_reactor(clock_, random_));
    device::nvme::Target target_{device::nvme::Target::Options{}};
    std::unique_ptr<fabric::LoopTarget> loop_;
    std::unique_ptr<fabric::LoopQueue> admin_, io_;
    const unsigned namespaces_;
    const bool spread_;
    std::vector<Command> commands_{depth};
    std::vector<Command*> ended_, batch_;
};

void commands(benchmark::State& state, std::uint8_t opcode, bool spread) {
    Initiator initiator(static_cast<unsigned>(state.range(0)), spread);
    initiator.start(opcode);
    // Channels are opened at their first use.
    for (std::int64_t i = 0; i < state.range(0); ++i) initiator.pass();
    std::int64_t count = 0;
    for (auto _ : state) count += initiator.pass();
    state.SetItemsProcessed(count);
}

BENCHMARK_CAPTURE(commands, read, wire_nvme::io_opcode::read, false)->Arg(1)->Arg(64)->Arg(4096);
BENCHMARK_CAPTURE(commands, write, wire_nvme::io_opcode::write, false)->Arg(1)->Arg(64)->Arg(4096);
BENCHMARK_CAPTURE(commands, read_spread, wire_nvme::io_opcode::read, true)->Arg(64)->Arg(4096);
BENCHMARK_CAPTURE(commands, write_spread, wire_nvme::io_opcode::write, true)->Arg(64)->Arg(4096);

}  // namespace

BENCHMARK_MAIN();
