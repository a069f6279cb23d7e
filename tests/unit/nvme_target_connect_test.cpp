// SPDX-License-Identifier: Apache-2.0
//
// How associations begin and end: Connect and its refusals, properties, the order of commands, keep-alive feature.
#include "nvme_target_harness.h"

namespace mqblk::nvme_test {
namespace {

class Connect : public TargetTest {};

TEST_F(Connect, AdminThenIoQueueThenReadAndWrite) {
    const std::uint32_t nsid = add(ram(1 << 20));
    const auto admin_queue = open_admin();
    EXPECT_NE(controller_id, 0);
    const auto io_queue = open_io(1);
    Bytes written = pattern(4096, 3), read(4096);
    EXPECT_EQ(io_queue->code(io(wire::io_opcode::write, nsid, 8, 8), written), status::success);
    EXPECT_EQ(io_queue->code(io(wire::io_opcode::read, nsid, 8, 8), read), status::success);
    EXPECT_EQ(read, written);
    EXPECT_EQ(io_queue->code(io(wire::io_opcode::flush, nsid)), status::success);
    ASSERT_EQ(target.controllers().size(), 1u);
    EXPECT_EQ(target.controllers()[0].io_queues, 1u);
    EXPECT_EQ(target.controllers()[0].host_nqn, test_host);
}

TEST_F(Connect, NothingComesBeforeConnect) {
    const auto queue = open();
    Bytes page(4096);
    EXPECT_EQ(queue->code(admin(wire::admin_opcode::identify, 1), page), status::command_sequence_error);
    EXPECT_EQ(queue->code(property_get(wire::property::vs)), status::command_sequence_error);
    EXPECT_EQ(queue->code(io(wire::io_opcode::read, 1), std::span(page).first(512)), status::command_sequence_error);
    EXPECT_EQ(connect(*queue, {}).code(), status::success);
    EXPECT_EQ(connect(*queue, {}).code(), status::command_sequence_error) << "a second Connect";
}

TEST_F(Connect, RefusalsNameTheField) {
    using Data = wire::ConnectData;
    using Sqe = wire::ConnectCommand;
    struct Case {
        const char* what;
        void (*spoil)(Sqe&, Data&);
        std::uint16_t code;
        std::uint32_t where;
    };
    const Case cases[] = {
        {"record format", [](Sqe& sqe, Data&) { sqe.record_format = 1; }, status::connect_format, 0},
        {"static controller", [](Sqe&, Data& data) { data.controller_id = 1; }, status::connect_invalid_parameters,
         wire::connect_invalid_in_data(16)},
        {"unknown subsystem", [](Sqe&, Data& data) { wire::set_text(data.subsystem_nqn, "nqn.x:y", '\0'); },
         status::connect_invalid_parameters, wire::connect_invalid_in_data(256)},
        {"no subsystem", [](Sqe&, Data& data) { data.subsystem_nqn = {}; }, status::connect_invalid_parameters,
         wire::connect_invalid_in_data(256)},
        {"no host", [](Sqe&, Data& data) { data.host_nqn = {}; }, status::connect_invalid_parameters,
         wire::connect_invalid_in_data(512)},
        {"subsystem field full", [](Sqe&, Data& data) { data.subsystem_nqn.fill('n'); },
         status::connect_invalid_parameters, wire::connect_invalid_in_data(256)},
        {"host field full", [](Sqe&, Data& data) { data.host_nqn.fill('n'); }, status::connect_invalid_parameters,
         wire::connect_invalid_in_data(512)},
        {"224 characters", [](Sqe&, Data& data) { wire::set_text(data.host_nqn, std::string(224, 'h'), '\0'); },
         status::connect_invalid_parameters, wire::connect_invalid_in_data(512)},
        {"queue of one", [](Sqe& sqe, Data&) { sqe.sq_size = 0; }, status::connect_invalid_parameters,
         wire::connect_invalid_in_command(44)},
        {"queue too deep", [](Sqe& sqe, Data&) { sqe.sq_size = 1024; }, status::connect_invalid_parameters,
         wire::connect_invalid_in_command(44)},
        {"queue id too large", [](Sqe& sqe, Data&) { sqe.queue_id = 129; }, status::connect_invalid_parameters,
         wire::connect_invalid_in_command(42)},
        {"no such controller", [](Sqe& sqe, Data& data) { sqe.queue_id = 1, data.controller_id = 99; },
         status::connect_invalid_parameters, wire::connect_invalid_in_data(16)},
    };
    for (const Case& item : cases) {
        SCOPED_TRACE(item.what);
        const auto queue = open();
        Data data = connect_data({});
        auto sqe = std::bit_cast<Sqe>(connect_command({}));
        item.spoil(sqe, data);
        const Exchange& answer =
            queue->run(std::bit_cast<wire::Command>(sqe), std::as_writable_bytes(std::span(&data, 1)));
        EXPECT_EQ(answer.code(), item.code);
        EXPECT_NE(wire::status_of(answer.completion) & status::do_not_retry, 0);
        EXPECT_EQ(answer.result(), item.where);
        EXPECT_EQ(connect(*queue, {}).code(), status::success) << "a refused queue may try again";
    }
    EXPECT_TRUE(target.controllers().empty());
}

TEST_F(Connect, LongestNames) {
    const std::string longest = "nqn." + std::string(219, 's');
    ASSERT_EQ(longest.size(), 223u);
    ASSERT_TRUE(target.add_subsystem({.nqn = longest, .serial = {}, .allowed_hosts = {}}));
    ConnectOptions options;
    options.subsystem = longest;
    options.host = "nqn." + std::string(219, 'h');
    const auto queue = open();
    EXPECT_EQ(connect(*queue, options).code(), status::success);
    EXPECT_FALSE(target.add_subsystem({.nqn = longest + "s", .serial = {}, .allowed_hosts = {}}));
}

TEST_F(Connect, DataLengthAndKind) {
    const auto queue = open();
    wire::ConnectData data = connect_data({});
    const auto bytes = std::as_writable_bytes(std::span(&data, 1));
    EXPECT_EQ(queue->code(connect_command({}), bytes.first(512)), status::sgl_invalid_data_length);
    EXPECT_EQ(queue->code(connect_command({})), status::sgl_invalid_data_length);
    for (const std::uint8_t type : {0x5a, 0x01, 0x20, 0x30, 0x40, 0xff}) {
        wire::Command command = connect_command({});
        command.data.type = type;
        command.data.length = 1024;
        EXPECT_EQ(queue->code(command, bytes, true), status::sgl_invalid_type) << int{type};
    }
    wire::Command prp = connect_command({});
    prp.flags = 0;
    prp.data.length = 1024;
    EXPECT_EQ(queue->code(prp, bytes, true), status::invalid_field);
}

TEST_F(Connect, HostMustBeAllowed) {
    ASSERT_TRUE(target.allow_any_host(test_nqn, false));
    const auto queue = open();
    const Exchange& refused = connect(*queue, {});
    EXPECT_EQ(refused.code(), status::connect_invalid_host);
    ASSERT_TRUE(target.allow_host(test_nqn, test_host));
    EXPECT_EQ(connect(*queue, {}).code(), status::success);
    ASSERT_TRUE(target.disallow_host(test_nqn, test_host));
    queue->turn_until([&] { return queue->closed(); });
    EXPECT_FALSE(target.disallow_host(test_nqn, test_host));
}

TEST_F(Connect, IoQueueMustMatchItsController) {
    const auto admin_queue = open_admin();
    ConnectOptions options;
    options.queue_id = 1;
    options.controller_id = controller_id;
    const auto queue = open();
    auto other = options;
    other.host = "nqn.2026-01.io.mqblk:other";
    EXPECT_EQ(connect(*queue, other).result(), wire::connect_invalid_in_data(16));
    other = options;
    other.host_id = 8;
    EXPECT_EQ(connect(*queue, other).result(), wire::connect_invalid_in_data(0));
    EXPECT_EQ(connect(*queue, options).code(), status::success);
    const auto twice = open();
    EXPECT_EQ(connect(*twice, options).code(), status::command_sequence_error) << "queue 1 is in use";
}

TEST_F(Connect, IoQueueWaitsForEnable) {
    const auto admin_queue = open();
    const Exchange& answer = connect(*admin_queue, {});
    ConnectOptions options;
    options.queue_id = 1;
    options.controller_id = static_cast<std::uint16_t>(answer.result());
    const auto queue = open();
    EXPECT_EQ(connect(*queue, options).code(), status::command_sequence_error);
    Bytes page(4096);
    EXPECT_EQ(admin_queue->code(admin(wire::admin_opcode::identify, 1), page), status::command_sequence_error);
    EXPECT_EQ(admin_queue->code(property_set(wire::property::cc, enable_value)), status::success);
    EXPECT_EQ(connect(*queue, options).code(), status::success);
}

TEST_F(Connect, Properties) {
    const auto queue = open();
    connect(*queue, {});
    const std::uint64_t capabilities = queue->run(property_get(wire::property::cap)).result();
    EXPECT_EQ(wire::cap::queue_entries_of(capabilities), target.limits().max_queue_entries);
    EXPECT_NE(capabilities & wire::cap::css_nvm, 0u);
    EXPECT_EQ(wire::cap::min_page_shift_of(capabilities), 12u);
    EXPECT_EQ(queue->run(property_get(wire::property::vs)).result(), wire::version_1_4);
    EXPECT_EQ(queue->run(property_get(wire::property::csts)).result(), 0u);
    EXPECT_EQ(queue->code(property_set(wire::property::cc, enable_value)), status::success);
    EXPECT_EQ(queue->run(property_get(wire::property::csts)).result(), wire::csts::ready);
    EXPECT_EQ(queue->run(property_get(wire::property::cc)).result(), enable_value);
    EXPECT_EQ(queue->code(property_set(wire::property::cc, enable_value | wire::cc::shutdown_normal)), status::success);
    EXPECT_EQ(queue->run(property_get(wire::property::csts)).result(), wire::csts::shutdown_complete);

    auto wrong_size = property_get(wire::property::vs);
    wrong_size.cdw10 = 1;
    EXPECT_EQ(queue->code(wrong_size), status::invalid_field);
    auto half_of_cap = property_get(wire::property::cap);
    half_of_cap.cdw10 = 0;
    EXPECT_EQ(queue->code(half_of_cap), status::invalid_field);
    for (const std::uint32_t offset : {0x04u, 0x0cu, 0x20u, 0x1000u, 0xffffffffu}) {
        EXPECT_EQ(queue->code(property_get(offset)), status::invalid_field) << offset;
        EXPECT_EQ(queue->code(property_set(offset, 0)), status::invalid_field) << offset;
    }
    EXPECT_EQ(queue->code(property_set(wire::property::csts, 0)), status::invalid_field);
}

TEST_F(Connect, BadConfigurationIsFatal) {
    for (const std::uint32_t value : {enable_value | 1u << 7, enable_value | 1u << 11, enable_value | 1u << 4,
                                      wire::cc::enable, wire::cc::enable | 7u << 16 | 4u << 20}) {
        const auto queue = open();
        connect(*queue, {});
        EXPECT_EQ(queue->code(property_set(wire::property::cc, value)), status::success);
        EXPECT_EQ(queue->run(property_get(wire::property::csts)).result(), wire::csts::fatal) << std::hex << value;
    }
    const auto queue = open();
    connect(*queue, {});
    queue->code(property_set(wire::property::cc, enable_value | wire::cc::css_csi));
    EXPECT_EQ(queue->run(property_get(wire::property::csts)).result(), wire::csts::ready);
}

TEST_F(Connect, FabricsCommandsOnTheirQueues) {
    const auto admin_queue = open_admin();
    const auto queue = open_io(1);
    EXPECT_EQ(queue->code(property_get(wire::property::vs)), status::fabrics_invalid_queue_type);
    wire::Command disconnect = property_get(0);
    disconnect.namespace_id = wire::fabrics_type::disconnect;
    EXPECT_EQ(admin_queue->code(disconnect), status::fabrics_invalid_queue_type);
    wire::Command unknown = property_get(0);
    unknown.namespace_id = 0x55;
    EXPECT_EQ(admin_queue->code(unknown), status::invalid_field);
    EXPECT_EQ(queue->code(disconnect), status::success);
    EXPECT_EQ(queue->code(io(wire::io_opcode::flush, 1)), status::command_sequence_error);
    EXPECT_EQ(target.controllers()[0].io_queues, 0u);
}

TEST_F(Connect, TheAdminQueueTakesItsIoQueuesAlong) {
    auto admin_queue = open_admin();
    const auto first = open_io(1), second = open_io(2);
    admin_queue.reset();
    first->turn_until([&] { return first->closed(); });
    second->turn_until([&] { return second->closed(); });
    EXPECT_EQ(first->code(io(wire::io_opcode::flush, 1)), status::aborted_queue_deleted);
}

TEST_F(Connect, ADeadIoQueueEndsOnlyItself) {
    const auto admin_queue = open_admin();
    auto first = open_io(1);
    const auto second = open_io(2);
    const std::uint32_t nsid = add(ram(1 << 20));
    first.reset();
    EXPECT_EQ(second->code(io(wire::io_opcode::flush, nsid)), status::success);
    const auto again = open_io(1);
    EXPECT_EQ(again->code(io(wire::io_opcode::flush, nsid)), status::success);
}

TEST_F(Connect, RemovingTheSubsystemClosesItsQueues) {
    const auto admin_queue = open_admin();
    const auto queue = open_io(1);
    ASSERT_TRUE(target.remove_subsystem(test_nqn));
    admin_queue->turn_until([&] { return admin_queue->closed(); });
    queue->turn_until([&] { return queue->closed(); });
    EXPECT_EQ(connect(*open(), {}).code(), status::connect_invalid_parameters);
}

TEST_F(Connect, KeepAliveValues) {
    struct Case {
        std::uint32_t asked_ms, io_ms, discovery_ms;
    };
    for (const Case& item : {Case{0, 0, 120'000}, Case{1, 1000, 1000}, Case{15'000, 15'000, 15'000},
                             Case{120'000, 120'000, 120'000}, Case{1001, 2000, 2000}}) {
        for (const bool discovery : {false, true}) {
            ConnectOptions options;
            options.keep_alive_ms = item.asked_ms;
            if (discovery) options.subsystem = wire::discovery_nqn;
            const auto queue = open_admin(options);
            const std::uint32_t expected = discovery ? item.discovery_ms : item.io_ms;
            const Exchange& value =
                queue->run(admin(wire::admin_opcode::get_features, wire::feature_id::keep_alive_timer));
            EXPECT_EQ(value.code(), status::success);
            EXPECT_EQ(value.result(), expected) << item.asked_ms << (discovery ? " discovery" : " I/O");
            EXPECT_EQ(queue->code(admin(wire::admin_opcode::keep_alive)),
                      expected == 0 ? status::keep_alive_invalid : status::success);
        }
    }
}

}  // namespace
}  // namespace mqblk::nvme_test
