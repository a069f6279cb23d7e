// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/job.h"

#include "base/steady_clock.h"
#include "cli/bench/pattern.h"
#include "cli/bench/place.h"
#include "cli/signals.h"
#include "memory/buffer.h"
#include "reactor/uring_reactor.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <future>
#include <thread>
#include <utility>

namespace mqblk::cli {

namespace {

void pin_to_core(unsigned core) noexcept {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

}  // namespace

struct Job::Impl {
    /// One I/O kept in flight.
    struct Slot {
        Bio bio;  // first: a completion gets back from it to here
        Segment segment{nullptr, 0};
        Time start{};
        std::uint64_t unit = 0;
        std::uint32_t device = 0;
        std::uint32_t generation = 0;
        Direction direction = Direction::read;
    };

    Impl(const Workload& w, const std::vector<BenchDevice>& d, Conductor& c, unsigned i)
        : work(w), devices(d), conductor(c), index(i), random(w.seed * 1000003 + i), reactor_random(w.seed + i) {}

    const Workload& work;
    const std::vector<BenchDevice>& devices;
    Conductor& conductor;
    const unsigned index;
    SeededRandom random, reactor_random;
    SteadyClock clock;
    std::thread thread;
    std::promise<Result<>> opened;
    JobLive live;

    // The thread's own.
    std::unique_ptr<Reactor> reactor;
    std::vector<std::unique_ptr<Channel>> channels;
    std::vector<Place> places;
    std::vector<std::uint32_t> lba_bytes;
    memory::Buffer memory;
    std::vector<Slot> slots;
    JobResult result;
    Time pass_now{};  ///< read once per pass; zero before the pass's first completion
    Time begun{}, ended{};
    std::uint64_t budget = 0;  ///< I/Os still to be started
    std::uint64_t succeeded = 0;
    unsigned in_flight = 0;
    std::uint32_t next_device = 0;
    unsigned passes = 0;
    int seen_phase = Conductor::wait;
    bool stopping = false;
    bool counting = true;  ///< off once it was stopped within the ramp
    bool reading_back = false;
    std::uint64_t read_back_unit = 0;
    unsigned read_back_device = 0;

    void run();
    Result<> open();
    void measure();
    void read_back();
    void turn();
    void look_at_phase();
    void forget_ramp();
    void share_in_flight() noexcept;
    [[noreturn]] void stand_still();
    void report_live() noexcept;

    std::uint32_t device_for(const Slot&) noexcept;
    void start_one(Slot&) noexcept;
    bool start_read_back(Slot&) noexcept;
    void submit(Slot&) noexcept;
    void completed(Slot&) noexcept;
    void count_error(const Slot&) noexcept;
    void settle_verified(Slot&) noexcept;
};

void Job::Impl::run() {
    if (!work.cores.empty()) pin_to_core(work.cores[index % work.cores.size()]);
    auto ready = open();
    const bool good = ready.has_value();
    opened.set_value(std::move(ready));
    if (good) {
        conductor.phase.wait(Conductor::wait);
        measure();
        if (work.verify && work.writes() && Signals::caught() == 0) read_back();
        if (in_flight > 0) stand_still();
    }
    channels.clear();
    conductor.job_ended();
}

Result<> Job::Impl::open() {
    auto made = make_uring_reactor(clock, reactor_random);
    if (!made) return std::unexpected(made.error());
    reactor = std::move(*made);
    if (work.poll) reactor->set_spin(Duration::max());
    for (const auto& entry : devices) {
        auto channel = entry.device->channel(*reactor);
        if (!channel) return std::unexpected(channel.error().in(entry.uri));
        channels.push_back(std::move(*channel));
        places.emplace_back(work, entry.device->sectors() * sector_bytes, index);
        lba_bytes.push_back(entry.device->limits().logical_block_size);
    }
    slots.resize(work.depth);
    const std::size_t stride = (work.block_bytes + 4095) / 4096 * 4096;
    if (!work.trim) {
        auto buffer = memory::Buffer::allocate(stride * work.depth);
        if (!buffer) return std::unexpected(buffer.error());
        memory = std::move(*buffer);
    }
    for (std::size_t i = 0; i < slots.size(); ++i) {
        auto& slot = slots[i];
        slot.bio.context = this;
        slot.bio.done = [](Bio& bio) noexcept {
            static_cast<Impl*>(bio.context)->completed(reinterpret_cast<Slot&>(bio));
        };
        slot.bio.sectors = work.block_bytes / sector_bytes;
        if (work.trim) continue;
        slot.segment = {memory.data() + i * stride, work.block_bytes};
        slot.bio.data = {&slot.segment, 1};
        if (work.writes() && !work.verify) {
            fill_random({slot.segment.data, slot.segment.bytes}, work.seed + index * work.depth + i);
        }
    }
    budget = work.size_bytes == 0 ? ~0ull : work.size_bytes / work.block_bytes;
    return {};
}

void Job::Impl::measure() {
    begun = ended = pass_now = SteadyClock::read();
    look_at_phase();
    for (auto& slot : slots) start_one(slot);
    while (in_flight > 0 && seen_phase != Conductor::abandon) turn();
    if (seen_phase == Conductor::ramp) forget_ramp();  // it ended by an error
    result.runtime = ended - begun;
    result.unanswered = in_flight;
    report_live();
}

/// Reads every block that was written once more and checks it.
void Job::Impl::read_back() {
    reading_back = true;
    stopping = false;
    for (auto& slot : slots) {
        if (!start_read_back(slot)) break;
    }
    while (in_flight > 0 && seen_phase != Conductor::abandon) turn();
    result.unanswered = in_flight;
}

/// What is in flight may still use this thread's memory and channels.
void Job::Impl::stand_still() {
    conductor.job_ended();
    while (true) ::pause();
}

/// One pass over what completed, or a sleep until something does.
void Job::Impl::turn() {
    if (conductor.phase.load(std::memory_order_relaxed) != seen_phase) return look_at_phase();
    if (reading_back && Signals::caught() != 0) stopping = true;
    pass_now = Time{};
    unsigned done = 0;
    if (channels.size() == 1) done = channels.front()->poll();
    if (stopping) share_in_flight();
    if (done == 0) {
        report_live();
        reactor->run_once(Reactor::Sleep::yes);
    } else if ((++passes & 255) == 0) {
        pass_now = Time{};
        reactor->run_once(Reactor::Sleep::no);
        report_live();
    }
}

void Job::Impl::look_at_phase() {
    const int before = std::exchange(seen_phase, conductor.phase.load());
    if (before == Conductor::ramp || seen_phase == Conductor::measure) forget_ramp();
    if (before == Conductor::ramp && seen_phase != Conductor::measure) counting = false;
    if (seen_phase != Conductor::stop && seen_phase != Conductor::abandon) return;
    stopping = true;
    share_in_flight();
}

/// What was done until now does not count; what failed does.
void Job::Impl::forget_ramp() {
    for (auto& direction : result.directions) {
        direction.ios = direction.bytes = 0;
        direction.latency = Histogram{};
    }
    begun = ended = SteadyClock::read();
}

/// From the stop on, so that whoever waits can say for how much.
void Job::Impl::share_in_flight() noexcept {
    live.in_flight.store(in_flight, std::memory_order_relaxed);
}

void Job::Impl::report_live() noexcept {
    live.ios.store(succeeded, std::memory_order_relaxed);
}

/// Each device has its share of the depth at all times, also when others answer faster. Where the depth is less than
/// one for each, they have their turn.
std::uint32_t Job::Impl::device_for(const Slot& slot) noexcept {
    if (slots.size() >= channels.size()) return static_cast<std::uint32_t>((&slot - slots.data()) % channels.size());
    return std::exchange(next_device, next_device + 1 == channels.size() ? 0 : next_device + 1);
}

void Job::Impl::start_one(Slot& slot) noexcept {
    if (stopping || budget == 0) return;
    if (seen_phase != Conductor::ramp) --budget;
    slot.device = device_for(slot);
    auto& place = places[slot.device];
    slot.unit = place.next(random);
    if (work.trim) {
        slot.direction = Direction::trim;
        slot.bio.op = Op::discard;
    } else {
        const bool read = work.read_percent == 100 || (work.read_percent != 0 && random.below(100) < work.read_percent);
        slot.direction = read ? Direction::read : Direction::write;
        slot.bio.op = read ? Op::read : Op::write;
    }
    slot.bio.sector = place.byte_of(slot.unit) / sector_bytes;
    if (work.verify) {
        slot.generation = place.begin(slot.unit, slot.direction == Direction::write);
        if (slot.direction == Direction::write) {
            const auto block = lba_bytes[slot.device];
            fill_blocks({slot.segment.data, slot.segment.bytes}, block,
                        {place.byte_of(slot.unit) / block, work.seed, slot.generation});
            pass_now = Time{};  // filling takes longer than many an I/O
        }
    }
    submit(slot);
}

/// The next written unit to be read again, in order of device and place.
bool Job::Impl::start_read_back(Slot& slot) noexcept {
    for (; read_back_device < places.size(); ++read_back_device, read_back_unit = 0) {
        auto& place = places[read_back_device];
        while (read_back_unit < place.units() && place.generation(read_back_unit) == 0) ++read_back_unit;
        if (read_back_unit == place.units()) continue;
        slot.device = read_back_device;
        slot.unit = read_back_unit++;
        slot.direction = Direction::read;
        slot.generation = place.begin(slot.unit, false);
        slot.bio.op = Op::read;
        slot.bio.sector = place.byte_of(slot.unit) / sector_bytes;
        submit(slot);
        return true;
    }
    return false;
}

void Job::Impl::submit(Slot& slot) noexcept {
    if (pass_now == Time{}) pass_now = SteadyClock::read();
    slot.start = pass_now;
    ++in_flight;
    channels[slot.device]->submit(slot.bio);
}

void Job::Impl::completed(Slot& slot) noexcept {
    if (pass_now == Time{}) pass_now = SteadyClock::read();
    --in_flight;
    succeeded += slot.bio.status == Status::ok;
    if (slot.bio.status != Status::ok) {
        count_error(slot);
    } else if (!reading_back && counting) {
        auto& direction = result.directions[static_cast<std::size_t>(slot.direction)];
        ++direction.ios;
        direction.bytes += work.block_bytes;
        direction.latency.add(static_cast<std::uint64_t>((pass_now - slot.start).count()));
        ended = pass_now;
    }
    if (work.verify) settle_verified(slot);
    if (reading_back) {
        if (!stopping) start_read_back(slot);
    } else {
        start_one(slot);
    }
}

void Job::Impl::count_error(const Slot& slot) noexcept {
    ++result.directions[static_cast<std::size_t>(slot.direction)].errors;
    if (result.first_error == 0) {
        result.first_error = to_errno(slot.bio.status);
        result.first_error_text =
            fmt::format("{}: {} of {} bytes at byte {} failed: {}", devices[slot.device].uri, to_string(slot.direction),
                        work.block_bytes, slot.bio.sector * sector_bytes, to_string(slot.bio.status));
    }
    if (!work.continue_on_error) stopping = true;
}

void Job::Impl::settle_verified(Slot& slot) noexcept {
    auto& place = places[slot.device];
    const bool ok = slot.bio.status == Status::ok;
    if (slot.direction == Direction::write) {
        place.end(slot.unit, ok ? slot.generation : 0);
        return;
    }
    place.end(slot.unit, slot.generation);
    const bool known = slot.generation != 0 || !work.writes();
    if (!ok || !known) return;
    const auto block = lba_bytes[slot.device];
    result.blocks_verified += work.block_bytes / block;
    const auto wrong = check_blocks({slot.segment.data, slot.segment.bytes}, block,
                                    {place.byte_of(slot.unit) / block, work.seed, slot.generation});
    pass_now = Time{};  // checking takes longer than many an I/O
    if (!wrong) return;
    ++result.mismatches;
    if (result.first_mismatch.empty()) result.first_mismatch = devices[slot.device].uri + ": " + *wrong;
    if (!work.continue_on_error) stopping = true;
}

Job::Job(const Workload& work, const std::vector<BenchDevice>& devices, Conductor& conductor, unsigned index)
    : impl_(std::make_unique<Impl>(work, devices, conductor, index)) {}

Job::~Job() {
    join();
}

Result<> Job::start() {
    auto opened = impl_->opened.get_future();
    impl_->thread = std::thread([this] { impl_->run(); });
    return opened.get();
}

void Job::wake() noexcept {
    if (impl_->reactor) impl_->reactor->wake();
}

void Job::join() {
    if (impl_->thread.joinable()) impl_->thread.join();
}

const JobLive& Job::live() const noexcept {
    return impl_->live;
}

const JobResult& Job::result() const noexcept {
    return impl_->result;
}

}  // namespace mqblk::cli
