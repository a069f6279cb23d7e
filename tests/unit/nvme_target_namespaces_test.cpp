// SPDX-License-Identifier: Apache-2.0
//
// Namespaces that come and go: errors of the control path, removal with commands under way, and under load from other
// threads, with nothing lost and no device left open.
#include "block/queue.h"
#include "nvme_target_harness.h"

#include <atomic>
#include <thread>

namespace mqblk::nvme_test {
namespace {

namespace opcode = wire::io_opcode;

class Namespaces : public TargetTest {};

TEST_F(Namespaces, ErrorsSayWhatIsWrong) {
    const auto refused = [&](device::nvme::NamespaceConfig config, const std::string& nqn = test_nqn) {
        const auto result = target.add_namespace(nqn, std::move(config));
        EXPECT_FALSE(result);
        return result ? std::string() : result.error().message();
    };
    EXPECT_NE(refused({1, "x", null(1 << 20), {}, {}}, "nqn.none").find("there is no subsystem nqn.none"),
              std::string::npos);
    EXPECT_NE(refused({16385, "x", null(1 << 20), {}, {}}).find("16384"), std::string::npos);
    add(null(1 << 20), "x", 5);
    EXPECT_NE(refused({5, "x", null(1 << 20), {}, {}}).find("has a namespace 5 already"), std::string::npos);
    EXPECT_NE(refused({6, "x", null(1 << 20), "nonsense", {}}).find("'nonsense'"), std::string::npos);
    EXPECT_FALSE(target.remove_namespace(test_nqn, 6));
    EXPECT_EQ(add(null(1 << 20), "y", 6), 6u) << "a refusal leaves the id free";
    EXPECT_EQ(add(null(1 << 20)), 1u) << "the lowest free one";
    EXPECT_FALSE(target.device(test_nqn, 4));
    EXPECT_TRUE(target.device(test_nqn, 5));
    EXPECT_EQ(target.namespaces(test_nqn)->size(), 3u);
    const auto info = target.namespace_info(test_nqn, 5);
    ASSERT_TRUE(info) << info.error().message();
    EXPECT_EQ(info->nsid, 5u);
    EXPECT_EQ(info->uri, "x");
    EXPECT_EQ(info->sectors, (1u << 20) / 512);
    EXPECT_EQ(target.namespace_info(test_nqn, 4).error().code(), Errc::not_found);
    EXPECT_EQ(target.namespace_info("nqn.none", 5).error().code(), Errc::not_found);
    EXPECT_TRUE(target.has_subsystem(test_nqn));
    EXPECT_FALSE(target.has_subsystem("nqn.none"));
}

TEST_F(Namespaces, TheLowestFreeIdIsTaken) {
    for (std::uint32_t nsid = 1; nsid <= 6; ++nsid) ASSERT_EQ(add(null(1 << 20)), nsid);
    add(null(1 << 20), "given", 8);
    for (const std::uint32_t gone : {4u, 2u}) ASSERT_TRUE(target.remove_namespace(test_nqn, gone));
    for (const std::uint32_t lowest : {2u, 4u, 7u, 9u}) EXPECT_EQ(add(null(1 << 20)), lowest);
}

TEST_F(Namespaces, SubsystemErrors) {
    EXPECT_FALSE(target.add_subsystem({.nqn = test_nqn, .serial = {}, .allowed_hosts = {}}));
    EXPECT_FALSE(target.add_subsystem({.nqn = "", .serial = {}, .allowed_hosts = {}}));
    EXPECT_FALSE(target.add_subsystem({.nqn = "disk", .serial = {}, .allowed_hosts = {}}));
    EXPECT_FALSE(target.add_subsystem({.nqn = std::string(wire::discovery_nqn), .serial = {}, .allowed_hosts = {}}));
    EXPECT_FALSE(target.add_subsystem({.nqn = "nqn.a b", .serial = {}, .allowed_hosts = {}}));
    EXPECT_FALSE(target.add_subsystem({.nqn = "nqn.ok", .serial = std::string(21, '1'), .allowed_hosts = {}}));
    EXPECT_FALSE(target.remove_subsystem("nqn.ok"));
    EXPECT_FALSE(target.add_port({port, "loop", "", ""})) << "the id is taken";
    EXPECT_FALSE(target.add_port({0, "rdma", "", ""}));
    EXPECT_FALSE(target.remove_port(99));
}

TEST_F(Namespaces, TheDeviceIsLetGo) {
    auto device = ram(1 << 20);
    const std::weak_ptr<Device> watch = device;
    const std::uint32_t nsid = add(std::move(device));
    const auto admin_queue = open_admin();
    const auto queue = open_io(1);
    Bytes data(4096);
    ASSERT_EQ(queue->code(io(opcode::write, nsid, 0, 8), data), status::success);
    ASSERT_TRUE(target.remove_namespace(test_nqn, nsid));
    EXPECT_TRUE(watch.expired());
    EXPECT_EQ(queue->code(io(opcode::read, nsid, 0, 8), data), status::invalid_namespace);
    const std::uint32_t again = add(ram(1 << 20));
    EXPECT_EQ(again, nsid);
    EXPECT_EQ(queue->code(io(opcode::read, nsid, 0, 8), data), status::success);
}

TEST_F(Namespaces, RemovalWithACommandUnderWay) {
    const std::uint32_t nsid = add(null(1 << 20, std::chrono::milliseconds(300)));
    const auto admin_queue = open_admin();
    const auto queue = open_io(1);
    Bytes data(4096);
    Exchange& slow = queue->start(io(opcode::write, nsid, 0, 8), data);
    // This thread is the one that must turn the backend: the call does not wait for it for ever.
    ASSERT_TRUE(target.remove_namespace(test_nqn, nsid));
    EXPECT_EQ(queue->code(io(opcode::write, nsid, 0, 8), data), status::invalid_namespace);
    queue->turn_until([&] { return slow.done; });
    EXPECT_EQ(slow.code(), status::success);
    for (int i = 0; i < 5; ++i) queue->turn();
    EXPECT_EQ(add(null(1 << 20), "x", nsid), nsid) << "the id is free once it has ended";
}

TEST_F(Namespaces, ResizeIsSeenAndTold) {
    const auto device = ram(1 << 20);
    const std::uint32_t nsid = add(device);
    const auto admin_queue = open_admin();
    const auto queue = open_io(1);
    Bytes data(512);
    EXPECT_EQ(queue->code(io(opcode::read, nsid, 2047), data), status::success);
    EXPECT_EQ(queue->code(io(opcode::read, nsid, 2048), data), status::lba_out_of_range);
    Exchange& event = admin_queue->start(admin(wire::admin_opcode::async_event_request));
    block::update_disk(*device, device->limits(), 1024, false);
    admin_queue->turn_until([&] { return event.done; });
    EXPECT_EQ(event.result(), wire::event_result(2, 0x00, 0x04));
    EXPECT_EQ(queue->code(io(opcode::read, nsid, 1024), data), status::lba_out_of_range);
    Bytes page(4096);
    ASSERT_EQ(admin_queue->code(admin(wire::admin_opcode::identify, 0, 0, nsid), page), status::success);
    EXPECT_EQ(as<le64>(page), 1024u);
}

TEST_F(Namespaces, ARemovedDeviceIsNoNamespace) {
    const auto device = ram(1 << 20);
    const std::uint32_t nsid = add(device);
    const auto admin_queue = open_admin();
    const auto queue = open_io(1);
    Bytes data(512);
    ASSERT_EQ(queue->code(io(opcode::read, nsid), data), status::success);
    device->remove();
    EXPECT_EQ(queue->code(io(opcode::read, nsid), data), status::invalid_namespace);
    EXPECT_TRUE(target.remove_namespace(test_nqn, nsid));
}

TEST_F(Namespaces, SparseIdsAcrossTreeLevels) {
    const auto admin_queue = open_admin();
    const auto queue = open_io(1);
    for (const std::uint32_t nsid : {1u, 63u, 64u, 4095u, 4096u, 16384u}) {
        add(ram(1 << 20), "ram://" + std::to_string(nsid), nsid);
        Bytes data = pattern(512, nsid);
        EXPECT_EQ(queue->code(io(opcode::write, nsid), data), status::success) << nsid;
    }
    for (const std::uint32_t nsid : {1u, 63u, 64u, 4095u, 4096u, 16384u}) {
        Bytes data(512);
        EXPECT_EQ(queue->code(io(opcode::read, nsid), data), status::success);
        EXPECT_EQ(data, pattern(512, nsid));
    }
}

/// Two threads read and write namespaces that a third adds and removes: every command ends with success or with an
/// invalid namespace, data is what was written, and each removal leaves no user of its device.
TEST_F(Namespaces, AddAndRemoveUnderLoad) {
    constexpr unsigned threads = 2, rounds = 40, spaces = 3;
    const auto admin_queue = open_admin();
    const std::uint16_t id = controller_id;
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> good{0};
    std::vector<std::thread> pool;
    for (unsigned t = 0; t < threads; ++t) {
        pool.emplace_back([&, t] {
            SteadyClock own_clock;
            SeededRandom own_random{t + 1};
            auto own_reactor = std::move(*make_uring_reactor(own_clock, own_random));
            Queue own(*own_reactor, *loop->open_queue(*own_reactor));
            ConnectOptions options;
            options.queue_id = static_cast<std::uint16_t>(t + 1);
            options.controller_id = id;
            EXPECT_EQ(connect(own, options).code(), status::success);
            Bytes data(4096), back(4096);
            while (!stop.load()) {
                own.turn();  // commands that end at once do not turn the loop, which brings the removal
                const auto nsid = static_cast<std::uint32_t>(1 + own_random.below(spaces));
                const std::uint64_t block = (t * 8 + 16 * own_random.below(32));
                data = pattern(4096, static_cast<unsigned>(own_random.next()));
                const std::uint32_t control = own_random.below(2) != 0 ? wire::rw_fua : 0;
                const std::uint16_t wrote = own.code(io(opcode::write, nsid, block, 8, control), data);
                const std::uint16_t read = own.code(io(opcode::read, nsid, block, 8), back);
                for (const std::uint16_t code : {wrote, read}) {
                    EXPECT_TRUE(code == status::success || code == status::invalid_namespace) << code;
                }
                if (wrote == status::success && read == status::success) {
                    // A namespace that was replaced in between is all zeroes.
                    EXPECT_TRUE(back == data || back == Bytes(4096));
                    good.fetch_add(1);
                }
            }
        });
    }
    for (unsigned round = 0; round < rounds; ++round) {
        const std::uint32_t nsid = 1 + round % spaces;
        auto device = ram(1 << 20);
        const std::weak_ptr<Device> watch = device;
        add(std::move(device), "ram://", nsid);
        const std::uint64_t before = good.load();
        while (good.load() < before + 2) std::this_thread::yield();
        const auto removed = target.remove_namespace(test_nqn, nsid);
        EXPECT_TRUE(removed) << (removed ? "" : removed.error().message());
        EXPECT_TRUE(watch.expired()) << "round " << round;
        admin_queue->turn();
    }
    stop = true;
    for (auto& thread : pool) thread.join();
    EXPECT_TRUE(target.namespaces(test_nqn)->empty());
}

/// The last queue of a thread goes, and another comes, while a third thread removes namespaces: what they share of that
/// thread ends once, and the removal waits for it. (For the sanitizers.)
TEST_F(Namespaces, RemovalWhileThreadsLoseTheirLastQueue) {
    constexpr unsigned threads = 2, rounds = 200;
    const auto admin_queue = open_admin();
    const std::uint16_t id = controller_id;
    std::atomic<bool> stop{false};
    std::vector<std::thread> pool;
    for (unsigned t = 0; t < threads; ++t) {
        pool.emplace_back([&, t] {
            SteadyClock own_clock;
            SeededRandom own_random{t + 1};
            auto own_reactor = std::move(*make_uring_reactor(own_clock, own_random));
            Bytes data(512);
            while (!stop.load()) {
                Queue own(*own_reactor, *loop->open_queue(*own_reactor));
                ConnectOptions options;
                options.queue_id = static_cast<std::uint16_t>(t + 1);
                options.controller_id = id;
                EXPECT_EQ(connect(own, options).code(), status::success);
                const std::uint16_t code = own.code(io(opcode::read, 1), data);
                EXPECT_TRUE(code == status::success || code == status::invalid_namespace) << code;
                own.turn();  // commands that end at once do not turn the loop, which brings the removal
            }
            own_reactor->run_once(Reactor::Sleep::no);
        });
    }
    for (unsigned round = 0; round < rounds; ++round) {
        auto device = ram(1 << 20);
        const std::weak_ptr<Device> watch = device;
        add(std::move(device), "ram://", 1);
        EXPECT_TRUE(target.remove_namespace(test_nqn, 1));
        EXPECT_TRUE(watch.expired()) << "round " << round;
        admin_queue->turn();
    }
    stop = true;
    for (auto& thread : pool) thread.join();
}

}  // namespace
}  // namespace mqblk::nvme_test
