// SPDX-License-Identifier: Apache-2.0
//
// Identify, features, log pages, events: what a host learns, and that it agrees with what is served.
#include "nvme_target_harness.h"

#include <set>

namespace mqblk::nvme_test {
namespace {

namespace feature = wire::feature_id;

class Admin : public TargetTest {
  protected:
    Admin() { queue = open_admin(); }

    Bytes identify(std::uint8_t cns, std::uint32_t nsid = 0, std::uint16_t expected = status::success,
                   std::uint8_t csi = 0) {
        Bytes page(4096, std::byte{0xee});
        EXPECT_EQ(queue->code(admin(wire::admin_opcode::identify, cns, std::uint32_t{csi} << 24, nsid), page), expected)
            << "CNS " << int{cns};
        return page;
    }
    std::uint64_t get(std::uint8_t id, std::uint8_t select = 0) {
        const Exchange& answer = queue->run(admin(wire::admin_opcode::get_features, id | std::uint32_t{select} << 8));
        EXPECT_EQ(answer.code(), status::success) << int{id};
        return answer.result();
    }
    std::uint16_t set(std::uint8_t id, std::uint32_t value) {
        return queue->code(admin(wire::admin_opcode::set_features, id, value));
    }

    std::unique_ptr<Queue> queue;
};

TEST_F(Admin, IdentifyControllerSaysWhatIsServed) {
    const auto limits = target.limits();
    const auto id = as<wire::IdentifyController>(identify(wire::cns::controller));
    EXPECT_EQ(id.cntlid, controller_id);
    EXPECT_EQ(4096u << id.mdts, limits.max_transfer_bytes);
    EXPECT_EQ(id.ioccsz * 16u, 64u + limits.in_capsule_bytes);
    EXPECT_EQ(id.iorcsz, 1u);
    EXPECT_EQ(id.icdoff, 0u);
    EXPECT_EQ(id.nn, limits.max_namespaces);
    EXPECT_EQ(id.mnan, limits.max_namespaces);
    EXPECT_EQ(id.maxcmd, limits.max_queue_entries);
    EXPECT_EQ(id.aerl + 1u, limits.async_events);
    EXPECT_NE(id.kas, 0u);
    EXPECT_NE(id.sgls & 3, 0u);
    EXPECT_EQ(id.cntrltype, wire::controller_type::io);
    EXPECT_EQ(wire::text_of(id.subnqn), test_nqn);
    EXPECT_EQ(wire::text_of(id.sn).size(), 20u);
    EXPECT_EQ(wire::text_of(id.mn), "mqblk");
    const std::size_t ana_log = 16 + 32u * id.nanagrpid + 4u * id.mnan;
    EXPECT_LE(ana_log, limits.max_transfer_bytes) << "or Linux turns multipath off";
}

TEST_F(Admin, IdentifyNamespace) {
    const std::uint32_t small = add(ram(1 << 20)), large = add(ram(8 << 20, 4096), "ram://4k");
    const auto first = as<wire::IdentifyNamespace>(identify(wire::cns::identify_namespace, small));
    EXPECT_EQ(first.nsze, 2048u);
    EXPECT_EQ(first.lbaf[0].data_shift, 9);
    EXPECT_EQ(first.flbas, 0);
    EXPECT_NE(first.nmic & wire::nmic_shared, 0);
    EXPECT_EQ(first.anagrpid, 1u);
    const auto second = as<wire::IdentifyNamespace>(identify(wire::cns::identify_namespace, large));
    EXPECT_EQ(second.nsze, 2048u);
    EXPECT_EQ(second.lbaf[0].data_shift, 12);
    EXPECT_NE(second.nguid, first.nguid);
    EXPECT_EQ(identify(wire::cns::identify_namespace, 77), Bytes(4096)) << "inactive: zeroes";
    for (const std::uint32_t wrong : {0u, target.limits().max_namespaces + 1, wire::nsid_all}) {
        identify(wire::cns::identify_namespace, wrong, status::invalid_namespace);
    }
}

TEST_F(Admin, ActiveListAndDescriptors) {
    std::set<std::uint32_t> expected;
    for (const std::uint32_t nsid : {3u, 1u, 64u, 65u, 4096u, 5000u}) {
        add(null(1 << 20), "null://" + std::to_string(nsid), nsid);
        expected.insert(nsid);
    }
    const auto list = [&](std::uint32_t after, std::uint8_t cns = wire::cns::active_namespaces) {
        const Bytes page = identify(cns, after);
        std::vector<std::uint32_t> found;
        for (std::size_t i = 0; i < 1024 && as<le32>(page, 4 * i) != 0; ++i) found.push_back(as<le32>(page, 4 * i));
        return found;
    };
    EXPECT_EQ(list(0), std::vector<std::uint32_t>(expected.begin(), expected.end()));
    EXPECT_EQ(list(64), (std::vector<std::uint32_t>{65, 4096, 5000}));
    EXPECT_EQ(list(5000), std::vector<std::uint32_t>{});
    EXPECT_EQ(list(3, wire::cns::command_set_active_namespaces), (std::vector<std::uint32_t>{64, 65, 4096, 5000}));
    identify(wire::cns::active_namespaces, 0xfffffffe, status::invalid_namespace);
    identify(wire::cns::active_namespaces, 0xffffffff, status::invalid_namespace);

    const Bytes page = identify(wire::cns::descriptors, 64);
    std::set<int> types;
    ASSERT_TRUE(wire::for_each_descriptor({reinterpret_cast<const std::uint8_t*>(page.data()), page.size()},
                                          [&](std::uint8_t type, auto) { types.insert(type); }));
    EXPECT_EQ(types, (std::set<int>{2, 3, 4}));
    identify(wire::cns::descriptors, 2, status::invalid_namespace);
}

TEST_F(Admin, MoreNamespacesThanAPage) {
    const auto device = null(1 << 20);
    for (std::uint32_t nsid = 1; nsid <= 1500; ++nsid) {
        ASSERT_TRUE(target.add_namespace(test_nqn, {nsid, "null://" + std::to_string(nsid), device, {}, {}}));
    }
    const Bytes first = identify(wire::cns::active_namespaces, 0),
                second = identify(wire::cns::active_namespaces, 1024);
    EXPECT_EQ(as<le32>(first, 4092), 1024u);
    EXPECT_EQ(as<le32>(second, 0), 1025u);
    EXPECT_EQ(as<le32>(second, 4 * 475), 1500u);
    EXPECT_EQ(as<le32>(second, 4 * 476), 0u);
    queue->turn();  // the changes are posted to the controller's thread
    const Bytes changed = read_log(*queue, wire::log_id::changed_namespaces, 0, 4096);
    EXPECT_EQ(as<le32>(changed, 0), wire::nsid_all) << "more than fit";
    EXPECT_EQ(as<le32>(changed, 4), 0u);
    EXPECT_EQ(read_log(*queue, wire::log_id::changed_namespaces, 0, 4096), Bytes(4096)) << "reading cleared it";
}

TEST_F(Admin, CommandSetForms) {
    const std::uint32_t nsid = add(ram(1 << 20));
    EXPECT_EQ(identify(wire::cns::command_set_namespace, nsid), Bytes(4096));
    const auto nvm = as<wire::IdentifyControllerNvm>(identify(wire::cns::command_set_controller));
    EXPECT_EQ(4096u << nvm.vsl, target.limits().max_transfer_bytes);
    EXPECT_EQ(as<le64>(identify(wire::cns::command_set_list)), 1u);
    identify(wire::cns::command_set_namespace, nsid, status::invalid_field, 2);
    identify(wire::cns::command_set_controller, 0, status::invalid_field, 1);
    for (const std::uint8_t cns : {0x04, 0x08, 0x10, 0x11, 0x13, 0x15, 0x20, 0xff}) {
        identify(cns, nsid, status::invalid_field);
    }
}

TEST_F(Admin, IdentifiersSurviveARestart) {
    add(ram(1 << 20), "ram://?size=1M");
    const auto before = target.namespaces(test_nqn)->front();
    Target again{{}};
    ASSERT_TRUE(again.add_subsystem({.nqn = test_nqn, .serial = {}, .allowed_hosts = {}}));
    ASSERT_TRUE(again.add_namespace(test_nqn, {0, "ram://?size=1M", ram(1 << 20), {}, {}}));
    const auto after = again.namespaces(test_nqn)->front();
    EXPECT_EQ(after.uuid, before.uuid);
    EXPECT_EQ(after.nguid, before.nguid);
    EXPECT_EQ(before.uuid[14], '5') << "a name-based UUID";
    ASSERT_TRUE(again.add_namespace(test_nqn, {0, "ram://?size=1M", ram(1 << 20), {}, {}}));
    EXPECT_NE(again.namespaces(test_nqn)->back().uuid, after.uuid) << "another nsid";
}

TEST_F(Admin, NumberOfQueues) {
    const std::uint32_t most = target.limits().max_io_queues;
    const auto ask = [&](std::uint32_t value) {
        return queue->run(admin(wire::admin_opcode::set_features, feature::number_of_queues, value));
    };
    EXPECT_EQ(ask(wire::queue_counts(4, 4)).result(), wire::queue_counts(4, 4));
    EXPECT_EQ(get(feature::number_of_queues), wire::queue_counts(4, 4));
    EXPECT_EQ(ask(wire::queue_counts(1000, 1000)).result(), wire::queue_counts(most, most));
    EXPECT_EQ(get(feature::number_of_queues, 1), wire::queue_counts(most, most));
    EXPECT_EQ(ask(0xffff).code(), status::invalid_field);
    EXPECT_EQ(ask(0xffff0000).code(), status::invalid_field);
    const auto io_queue = open_io(1);
    EXPECT_EQ(ask(wire::queue_counts(1, 1)).code(), status::command_sequence_error);
}

TEST_F(Admin, Features) {
    EXPECT_EQ(get(feature::volatile_write_cache), 1u);
    EXPECT_EQ(set(feature::volatile_write_cache, 0), status::success);
    EXPECT_EQ(get(feature::volatile_write_cache), 0u);
    EXPECT_EQ(get(feature::volatile_write_cache, 1), 1u);
    EXPECT_EQ(get(feature::volatile_write_cache, 3), 4u) << "changeable, not saveable, not per namespace";
    EXPECT_EQ(get(feature::async_event_config), wire::oaes::namespace_attributes | wire::oaes::ana);
    EXPECT_EQ(set(feature::async_event_config, 1u << 31), status::invalid_field);
    EXPECT_EQ(set(feature::async_event_config, 0x1f), status::success);
    EXPECT_EQ(get(feature::async_event_config), 0x1fu);
    EXPECT_EQ(set(feature::keep_alive_timer, 2500), status::success);
    EXPECT_EQ(get(feature::keep_alive_timer), 3000u);
    EXPECT_EQ(set(feature::arbitration, 1), status::feature_not_changeable);
    EXPECT_EQ(get(feature::arbitration), 0u);
    for (const std::uint8_t unknown : {0x00, 0x03, 0x0c, 0x10, 0x84, 0xc0, 0xff}) {
        EXPECT_EQ(set(unknown, 0), status::invalid_field) << int{unknown};
        EXPECT_EQ(queue->code(admin(wire::admin_opcode::get_features, unknown)), status::invalid_field) << int{unknown};
    }
    EXPECT_EQ(
        queue->code(admin(wire::admin_opcode::set_features, feature::volatile_write_cache | wire::feature_save, 1)),
        status::feature_not_saveable);
    EXPECT_EQ(queue->code(admin(wire::admin_opcode::get_features, feature::keep_alive_timer | 4u << 8)),
              status::invalid_field);
}

TEST_F(Admin, FeaturesWithData) {
    Bytes host(16), behavior = pattern(512, 3), back(512), time(8);
    EXPECT_EQ(queue->code(admin(wire::admin_opcode::get_features, feature::host_id, 1), host), status::success);
    EXPECT_EQ(host, Bytes(16, std::byte{7}));
    EXPECT_EQ(queue->code(admin(wire::admin_opcode::get_features, feature::host_id, 0), std::span(host).first(8)),
              status::invalid_field);
    EXPECT_EQ(queue->code(admin(wire::admin_opcode::set_features, feature::host_id, 1), host),
              status::command_sequence_error);
    EXPECT_EQ(queue->code(admin(wire::admin_opcode::set_features, feature::host_behavior), behavior), status::success);
    EXPECT_EQ(queue->code(admin(wire::admin_opcode::get_features, feature::host_behavior), back), status::success);
    EXPECT_EQ(back, behavior);
    EXPECT_EQ(queue->code(admin(wire::admin_opcode::get_features, feature::host_behavior), host),
              status::sgl_invalid_data_length);
    const le64 stamp = 1'700'000'000'000;
    std::memcpy(time.data(), &stamp, 8);
    EXPECT_EQ(queue->code(admin(wire::admin_opcode::set_features, feature::timestamp), time), status::success);
    EXPECT_EQ(queue->code(admin(wire::admin_opcode::get_features, feature::timestamp), time), status::success);
    const std::uint64_t now = as<le64>(time) & 0xffff'ffff'ffff;
    EXPECT_GE(now, stamp);
    EXPECT_LT(now, stamp + 600'000);
}

TEST_F(Admin, AFeatureThatIsNotThereIsRefusedAsThatWithDataToo) {
    Bytes data(4096);
    for (const std::uint8_t unknown : {0x03, 0x0c, 0x0d, 0x13, 0x1e, 0x84}) {
        for (const std::uint8_t opcode : {wire::admin_opcode::get_features, wire::admin_opcode::set_features}) {
            EXPECT_EQ(queue->code(admin(opcode, unknown), data), status::invalid_field) << int{unknown};
        }
    }
    EXPECT_EQ(queue->code(admin(wire::admin_opcode::get_features, feature::timestamp), data),
              status::sgl_invalid_data_length);
}

TEST_F(Admin, EventsAreMaskedUntilTheLogIsRead) {
    Exchange& first = queue->start(admin(wire::admin_opcode::async_event_request));
    Exchange& second = queue->start(admin(wire::admin_opcode::async_event_request));
    const std::uint32_t nsid = add(ram(1 << 20));
    queue->turn_until([&] { return first.done; });
    EXPECT_EQ(first.result(), wire::event_result(2, 0x00, 0x04));
    add(ram(1 << 20));
    for (int i = 0; i < 20; ++i) queue->turn();
    EXPECT_FALSE(second.done);
    const Bytes changed = read_log(*queue, wire::log_id::changed_namespaces, 0, 4096, wire::log_retain_event);
    EXPECT_EQ(as<le32>(changed, 0), nsid);
    EXPECT_EQ(as<le32>(changed, 4), nsid + 1);
    read_log(*queue, wire::log_id::changed_namespaces, 0, 4096);
    ASSERT_TRUE(target.remove_namespace(test_nqn, nsid));
    queue->turn_until([&] { return second.done; });
    EXPECT_EQ(as<le32>(read_log(*queue, wire::log_id::changed_namespaces, 0, 4096)), nsid);
}

TEST_F(Admin, AnEventWaitsForARequest) {
    add(ram(1 << 20));
    for (int i = 0; i < 20; ++i) queue->turn();
    const Exchange& request = queue->run(admin(wire::admin_opcode::async_event_request));
    EXPECT_EQ(request.result(), wire::event_result(2, 0x00, 0x04));
}

TEST_F(Admin, EventRequestsAreLimitedAndCanBeAborted) {
    std::vector<Exchange*> held;
    for (unsigned i = 0; i < target.limits().async_events; ++i) {
        held.push_back(&queue->start(admin(wire::admin_opcode::async_event_request)));
    }
    EXPECT_EQ(queue->code(admin(wire::admin_opcode::async_event_request)), status::async_event_limit_exceeded);
    const std::uint32_t id = held[1]->loop.command.command_id;
    EXPECT_EQ(queue->run(admin(wire::admin_opcode::abort, id << 16)).result(), 0u);
    EXPECT_TRUE(held[1]->done);
    EXPECT_EQ(held[1]->code(), status::aborted_by_request);
    EXPECT_EQ(queue->run(admin(wire::admin_opcode::abort, id << 16)).result(), 1u) << "not there any more";
    EXPECT_EQ(queue->run(admin(wire::admin_opcode::abort, 5u << 16 | 1)).result(), 1u);
    ASSERT_EQ(queue->code(property_set(wire::property::cc, enable_value | wire::cc::shutdown_normal)), status::success);
    for (const Exchange* request : held) EXPECT_TRUE(request->done);
}

TEST_F(Admin, ErrorLogNewestFirst) {
    const auto io_queue = open_io(1);
    for (std::uint64_t block = 0; block < 70; ++block) {
        EXPECT_EQ(io_queue->code(io(wire::io_opcode::verify, 9, block)), status::invalid_namespace);
    }
    const Bytes page = read_log(*queue, wire::log_id::error, 0, 64 * 64);
    for (unsigned i = 0; i < 64; ++i) {
        const auto entry = as<wire::ErrorLogEntry>(page, std::size_t{i} * 64);
        EXPECT_EQ(entry.count, 70 - i);
        EXPECT_EQ(entry.lba, 69 - i);
        EXPECT_EQ(entry.sq_id, 1);
        EXPECT_EQ(entry.namespace_id, 9u);
        EXPECT_EQ(entry.status >> 1 & status::code_mask, status::invalid_namespace);
    }
}

TEST_F(Admin, LogsAndTheirBounds) {
    const auto effects = as<wire::EffectsLog>(read_log(*queue, wire::log_id::effects, 0, 4096));
    EXPECT_EQ(effects.io[wire::io_opcode::write], wire::effect::supported | wire::effect::changes_data);
    EXPECT_EQ(effects.admin[wire::admin_opcode::identify], wire::effect::supported);
    EXPECT_EQ(effects.admin[0x80], 0u) << "no Format";
    const auto firmware = as<wire::FirmwareLog>(read_log(*queue, wire::log_id::firmware, 0, 512));
    EXPECT_EQ(firmware.active, 1);
    const auto ask = [&](std::uint8_t id, std::uint64_t offset, std::size_t bytes) {
        Bytes page(bytes);
        wire::Command command = admin(wire::admin_opcode::get_log_page);
        wire::set_log_request(command, id, offset, bytes);
        return queue->code(command, page);
    };
    EXPECT_EQ(ask(wire::log_id::smart, 512, 4), status::success) << "just at the end";
    EXPECT_EQ(ask(wire::log_id::smart, 516, 4), status::invalid_field);
    EXPECT_EQ(ask(wire::log_id::smart, 2, 4), status::invalid_field) << "not a dword";
    EXPECT_EQ(ask(wire::log_id::smart, ~3ull, 4), status::invalid_field);
    EXPECT_EQ(ask(wire::log_id::smart, 0, 8192), status::success) << "longer than the page";
    for (const std::uint8_t unknown : {0x00, 0x06, 0x0b, 0x0d, 0x70, 0x80, 0xff}) {
        EXPECT_EQ(ask(unknown, 0, 64), status::invalid_log_page) << int{unknown};
    }
    Bytes huge(target.limits().max_transfer_bytes + 4);
    wire::Command command = admin(wire::admin_opcode::get_log_page);
    wire::set_log_request(command, wire::log_id::error, 0, huge.size());
    EXPECT_EQ(queue->code(command, huge), status::invalid_field);
    for (const std::uint8_t unknown : {0x00, 0x01, 0x04, 0x05, 0x0d, 0x10, 0x11, 0x14, 0x15, 0x7c, 0x80, 0x84, 0xff}) {
        EXPECT_EQ(queue->code(admin(unknown)), status::invalid_opcode) << int{unknown};
    }
}

/// Reads a log of `total` bytes in pieces, doing `between` after each.
template <class Between>
Bytes read_in_pieces(Queue& queue, std::uint8_t id, std::size_t total, std::size_t piece, Between between) {
    Bytes log;
    while (log.size() < total) {
        const std::size_t bytes = std::min(piece, total - log.size());
        Bytes page(bytes);
        wire::Command command = admin(wire::admin_opcode::get_log_page);
        wire::set_log_request(command, id, log.size(), bytes, wire::log_retain_event);
        EXPECT_EQ(queue.code(command, page), status::success);
        log.insert(log.end(), page.begin(), page.end());
        between();
    }
    return log;
}

TEST_F(Admin, AnaLogInPiecesWhileOneIsAdded) {
    const auto device = null(1 << 20);
    std::uint32_t count = 0;
    const auto add_one = [&] {
        ++count;
        ASSERT_TRUE(target.add_namespace(test_nqn, {count, "null://" + std::to_string(count), device, {}, {}}));
    };
    for (const std::uint32_t wanted : {229u, 1024u}) {
        while (count < wanted) add_one();
        for (const std::size_t piece : {16ul, 1024ul, 4096ul}) {
            const std::size_t total = 16 + 32 + 4ul * count;
            bool added = false;
            const Bytes log = read_in_pieces(*queue, wire::log_id::ana, total, piece, [&] {
                if (!added) add_one();
                added = true;
            });
            // What was read before the change is of the old count, the rest in order: the counts tell the host to
            // retry.
            const auto header = as<wire::AnaHeader>(log);
            const auto again = as<wire::AnaHeader>(read_log(*queue, wire::log_id::ana, 0, 16));
            EXPECT_EQ(header.groups, 1);
            EXPECT_NE(header.change_count, again.change_count);
            for (std::uint32_t i = 0; i + 1 < count; ++i) ASSERT_EQ(as<le32>(log, 48 + 4ul * i), i + 1);
            const Bytes calm = read_in_pieces(*queue, wire::log_id::ana, 48 + 4ul * count, piece, [] {});
            const auto group = as<wire::AnaGroup>(calm, 16);
            EXPECT_EQ(group.namespaces, count);
            EXPECT_EQ(group.state, wire::ana_state::optimized);
            for (std::uint32_t i = 0; i < count; ++i) ASSERT_EQ(as<le32>(calm, 48 + 4ul * i), i + 1);
        }
    }
    // nvme-cli reads as far as MNAN namespaces would reach; behind the last one there are zeroes.
    const std::size_t longest = 48 + 4ul * target.limits().max_namespaces;
    const Bytes whole = read_in_pieces(*queue, wire::log_id::ana, longest, 4096, [] {});
    EXPECT_EQ(as<le32>(whole, 48 + 4ul * (count - 1)), count);
    EXPECT_EQ(as<le32>(whole, 48 + 4ul * count), 0u);
    Bytes beyond(4);
    wire::Command command = admin(wire::admin_opcode::get_log_page);
    wire::set_log_request(command, wire::log_id::ana, longest + 4, beyond.size());
    EXPECT_EQ(queue->code(command, beyond), status::invalid_field);
    const auto groups = read_log(*queue, wire::log_id::ana, 0, 48, wire::log_ana_groups_only);
    EXPECT_EQ(as<wire::AnaGroup>(groups, 16).namespaces, 0u);
}

class Discovery : public TargetTest {
  protected:
    Discovery() {
        ConnectOptions options;
        options.subsystem = wire::discovery_nqn;
        queue = open_admin(options);
    }
    std::unique_ptr<Queue> queue;
};

TEST_F(Discovery, LogInPiecesWhileOneIsAdded) {
    unsigned count = 1;
    const auto add_one = [&] {
        ++count;
        ASSERT_TRUE(target.add_subsystem(
            {.nqn = "nqn.2026-01.io.mqblk:n" + std::to_string(10000 + count), .serial = {}, .allowed_hosts = {}}));
    };
    for (const unsigned wanted : {229u, 1024u}) {
        while (count < wanted) add_one();
        for (const std::size_t piece : {4096ul, 1024ul, 16ul}) {
            if (piece == 16 && wanted > 229) continue;  // a million bytes in 16-byte commands say no more
            bool added = false;
            const std::size_t total = 1024ul * (count + 1);
            const Bytes log = read_in_pieces(*queue, wire::log_id::discovery, total, piece, [&] {
                if (!added) add_one();
                added = true;
            });
            const auto header = as<wire::DiscoveryHeader>(log);
            const auto now = as<wire::DiscoveryHeader>(read_log(*queue, wire::log_id::discovery, 0, 1024));
            EXPECT_NE(header.generation, now.generation) << "the host sees that it must read again";
            const Bytes calm = read_in_pieces(*queue, wire::log_id::discovery, 1024ul * (count + 1), piece, [] {});
            const auto calm_header = as<wire::DiscoveryHeader>(calm);
            EXPECT_EQ(calm_header.records, count);
            EXPECT_EQ(calm_header.generation, now.generation);
            std::set<std::string> names;
            for (unsigned i = 0; i < count; ++i) {
                const auto entry = as<wire::DiscoveryEntry>(calm, 1024ul * (i + 1));
                EXPECT_EQ(entry.transport, wire::transport_type::loop);
                EXPECT_EQ(entry.subsystem_type, wire::subsystem_type::nvme);
                EXPECT_EQ(entry.controller_id, 0xffff);
                names.emplace(wire::text_of(entry.subsystem_nqn));
            }
            EXPECT_EQ(names.size(), count);
        }
    }
}

TEST_F(Discovery, ShowsWhatTheHostMayUseAndTheAskedTransport) {
    ASSERT_TRUE(target.add_subsystem(
        {.nqn = "nqn.2026-01.io.mqblk:hidden", .serial = {}, .allow_any_host = false, .allowed_hosts = {}}));
    ASSERT_TRUE(target.add_port({0, "tcp", "127.0.0.1", "4420"}));
    const auto records = [&] {
        return as<wire::DiscoveryHeader>(read_log(*queue, wire::log_id::discovery, 0, 1024)).records.value();
    };
    EXPECT_EQ(records(), 1u);
    ASSERT_TRUE(target.allow_host("nqn.2026-01.io.mqblk:hidden", test_host));
    EXPECT_EQ(records(), 2u);
}

TEST_F(Discovery, EventOnChange) {
    Exchange& request = queue->start(admin(wire::admin_opcode::async_event_request));
    for (int i = 0; i < 5; ++i) queue->turn();
    EXPECT_FALSE(request.done);
    ASSERT_TRUE(target.add_subsystem({.nqn = "nqn.2026-01.io.mqblk:second", .serial = {}, .allowed_hosts = {}}));
    queue->turn_until([&] { return request.done; });
    EXPECT_EQ(request.result(), wire::event_result(2, 0xf0, 0x70));
}

TEST_F(Discovery, OnlyItsOwnCommands) {
    Bytes page(4096);
    const auto id = [&] {
        EXPECT_EQ(queue->code(admin(wire::admin_opcode::identify, wire::cns::controller), page), status::success);
        return as<wire::IdentifyController>(page);
    }();
    EXPECT_EQ(id.cntrltype, wire::controller_type::discovery);
    EXPECT_EQ(id.oaes, wire::oaes::discovery_change);
    EXPECT_EQ(wire::text_of(id.subnqn), wire::discovery_nqn);
    EXPECT_EQ(queue->code(admin(wire::admin_opcode::identify, wire::cns::active_namespaces), page),
              status::invalid_field);
    EXPECT_EQ(queue->code(admin(wire::admin_opcode::abort)), status::invalid_opcode);
    EXPECT_EQ(queue->code(admin(wire::admin_opcode::get_features, feature::number_of_queues)), status::invalid_field);
    wire::Command smart = admin(wire::admin_opcode::get_log_page);
    wire::set_log_request(smart, wire::log_id::smart, 0, 512);
    EXPECT_EQ(queue->code(smart, std::span(page).first(512)), status::invalid_log_page);
    ConnectOptions options;
    options.subsystem = wire::discovery_nqn;
    options.queue_id = 1;
    options.controller_id = controller_id;
    EXPECT_EQ(connect(*open(), options).result(), wire::connect_invalid_in_command(42));
}

}  // namespace
}  // namespace mqblk::nvme_test
