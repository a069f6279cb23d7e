// SPDX-License-Identifier: Apache-2.0
//
// The SRP target behind a network that takes its time: everything arrives late, in any order between connections and
// sides, while commands are aborted, units reset and connections lost. What is answered is true, what was not aborted
// is answered once, nothing is written to an initiator's memory after it was told so, and no credit is lost.
#include "unit/srp_harness.h"

#include <deque>
#include <map>

namespace mqblk::test {
namespace {

using ScsiStatus = wire::scsi::Status;

class SlowCourier final : public fabric::rdma::Courier {
  public:
    explicit SlowCourier(std::uint64_t seed) : random_(seed) {}
    void carry(std::uint64_t connection, unsigned from_side, std::function<void()> arrive) override {
        ways_[{connection, from_side}].push_back(std::move(arrive));
    }
    [[nodiscard]] Duration retry_time() const noexcept override { return std::chrono::hours(1); }
    /// The oldest of any way. False: nothing is on its way.
    bool deliver() {
        std::erase_if(ways_, [](const auto& way) { return way.second.empty(); });
        if (ways_.empty()) return false;
        const auto way = std::next(ways_.begin(), static_cast<std::ptrdiff_t>(random_.below(ways_.size())));
        const auto arrive = std::move(way->second.front());
        way->second.pop_front();
        arrive();
        return true;
    }

  private:
    SeededRandom random_;
    std::map<std::pair<std::uint64_t, unsigned>, std::deque<std::function<void()>>> ways_;
};

/// One command's place: blocks of the disk and memory of the initiator that nobody else uses.
struct Place {
    static constexpr std::uint32_t blocks = 16, bytes = blocks * 512;
    static constexpr std::byte canary{0x5a};
    SrpBytes memory = SrpBytes(bytes, canary);
    std::vector<srpw::Descriptor> table;
    std::uint32_t key = 0, table_key = 0;
    SrpBytes content = SrpBytes(bytes);  ///< of the disk
    bool certain = true;                 ///< that it is that
    bool pending = false, writes = false;
    std::uint64_t tag = 0;
    bool untouched = true;  ///< nobody may write to `memory`
};

class DelayedWorld {
  public:
    static constexpr unsigned places_count = 24;

    explicit DelayedWorld(std::uint64_t seed) : courier(seed), random(seed), world(options(), {}, pinned(), &courier) {
        for (unsigned i = 0; i < places_count; ++i) {
            Place& place = *places.emplace_back(std::make_unique<Place>());
            place.table = std::vector<srpw::Descriptor>(Place::bytes / 1024);
        }
        connect();
    }
    ~DelayedWorld() {
        for (const auto& place : places) forget(*place);
        world.initiators.clear();
        settle();
    }
    static device::srp::TargetOptions options() {
        device::srp::TargetOptions options;
        options.max_transfer_bytes = 16384;
        options.buffer_bytes = 32768;  // buffers are scarce
        options.login.queue_depth = 16;
        return options;
    }
    static fabric::rdma::InProcessOptions pinned() {
        fabric::rdma::InProcessOptions network;
        network.limits.cheap_ranges = false;
        return network;
    }

    SrpInitiator& initiator() { return *world.initiators.back(); }
    void turn() {
        for (unsigned i = random.below(6); i > 0; --i) courier.deliver();
        world.turn(1);
        take_answers();
    }
    void settle() {
        for (unsigned quiet = 0; quiet < 20; ++quiet) {
            while (courier.deliver()) quiet = 0;
            world.turn(1);
            if (!world.initiators.empty()) take_answers();
        }
    }
    void connect() {
        SrpInitiator& made = world.add();
        made.login.initiator_port.second = 1;
        made.start();
        settle();
        ASSERT_TRUE(made.granted);
        for (const auto& place : places) {
            place->key =
                made.domain().register_range(place->memory.data(), Place::bytes,
                                             fabric::rdma::access_local_write | fabric::rdma::access_remote_write |
                                                 fabric::rdma::access_remote_read);
            place->table_key = made.domain().register_range(reinterpret_cast<std::byte*>(place->table.data()),
                                                            place->table.size() * sizeof(srpw::Descriptor),
                                                            fabric::rdma::access_remote_read);
        }
        ASSERT_TRUE(made.send(SrpWorld::command(wire::scsi::build_test_unit_ready(), attention_tag)));
        --made.credits;
        settle();
        first_credits = made.credits;
    }
    void forget(Place& place) {
        if (place.pending && place.writes) place.certain = false;
        place.pending = false;
    }
    void reconnect() {
        if (random.below(2) == 0) initiator().qp->disconnect();
        for (const auto& place : places) {
            initiator().domain().unregister(place->key);
            initiator().domain().unregister(place->table_key);
            forget(*place);
            place->untouched = false;
        }
        world.initiators.clear();
        tasks.clear();
        for (unsigned i = random.below(30); i > 0; --i) turn_alone();
        settle();
        connect();
    }
    void turn_alone() {
        courier.deliver();
        world.turn(1);
    }

    void start_command(unsigned index) {
        Place& place = *places[index];
        if (place.untouched) {
            for (const std::byte byte : place.memory) ASSERT_EQ(byte, Place::canary) << "written after its end";
        }
        place.untouched = false;
        place.pending = true;
        place.writes = random.below(2) == 0;
        place.tag = next_tag++ << 8 | index;
        for (auto& byte : place.memory) byte = static_cast<std::byte>(random.next());
        const std::uint64_t lba = std::uint64_t{index} * Place::blocks;
        const auto cdb =
            place.writes ? wire::scsi::build_write(lba, Place::blocks) : wire::scsi::build_read(lba, Place::blocks);
        const bool direct = random.below(3) == 0;
        SrpBytes descriptors;
        std::uint8_t in_unit = 0;
        if (direct) {
            append(descriptors,
                   srpw::Descriptor{.address = address_of(place, 0), .key = place.key, .bytes = Place::bytes});
        } else {
            const auto count = static_cast<unsigned>(place.table.size());
            for (unsigned i = 0; i < count; ++i)
                place.table[i] = {.address = address_of(place, i * 1024), .key = place.key, .bytes = 1024};
            in_unit = random.below(2) == 0 ? static_cast<std::uint8_t>(count) : std::uint8_t{2};
            append(descriptors, srpw::IndirectHeader{
                                    .table = {.address = reinterpret_cast<std::uintptr_t>(place.table.data()),
                                              .key = place.table_key,
                                              .bytes = static_cast<std::uint32_t>(count * sizeof(srpw::Descriptor))},
                                    .data_bytes = Place::bytes});
            for (unsigned i = 0; i < in_unit; ++i) append(descriptors, place.table[i]);
        }
        const std::uint8_t format = direct ? 1 : 2;
        ASSERT_TRUE(initiator().send(SrpWorld::command(
            cdb, place.tag, 0, static_cast<std::uint8_t>(place.writes ? format << 4 : format), descriptors,
            place.writes ? in_unit : std::uint8_t{0}, place.writes ? std::uint8_t{0} : in_unit)));
        --initiator().credits;
    }
    static std::uint64_t address_of(const Place& place, std::size_t offset) {
        return reinterpret_cast<std::uintptr_t>(place.memory.data()) + offset;
    }

    void start_task() {
        const unsigned kind = static_cast<unsigned>(random.below(3));
        const std::uint64_t tag = next_tag++ << 8 | task_mark;
        auto& ends = tasks[tag];
        std::uint64_t of = 0;
        if (kind == 0) {
            const unsigned index = static_cast<unsigned>(random.below(places_count));
            if (places[index]->pending) ends.push_back(of = places[index]->tag);
        } else {
            for (const auto& place : places) {
                if (place->pending) ends.push_back(place->tag);
            }
        }
        const auto function = kind == 0   ? srpw::TaskFunction::abort_task
                              : kind == 1 ? srpw::TaskFunction::abort_task_set
                                          : srpw::TaskFunction::lun_reset;
        ASSERT_TRUE(initiator().send(SrpWorld::task(function, tag, 0, of)));
        --initiator().credits;
    }

    void take_answers() {
        while (!initiator().answers.empty()) {
            const SrpBytes bytes = std::move(initiator().answers.front());
            initiator().answers.pop_front();
            if (srpw::opcode_of(bytes) == srpw::Opcode::cred_req) {
                SrpBytes response;
                append(response, srpw::Short{.opcode = static_cast<std::uint8_t>(srpw::Opcode::cred_rsp)});
                ASSERT_TRUE(initiator().send(response));
                continue;
            }
            const auto view = srpw::decode_rsp(bytes);
            ASSERT_TRUE(view);
            const std::uint64_t tag = view->rsp.tag;
            if (tag == attention_tag) continue;
            if ((tag & 0xff) == task_mark) {
                task_answered(tag);
            } else {
                command_answered(*places.at(tag & 0xff), tag, *view);
            }
        }
    }
    void task_answered(std::uint64_t tag) {
        const auto found = tasks.find(tag);
        ASSERT_TRUE(found != tasks.end());
        for (const std::uint64_t ended : found->second) {
            Place& place = *places.at(ended & 0xff);
            if (!place.pending || place.tag != ended) continue;
            forget(place);
            std::ranges::fill(place.memory, Place::canary);
            place.untouched = true;
            ++aborted;
        }
        tasks.erase(found);
    }
    void command_answered(Place& place, std::uint64_t tag, const srpw::RspView& view) {
        ASSERT_TRUE(place.pending && place.tag == tag) << "answered twice, or after its abort";
        ASSERT_EQ(view.rsp.status, static_cast<std::uint8_t>(ScsiStatus::good));
        ASSERT_EQ(view.rsp.flags, 0);
        place.pending = false;
        if (place.writes) {
            place.content = place.memory;
            place.certain = true;
        } else if (place.certain) {
            ASSERT_TRUE(place.memory == place.content);
            ++verified;
        }
        std::ranges::fill(place.memory, Place::canary);
        place.untouched = true;
    }

    static constexpr std::uint64_t attention_tag = 0xffff'ffff'0000'00fe;
    static constexpr std::uint64_t task_mark = 0xff;
    SlowCourier courier;
    SeededRandom random;
    SrpWorld world;
    std::vector<std::unique_ptr<Place>> places;
    std::map<std::uint64_t, std::vector<std::uint64_t>> tasks;
    std::uint64_t next_tag = 1;
    std::uint32_t first_credits = 0;
    unsigned verified = 0, aborted = 0;
};

TEST(SrpDelays, WhatIsAnsweredIsTrueAndNoCreditIsLost) {
    unsigned verified = 0, aborted = 0;
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        DelayedWorld delayed(seed);
        for (unsigned step = 0; step < 600 && !testing::Test::HasFatalFailure(); ++step) {
            const std::uint64_t dice = delayed.random.below(400);
            if (dice == 0) {
                delayed.reconnect();
            } else if (dice < 20 && delayed.initiator().credits > 0) {
                delayed.start_task();
            } else if (delayed.initiator().credits > 1) {
                const auto index = static_cast<unsigned>(delayed.random.below(DelayedWorld::places_count));
                if (!delayed.places[index]->pending) delayed.start_command(index);
            }
            delayed.turn();
        }
        delayed.settle();
        for (const auto& place : delayed.places) EXPECT_FALSE(place->pending);
        EXPECT_TRUE(delayed.tasks.empty());
        EXPECT_EQ(delayed.initiator().credits, delayed.first_credits);
        EXPECT_FALSE(delayed.initiator().disconnected_);
        verified += delayed.verified;
        aborted += delayed.aborted;
        if (testing::Test::HasFailure()) break;
    }
    EXPECT_GT(verified, 500u);
    EXPECT_GT(aborted, 100u);
}

}  // namespace
}  // namespace mqblk::test
