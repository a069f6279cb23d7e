// SPDX-License-Identifier: Apache-2.0
//
// A target with one subsystem and an initiator that speaks to it through loop queues, one command at a time or several,
// so that a test reads as the conversation it is about.
#pragma once

#include "base/steady_clock.h"
#include "device/nvme/target.h"
#include "driver/null/null.h"
#include "driver/ram/ram.h"
#include "fabric/loop.h"
#include "reactor/uring_reactor.h"
#include "wire/nvme_fabrics.h"
#include "wire/nvme_identify.h"
#include "wire/nvme_logs.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace mqblk::nvme_test {

namespace wire = mqblk::wire::nvme;
namespace status = mqblk::wire::nvme::status;
using device::nvme::Target;

inline constexpr auto test_nqn = "nqn.2026-01.io.mqblk:test";
inline constexpr auto test_host = "nqn.2026-01.io.mqblk:host";

using Bytes = std::vector<std::byte>;

[[nodiscard]] inline Bytes pattern(std::size_t bytes, unsigned seed) {
    Bytes data(bytes);
    SeededRandom random(seed);
    for (auto& byte : data) byte = static_cast<std::byte>(random.next());
    return data;
}

/// One command under way.
struct Exchange {
    fabric::LoopCommand loop;
    Segment segment{nullptr, 0};
    wire::Completion completion;
    bool done = false;

    [[nodiscard]] std::uint16_t code() const { return wire::status_of(completion) & status::code_mask; }
    [[nodiscard]] std::uint64_t result() const { return completion.result; }
};

class Queue {
  public:
    Queue(Reactor& reactor, std::unique_ptr<fabric::LoopQueue> queue) : reactor_(reactor), queue_(std::move(queue)) {
        queue_->on_closed([](void* self) noexcept { static_cast<Queue*>(self)->closed_ = true; }, this);
    }

    /// Starts a command whose data is `data`. The SGL is filled in unless `raw`.
    Exchange& start(wire::Command command, std::span<std::byte> data = {}, bool raw = false) {
        Exchange& exchange = exchanges_.emplace_back();
        if (!raw) {
            command.flags |= wire::flag_psdt_sgl;
            command.data.type = wire::sgl_data_block;
            command.data.length = static_cast<std::uint32_t>(data.size());
        }
        command.command_id = static_cast<std::uint16_t>(next_id_++);
        exchange.segment = {data.data(), data.size()};
        exchange.loop.command = command;
        exchange.loop.data = {&exchange.segment, 1};
        exchange.loop.data_bytes = data.size();
        exchange.loop.context = &exchange;
        exchange.loop.done = [](fabric::LoopCommand& ended, const wire::Completion& completion) noexcept {
            auto& self = *static_cast<Exchange*>(ended.context);
            EXPECT_FALSE(self.done) << "a command ended twice";
            self.completion = completion;
            self.done = true;
        };
        queue_->submit(exchange.loop);
        return exchange;
    }

    /// Turns the loop until `done()`; fails the test if that does not come.
    template <class Done>
    void turn_until(Done done) {
        const Time give_up = reactor_.now() + std::chrono::seconds(60);
        while (!done()) {
            const bool idle = queue_->poll() == 0 && queue_->prepare_sleep();
            reactor_.run_once(idle ? Reactor::Sleep::yes : Reactor::Sleep::no, reactor_.now() + nap);
            if (reactor_.now() > give_up) {
                ADD_FAILURE() << "nothing happened for a minute";
                return;
            }
        }
    }
    /// One pass.
    void turn() {
        queue_->poll();
        reactor_.run_once(Reactor::Sleep::no);
    }

    Exchange& run(const wire::Command& command, std::span<std::byte> data = {}, bool raw = false) {
        Exchange& exchange = start(command, data, raw);
        turn_until([&] { return exchange.done; });
        EXPECT_EQ(exchange.completion.command_id, exchange.loop.command.command_id);
        return exchange;
    }
    /// Just the status code of a command.
    std::uint16_t code(const wire::Command& command, std::span<std::byte> data = {}, bool raw = false) {
        return run(command, data, raw).code();
    }

    [[nodiscard]] bool closed() const { return closed_; }
    fabric::LoopQueue& loop() { return *queue_; }

  private:
    static constexpr Duration nap = std::chrono::milliseconds(2);  // another thread's flag wakes nobody

    Reactor& reactor_;
    std::deque<Exchange> exchanges_;
    unsigned next_id_ = 1;
    bool closed_ = false;
    std::unique_ptr<fabric::LoopQueue> queue_;
};

struct ConnectOptions {
    std::uint16_t queue_id = 0;
    std::uint16_t sq_size = 31;
    std::uint16_t controller_id = wire::controller_id_dynamic;
    std::uint32_t keep_alive_ms = 0;
    std::string subsystem = test_nqn, host = test_host;
    std::uint8_t host_id = 7;
    std::uint8_t attributes = wire::connect_disable_flow_control;
};

[[nodiscard]] inline wire::ConnectData connect_data(const ConnectOptions& options) {
    wire::ConnectData data;
    data.host_id.fill(options.host_id);
    data.controller_id = options.controller_id;
    wire::set_text(data.subsystem_nqn, options.subsystem, '\0');
    wire::set_text(data.host_nqn, options.host, '\0');
    return data;
}

[[nodiscard]] inline wire::Command connect_command(const ConnectOptions& options) {
    wire::ConnectCommand command;
    command.queue_id = options.queue_id;
    command.sq_size = options.sq_size;
    command.keep_alive_ms = options.keep_alive_ms;
    command.attributes = options.attributes;
    return std::bit_cast<wire::Command>(command);
}

inline Exchange& connect(Queue& queue, const ConnectOptions& options) {
    wire::ConnectData data = connect_data(options);
    return queue.run(connect_command(options), std::as_writable_bytes(std::span(&data, 1)));
}

[[nodiscard]] inline wire::Command property_get(std::uint32_t offset) {
    wire::PropertyCommand command;
    command.offset = offset;
    command.attributes = offset == wire::property::cap ? 1 : 0;
    return std::bit_cast<wire::Command>(command);
}
[[nodiscard]] inline wire::Command property_set(std::uint32_t offset, std::uint32_t value) {
    wire::PropertyCommand command;
    command.type = wire::fabrics_type::property_set;
    command.offset = offset;
    command.value = value;
    return std::bit_cast<wire::Command>(command);
}
[[nodiscard]] inline wire::Command admin(std::uint8_t opcode, std::uint32_t cdw10 = 0, std::uint32_t cdw11 = 0,
                                         std::uint32_t nsid = 0) {
    wire::Command command;
    command.opcode = opcode;
    command.namespace_id = nsid;
    command.cdw10 = cdw10;
    command.cdw11 = cdw11;
    return command;
}
[[nodiscard]] inline wire::Command io(std::uint8_t opcode, std::uint32_t nsid, std::uint64_t block = 0,
                                      std::uint32_t blocks = 1, std::uint32_t control = 0) {
    wire::Command command;
    command.opcode = opcode;
    command.namespace_id = nsid;
    wire::set_block_range(command, block, blocks, control);
    return command;
}

inline constexpr std::uint32_t enable_value = wire::cc::enable | wire::cc::entry_sizes;

class TargetTest : public ::testing::Test {
  protected:
    explicit TargetTest(Target::Options options = {}) : target(options) {
        EXPECT_TRUE(target.add_subsystem({.nqn = test_nqn, .serial = {}, .allowed_hosts = {}}));
        port = *target.add_port({0, "loop", "", ""});
        loop = target.loop(port);
    }

    [[nodiscard]] static std::shared_ptr<Device> ram(std::uint64_t bytes, unsigned block = 512,
                                                     bool read_only = false) {
        driver::ram::Options options;
        options.bytes = bytes;
        options.disk.block = block;
        options.disk.read_only = read_only;
        options.disk.queues = 4;
        return *driver::ram::open(options);
    }
    [[nodiscard]] static std::shared_ptr<Device> null(std::uint64_t bytes, Duration latency = {}) {
        driver::null::Options options;
        options.bytes = bytes;
        options.disk.queues = 4;
        options.latency = latency;
        return *driver::null::open(options);
    }
    std::uint32_t add(std::shared_ptr<Device> device, const std::string& uri = "ram://", std::uint32_t nsid = 0) {
        const auto added = target.add_namespace(test_nqn, {nsid, uri, std::move(device), {}, {}});
        EXPECT_TRUE(added) << (added ? "" : added.error().message());
        return added.value_or(0);
    }

    std::unique_ptr<Queue> open() { return std::make_unique<Queue>(*reactor, *loop->open_queue(*reactor)); }

    /// An enabled controller's admin queue; its id is left in `controller_id`.
    std::unique_ptr<Queue> open_admin(const ConnectOptions& options = {}) {
        auto queue = open();
        const Exchange& answer = connect(*queue, options);
        EXPECT_EQ(answer.code(), status::success);
        controller_id = static_cast<std::uint16_t>(answer.result() & 0xffff);
        EXPECT_EQ(queue->code(property_set(wire::property::cc, enable_value)), status::success);
        return queue;
    }
    std::unique_ptr<Queue> open_io(std::uint16_t queue_id, std::uint16_t sq_size = 127) {
        auto queue = open();
        ConnectOptions options;
        options.queue_id = queue_id;
        options.sq_size = sq_size;
        options.controller_id = controller_id;
        EXPECT_EQ(connect(*queue, options).code(), status::success);
        return queue;
    }

    /// A page of `bytes` of log `id` from `offset` on.
    static Bytes read_log(Queue& admin_queue, std::uint8_t id, std::uint64_t offset, std::size_t bytes,
                          std::uint32_t flags = 0) {
        Bytes page(bytes, std::byte{0xee});
        wire::Command command = admin(wire::admin_opcode::get_log_page);
        wire::set_log_request(command, id, offset, bytes, flags);
        EXPECT_EQ(admin_queue.code(command, page), status::success) << "log " << int{id} << " at " << offset;
        return page;
    }

    SteadyClock clock;
    SeededRandom random{1};
    std::unique_ptr<Reactor> reactor = std::move(*make_uring_reactor(clock, random));
    Target target;
    unsigned port = 0;
    std::unique_ptr<fabric::LoopTarget> loop;
    std::uint16_t controller_id = 0;
};

template <class T>
[[nodiscard]] T as(std::span<const std::byte> bytes, std::size_t offset = 0) {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

}  // namespace mqblk::nvme_test
