// SPDX-License-Identifier: Apache-2.0
//
// One slot for each operation at once, with memory of its own that is watched from its completion to its next use.
#include "simulation/workload.h"

#include "base/crc32c.h"
#include "memory/buffer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <utility>

namespace mqblk::simulation {

namespace {

constexpr std::size_t guard_bytes = 64;
constexpr std::size_t most_gap_bytes = 8192;  // between pieces that lie apart
constexpr auto garbage = std::byte{0xee};

std::uint64_t hash_of(std::span<const std::byte> bytes) {
    return std::uint64_t{1} << 32 | Crc32c::of(bytes.data(), bytes.size());
}

}  // namespace

Duration longest_operation(const driver::nvme::HostOptions& options) {
    constexpr int tries = 6;
    const Duration notice = 3 * options.io_timeout + 2 * options.keep_alive;
    return tries * (notice + options.ctrl_loss_tmo + 10 * options.connect_timeout);
}

struct Workload::Slot {
    Slot(Workload& workload, std::size_t bytes)
        : owner(workload),
          // It begins a page: how pieces lie in pages is the seed's to say.
          pages(std::move(*memory::Buffer::allocate(bytes + 2 * guard_bytes))),
          memory(pages.data(), bytes + 2 * guard_bytes),
          scattered_pages(std::move(*memory::Buffer::allocate(
              workload.options_.scattered ? bytes + (workload.options_.most_pieces + 1) * most_gap_bytes : 1))),
          next([this] { owner.begin(*this); }) {
        std::ranges::fill(memory, garbage);
    }

    Workload& owner;
    memory::Buffer pages;
    std::span<std::byte> memory;
    memory::Buffer scattered_pages;  // where the pieces lie, if they lie apart
    std::span<std::byte> apart;      // as much of it as this operation has
    std::vector<Segment> segments;
    Bio bio;
    std::uint64_t number = 0;  // of the operation
    std::uint64_t first = 0, count = 0;
    Model::Version version = 0;
    std::uint64_t stamp = 0;
    Time started{};
    bool busy = false;
    std::uint64_t hash = 0;  // of the memory when the operation ended; 0: it had none yet
    Timer next;

    [[nodiscard]] std::span<std::byte> data() {
        return memory.subspan(guard_bytes, count * owner.model_.block_bytes());
    }
    /// Of all that an operation may touch.
    [[nodiscard]] std::uint64_t hash_now() const {
        const std::uint64_t own = hash_of(memory);
        return apart.empty() ? own : own ^ hash_of(apart) << 1;
    }
    [[nodiscard]] std::string what() const {
        return fmt::format("{} operation {}: {} of {} blocks at {}", owner.name_, number, to_string(bio.op), count,
                           first);
    }
};

Workload::Workload(Scene& scene, std::string name, std::shared_ptr<Device> device, Reactor& reactor, Model& model,
                   WorkloadOptions options)
    : scene_(scene),
      name_(std::move(name)),
      device_(std::move(device)),
      reactor_(reactor),
      model_(model),
      options_(std::move(options)),
      to_begin_(options_.operations) {
    auto channel = device_->channel(reactor_);
    EXPECT_TRUE(channel.has_value());
    channel_ = std::move(*channel);
    for (unsigned i = 0; i < options_.depth; ++i)
        slots_.push_back(std::make_unique<Slot>(*this, std::size_t{options_.most_bytes}));
}

Workload::~Workload() {
    to_begin_ = 0;
    channel_.reset();
    EXPECT_EQ(outstanding_, 0u) << name_ << ": its channel is gone, but not its operations";
    for (const auto& slot : slots_) check_memory(*slot);
}

void Workload::start() {
    for (const auto& slot : slots_) schedule(*slot);
}

void Workload::schedule(Slot& slot) {
    if (to_begin_ == 0) return;
    const auto longest = static_cast<std::uint64_t>(options_.longest_pause.count());
    slot.next.arm(reactor_, scene_.sim.now() + Duration(static_cast<Duration::rep>(scene_.random.below(longest + 1))));
}

void Workload::begin(Slot& slot) {
    if (to_begin_ == 0) return;
    check_memory(slot);
    choose(slot);
    if (slot.bio.op != Op::flush && !lock_range(slot)) return schedule(slot);
    --to_begin_;
    slot.number = begun_++;
    slot.stamp = model_.stamp();
    lay_out(slot);
    if (changes_data(slot.bio.op)) model_.begin(slot.first, slot.count, slot.version);
    slot.started = scene_.sim.now();
    slot.busy = true;
    ++outstanding_;
    channel_->submit(slot.bio);
}

void Workload::choose(Slot& slot) {
    const std::array weights{options_.read_weight, options_.write_weight, options_.zero_weight, options_.discard_weight,
                             options_.flush_weight};
    constexpr std::array ops{Op::read, Op::write, Op::write_zeroes, Op::discard, Op::flush};
    std::uint64_t drawn = 0;
    for (const unsigned weight : weights) drawn += weight;
    drawn = scene_.random.below(drawn);
    std::size_t kind = 0;
    while (drawn >= weights[kind]) drawn -= weights[kind++];
    slot.bio = Bio{};
    slot.bio.op = ops[kind];
    slot.bio.context = &slot;
    slot.bio.done = [](Bio& bio) noexcept {
        auto& ended_slot = *static_cast<Slot*>(bio.context);
        ended_slot.owner.ended(ended_slot);
    };
    slot.version = 0;
    if (slot.bio.op == Op::write) {
        slot.version = model_.new_version();
        if (scene_.random.below(5) == 0) slot.bio.flags |= bio_fua;
        if (scene_.random.below(20) == 0) slot.bio.flags |= bio_preflush;
    }
    if (slot.bio.op == Op::write_zeroes && scene_.random.below(2) == 0) slot.bio.flags |= bio_unmap;
}

/// Draws a range that nobody else works on.
bool Workload::lock_range(Slot& slot) {
    const std::uint64_t most = std::min(options_.most_bytes / model_.block_bytes(), model_.blocks());
    for (int attempt = 0; attempt < 4; ++attempt) {
        const std::uint64_t limit = scene_.random.below(3) == 0 ? most : std::min<std::uint64_t>(most, 16);
        slot.count = 1 + scene_.random.below(limit);
        slot.first = scene_.random.below(model_.blocks() - slot.count + 1);
        if (model_.lock(slot.first, slot.count, changes_data(slot.bio.op))) return true;
    }
    return false;
}

/// Gives the operation its place and its memory, which is cut into pieces at random.
void Workload::lay_out(Slot& slot) {
    std::ranges::fill(slot.memory, garbage);
    slot.segments.clear();
    slot.apart = {};
    const std::uint64_t sectors_per_block = model_.block_bytes() / sector_bytes;
    if (slot.bio.op == Op::flush) {
        slot.first = slot.count = 0;
        return;
    }
    slot.bio.sector = slot.first * sectors_per_block;
    slot.bio.sectors = slot.count * sectors_per_block;
    if (!carries_data(slot.bio.op)) return;
    auto left = slot.data();
    if (slot.bio.op == Op::write) model_.fill(left, slot.first, slot.version);
    const std::size_t unit = std::max<std::size_t>(options_.piece_unit, device_->limits().dma_alignment + 1);
    for (std::uint64_t pieces = 1 + scene_.random.below(options_.most_pieces); pieces > 1; --pieces) {
        const std::size_t bytes = scene_.random.below(left.size() / unit + 1) * unit;
        slot.segments.push_back({left.data(), bytes});
        left = left.subspan(bytes);
    }
    slot.segments.push_back({left.data(), left.size()});
    if (options_.scattered) scatter(slot);
    slot.bio.data = slot.segments;
}

/// The pieces move apart: some to a page's beginning, some anywhere that is allowed.
void Workload::scatter(Slot& slot) {
    const std::size_t unit = device_->limits().dma_alignment + 1;
    std::byte* const first = slot.scattered_pages.data();
    std::vector<std::size_t> places;
    std::size_t at = 0;
    for (const Segment& each : slot.segments) {
        at += scene_.random.below(most_gap_bytes / 2 / unit) * unit;
        if (scene_.random.below(2) == 0) at = (at + 4095) & ~std::size_t{4095};
        places.push_back(at);
        at += each.bytes;
    }
    slot.apart = {first, std::min(at + guard_bytes, slot.scattered_pages.size())};
    std::ranges::fill(slot.apart, garbage);
    for (std::size_t i = 0; i < places.size(); ++i) {
        Segment& each = slot.segments[i];
        std::copy_n(each.data, each.bytes, first + places[i]);
        each.data = first + places[i];
    }
}

void Workload::ended(Slot& slot) noexcept {
    if (!std::exchange(slot.busy, false)) {
        ADD_FAILURE() << slot.what() << " ended twice\n" << scene_.story();
        return;
    }
    --outstanding_;
    const Duration took = scene_.sim.now() - slot.started;
    const Status status = slot.bio.status;
    if (options_.scattered && slot.bio.op == Op::read) {
        auto to = slot.data().begin();
        for (const Segment& each : slot.segments) to = std::copy_n(each.data, each.bytes, to);
    }
    slot.hash = slot.hash_now();
    scene_.note(fmt::format("{} {} {:#x}", slot.what(), to_string(status), slot.hash));
    if (took > options_.bound) {
        ADD_FAILURE() << slot.what() << " took " << took / std::chrono::milliseconds(1) << " ms\n" << scene_.story();
    }
    if (status == Status::ok) {
        ++succeeded_;
        succeed(slot);
    } else {
        ++failed_;
        if (!options_.allowed.contains(status)) {
            ADD_FAILURE() << slot.what() << " ended with '" << to_string(status) << "'\n" << scene_.story();
        }
        if (changes_data(slot.bio.op)) model_.doubt(slot.first, slot.count);
    }
    if (slot.bio.op != Op::flush) model_.unlock(slot.first, slot.count, changes_data(slot.bio.op));
    schedule(slot);
}

void Workload::succeed(Slot& slot) {
    if ((slot.bio.flags & bio_preflush) != 0) model_.flushed(slot.stamp);
    switch (slot.bio.op) {
        case Op::read:
            if (const auto wrong = model_.check(slot.data(), slot.first, slot.stamp); !wrong.empty()) {
                ADD_FAILURE() << slot.what() << ": " << wrong << "\n" << scene_.story();
            }
            break;
        case Op::flush:
            model_.flushed(slot.stamp);
            break;
        case Op::discard:
            break;  // zeroes or what was there
        case Op::write:
        case Op::write_zeroes:
            model_.acknowledge(slot.first, slot.count, slot.version, (slot.bio.flags & bio_fua) != 0, slot.stamp);
            break;
    }
}

void Workload::check_memory(Slot& slot) {
    const std::uint64_t hash = std::exchange(slot.hash, 0);
    if (hash == 0) return;
    if (hash != slot.hash_now()) {
        ADD_FAILURE() << slot.what() << ": its memory was changed after it had ended\n" << scene_.story();
    }
    const std::span<const std::byte> memory = slot.memory;
    const auto untouched = [](std::byte byte) { return byte == garbage; };
    if (!std::ranges::all_of(memory.first(guard_bytes), untouched) ||
        !std::ranges::all_of(memory.subspan(guard_bytes + slot.data().size()), untouched)) {
        ADD_FAILURE() << slot.what() << ": memory outside of its own was changed\n" << scene_.story();
    }
    if (slot.apart.empty()) return;
    std::span<const std::byte> rest = slot.apart;
    bool whole = true;
    for (const Segment& each : slot.segments) {
        const auto gap = static_cast<std::size_t>(each.data - rest.data());
        whole = whole && std::ranges::all_of(rest.first(gap), untouched);
        rest = rest.subspan(gap + each.bytes);
    }
    if (!whole || !std::ranges::all_of(rest, untouched))
        ADD_FAILURE() << slot.what() << ": memory between its pieces was changed\n" << scene_.story();
}

std::string Workload::pending() const {
    std::string text;
    for (const auto& slot : slots_) {
        if (!slot->busy) continue;
        text += fmt::format("{}, for {} ms\n", slot->what(),
                            (scene_.sim.now() - slot->started) / std::chrono::milliseconds(1));
    }
    return text;
}

std::optional<Status> submit_and_wait(Scene& scene, Device& device, Reactor& reactor, Bio& bio, Duration bound) {
    auto channel = device.channel(reactor);
    if (!channel) return std::nullopt;
    bool done = false;
    bio.context = &done;
    bio.done = [](Bio& ended) noexcept { *static_cast<bool*>(ended.context) = true; };
    (*channel)->submit(bio);
    reactor.wake();  // it may sleep, and this is not one of its passes
    if (!scene.run_until([&] { return done; }, bound)) return std::nullopt;
    return bio.status;
}

bool verify(Scene& scene, Device& device, Reactor& reactor, Model& model) {
    constexpr std::size_t piece_bytes = 64u << 10;
    std::vector<std::byte> memory(piece_bytes);
    for (std::uint64_t first = 0; first < model.blocks();) {
        const std::uint64_t count = std::min<std::uint64_t>(model.blocks() - first, piece_bytes / model.block_bytes());
        const Segment segment{memory.data(), count * model.block_bytes()};
        Bio bio;
        bio.sector = first * model.block_bytes() / sector_bytes;
        bio.sectors = segment.bytes / sector_bytes;
        bio.data = {&segment, 1};
        std::ranges::fill(memory, garbage);
        const std::uint64_t stamp = model.stamp();
        const auto status = submit_and_wait(scene, device, reactor, bio, std::chrono::minutes(10));
        std::string wrong = "the read has not ended";
        if (status) wrong = to_string(*status);
        if (status == Status::ok) wrong = model.check(std::span(memory).first(segment.bytes), first, stamp);
        if (!wrong.empty()) {
            ADD_FAILURE() << "at the end, from block " << first << ": " << wrong << "\n" << scene.story();
            return false;
        }
        first += count;
    }
    return true;
}

}  // namespace mqblk::simulation
