// SPDX-License-Identifier: Apache-2.0
#include "unit/disk_exerciser.h"

#include "block/device_core.h"
#include "block/queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <stdexcept>

namespace mqblk::test {

namespace {
template <class T>
T value_of(Result<T> result) {
    if (!result) throw std::runtime_error(result.error().message());
    return std::move(*result);
}
}  // namespace

DiskUser::DiskUser(Result<std::shared_ptr<Device>> opened)
    : device_(value_of(std::move(opened))), channel_(value_of(device_->channel())) {}

DiskUser::DiskUser(std::shared_ptr<Device> device, Reactor& reactor)
    : device_(std::move(device)), channel_(value_of(device_->channel(reactor))) {}

Status DiskUser::run(Op op, std::uint64_t sector, std::uint64_t sectors, std::span<std::byte> data,
                     std::uint8_t flags) {
    const Segment segment{data.data(), data.size()};
    bool done = false;
    Bio bio;
    bio.op = op;
    bio.flags = flags;
    bio.sector = sector;
    bio.sectors = sectors;
    if (carries_data(op)) bio.data = Segments(&segment, 1);
    bio.context = &done;
    bio.done = [](Bio& ended) noexcept { *static_cast<bool*>(ended.context) = true; };
    channel_->submit(bio);
    while (!done) channel_->wait();
    return bio.status;
}

void expect_shrinking_spares_what_is_below(Device& device, std::uint64_t end, const std::function<bool()>& shrink) {
    const auto channel = device.channel();
    ASSERT_TRUE(channel);
    std::vector<std::byte> data = pattern(4096, 1);
    const Segment segment{data.data(), data.size()};
    Bio below, beyond;
    for (Bio* bio : {&below, &beyond}) {
        bio->op = Op::write;
        bio->sector = bio == &below ? 0 : end;
        bio->sectors = 8;
        bio->data = {&segment, 1};
        bio->done = [](Bio&) noexcept {};
    }
    device.core().set().quiesce();
    (*channel)->submit(below);
    (*channel)->submit(beyond);
    EXPECT_TRUE(shrink());
    device.core().set().unquiesce();
    while ((*channel)->outstanding() > 0) (*channel)->wait();
    EXPECT_EQ(below.status, Status::ok);
    EXPECT_EQ(beyond.status, Status::out_of_range);
    EXPECT_EQ(device.sectors(), end);
}

std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
    SeededRandom random(seed);
    std::vector<std::byte> result(bytes);
    for (std::size_t i = 0; i < bytes; i += 8) {
        const std::uint64_t word = random.next();
        std::memcpy(result.data() + i, &word, std::min<std::size_t>(8, bytes - i));
    }
    return result;
}

namespace {

class Exercise {
  public:
    Exercise(DiskUser& user, Random& random, const ExerciseOptions& options)
        : user_(user),
          random_(random),
          options_(options),
          limits_(user.device().limits()),
          model_(user.device().sectors() * 512) {}

    std::vector<std::byte> run() {
        unsigned started = 0;
        while (started < options_.operations || !flying_.empty()) {
            while (started < options_.operations && flying_.size() < options_.in_flight) {
                ++started;
                start();
            }
            user_.channel().wait();
            while (!ended_.empty()) {
                finish(*ended_.back());
                ended_.pop_back();
            }
            if (testing::Test::HasFailure()) break;
        }
        while (user_.channel().outstanding() > 0) user_.channel().wait();
        return std::move(model_);
    }

  private:
    struct Flight {
        Bio bio;
        std::vector<std::byte> memory;
        std::vector<Segment> segments;
        std::size_t begin = 0, end = 0;
        Exercise* owner = nullptr;
    };

    bool meets_another(std::size_t begin, std::size_t end) const {
        return std::ranges::any_of(flying_,
                                   [&](const Flight& other) { return begin < other.end && other.begin < end; });
    }

    Op random_op() {
        const std::uint64_t draw = random_.below(100);
        if (draw < 40) return Op::write;
        if (draw < 80) return Op::read;
        if (draw < 88) return limits_.max_write_zeroes_sectors != 0 ? Op::write_zeroes : Op::write;
        if (draw < 96) return limits_.max_discard_sectors != 0 ? Op::discard : Op::write;
        return Op::flush;
    }

    void start() {
        const Op op = random_op();
        const std::size_t block = limits_.logical_block_size;
        const std::size_t blocks = 1 + random_.below(options_.max_bytes / block);
        const std::size_t begin = random_.below(model_.size() / block) * block;
        const std::size_t end = std::min(begin + blocks * block, model_.size());
        if (op != Op::flush && meets_another(begin, end)) return;
        Flight& flight = flying_.emplace_back();
        flight.owner = this;
        flight.bio.op = op;
        flight.bio.context = &flight;
        flight.bio.done = [](Bio& bio) noexcept {
            auto* ended = static_cast<Flight*>(bio.context);
            ended->owner->ended_.push_back(ended);
        };
        if (op != Op::flush) {
            flight.begin = begin;
            flight.end = end;
            flight.bio.sector = begin / 512;
            flight.bio.sectors = (end - begin) / 512;
        }
        if (carries_data(op)) give_memory(flight);
        if (op == Op::write_zeroes && random_.below(2) == 0) flight.bio.flags |= bio_unmap;
        if (changes_data(op) && op != Op::discard && random_.below(8) == 0) flight.bio.flags |= bio_fua;
        if (op == Op::write && random_.below(16) == 0) flight.bio.flags |= bio_preflush;
        user_.channel().submit(flight.bio);
    }

    void give_memory(Flight& flight) {
        const std::size_t bytes = flight.end - flight.begin;
        const bool odd = options_.odd_memory && random_.below(2) == 0;
        constexpr std::size_t page = 4096;
        flight.memory.resize(bytes + 2 * page);
        auto start = reinterpret_cast<std::uintptr_t>(flight.memory.data());
        start = (start + page - 1) / page * page + (odd ? random_.below(page) : 0);
        auto* at = reinterpret_cast<std::byte*>(start);
        if (flight.bio.op == Op::write) {
            for (std::size_t i = 0; i < bytes; ++i) at[i] = static_cast<std::byte>(random_.next());
        }
        std::size_t left = bytes;
        while (left > 0) {
            std::size_t piece = left;
            if (random_.below(3) != 0) piece = odd ? 1 + random_.below(left) : 512 * (1 + random_.below(left / 512));
            flight.segments.push_back({at, piece});
            at += piece;
            left -= piece;
        }
        flight.bio.data = flight.segments;
    }

    void finish(Flight& flight) {
        EXPECT_EQ(flight.bio.status, Status::ok) << to_string(flight.bio.op) << " at sector " << flight.bio.sector;
        auto place = std::span(model_).subspan(flight.begin, flight.end - flight.begin);
        if (carries_data(flight.bio.op)) {
            std::size_t at = 0;
            for (const Segment& segment : flight.segments) {
                if (flight.bio.op == Op::write) {
                    std::memcpy(place.data() + at, segment.data, segment.bytes);
                } else {
                    EXPECT_EQ(std::memcmp(place.data() + at, segment.data, segment.bytes), 0)
                        << "read of sector " << flight.bio.sector;
                }
                at += segment.bytes;
            }
        } else {
            std::ranges::fill(place, std::byte{0});
        }
        std::erase_if(flying_, [&](const Flight& other) { return &other == &flight; });
    }

    DiskUser& user_;
    Random& random_;
    const ExerciseOptions& options_;
    const QueueLimits limits_;
    std::vector<std::byte> model_;
    std::list<Flight> flying_;
    std::vector<Flight*> ended_;
};

}  // namespace

std::vector<std::byte> exercise(DiskUser& user, Random& random, const ExerciseOptions& options) {
    return Exercise(user, random, options).run();
}

}  // namespace mqblk::test
