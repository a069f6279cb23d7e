// SPDX-License-Identifier: Apache-2.0
//
// The io_uring reactor. Its ring carries poll requests for watched descriptors and one read of an eventfd, by which
// other threads end a sleep; all else is done by pollers. Waking costs other threads an atomic exchange while the loop
// runs and a write to the eventfd when it sleeps.
#include "reactor/uring_reactor.h"

#include "reactor/spin_budget.h"
#include "reactor/uring_watches.h"

#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace mqblk {

namespace {

constexpr unsigned ring_entries = 128;
constexpr std::uint64_t wake_name = UringWatches::no_one - 1;

/// `shared`: run by several threads in turn, under a lock of theirs, and slept on through its descriptor.
enum class Use : bool { one_thread, shared };

class UringReactor final : public Reactor {
  public:
    UringReactor(const Clock& clock, Random& random, Duration spin, Use use)
        : Reactor(clock, random), use_(use), spin_(spin) {}
    ~UringReactor() override;

    Result<> open();

    void post(std::function<void()> task) override;
    void wake() noexcept override;
    unsigned run_once(Sleep, Time deadline) override;
    void set_spin(Duration spin) noexcept override { spin_.set(spin); }
    std::unique_ptr<Watch> watch(int fd, std::function<void()> ready) override;
    std::shared_ptr<Reactor> shareable() override;
    int fd() const noexcept override { return use_ == Use::shared ? ring_.ring_fd : -1; }

  private:
    void enable() noexcept;
    unsigned pass() noexcept;
    unsigned run_posted();
    unsigned run_completions();
    unsigned wait_for_work(Time deadline);
    void sleep(Time deadline) noexcept;
    void submit() noexcept;
    void fill_ring() noexcept;
    void notify() noexcept;
    bool take_wake() noexcept {
        return woken_.load(std::memory_order_relaxed) && woken_.exchange(false, std::memory_order_acq_rel);
    }

    const Use use_;
    SpinBudget spin_;
    io_uring ring_{};
    bool opened_ = false;
    bool enabled_ = false;
    bool disabled_at_start_ = false;
    bool wake_read_armed_ = false;
    int event_fd_ = -1;
    std::uint64_t event_count_ = 0;  ///< where the kernel puts what it reads from the eventfd
    std::uint64_t runs_ = 0;         ///< calls of run_once: shows that a callback ran the reactor again
    UringWatches watches_;

    // Other threads'. A sleeper sets `sleeping_` and then looks at the other two; who sets one of these looks at
    // `sleeping_` afterwards. All sequentially consistent, so at least one of the two sees the other.
    alignas(64) std::atomic<bool> sleeping_{false};
    std::atomic<bool> woken_{false};
    std::atomic<bool> has_posted_{false};
    std::mutex posted_mutex_;
    std::vector<std::function<void()>> posted_;
};

UringReactor::~UringReactor() {
    if (opened_) io_uring_queue_exit(&ring_);
    if (event_fd_ >= 0) ::close(event_fd_);
}

Result<> UringReactor::open() {
    event_fd_ = ::eventfd(0, EFD_CLOEXEC);
    if (event_fd_ < 0) return std::unexpected(Error::from_errno(errno, "create an eventfd"));
    // What only one thread uses is cheapest with deferred task work; it is enabled by the thread that will run it. A
    // shared ring must post completions whichever thread runs, so it takes none of these.
    constexpr unsigned one_thread[] = {
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED,
        IORING_SETUP_R_DISABLED};
    constexpr unsigned shared[] = {0};
    const std::span<const unsigned> choices = use_ == Use::one_thread ? std::span<const unsigned>(one_thread) : shared;
    int error = 0;
    for (const unsigned flags : choices) {
        error = -io_uring_queue_init(ring_entries, &ring_, flags);
        if (error == 0) {
            opened_ = true;
            disabled_at_start_ = (flags & IORING_SETUP_R_DISABLED) != 0;
            if (use_ == Use::shared) submit();
            return {};
        }
        if (error != EINVAL) break;
    }
    return std::unexpected(Error::from_errno(
        error, error == EPERM || error == ENOSYS
                   ? "create an io_uring (allow it with `sysctl kernel.io_uring_disabled=0`)"
                   : "create an io_uring (Linux 6.1 or later is needed, and locked memory: see `ulimit -l`)"));
}

void UringReactor::enable() noexcept {
    enabled_ = true;
    // By system call: liburing 2.3 declares io_uring_enable_rings but does not export it.
    if (disabled_at_start_) ::syscall(__NR_io_uring_register, ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
}

void UringReactor::notify() noexcept {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(event_fd_, &one, sizeof one);  // a full counter wakes as well
}

void UringReactor::wake() noexcept {
    const bool already = woken_.exchange(true, std::memory_order_seq_cst);
    // Those who sleep on a shared reactor do so elsewhere, through its descriptor: they must be told every time.
    if (use_ == Use::shared ? !already : sleeping_.load(std::memory_order_seq_cst)) notify();
}

void UringReactor::post(std::function<void()> task) {
    // All under the mutex: the task may be what the reactor's owner waits for before it destroys the reactor, and it
    // cannot be taken before the mutex is free and nothing of the reactor is touched here any more.
    const std::lock_guard lock(posted_mutex_);
    const bool first = posted_.empty();
    posted_.push_back(std::move(task));
    has_posted_.store(true, std::memory_order_seq_cst);
    if (use_ == Use::shared ? first : sleeping_.load(std::memory_order_seq_cst)) notify();
}

unsigned UringReactor::run_posted() {
    if (!has_posted_.load(std::memory_order_relaxed)) return 0;
    std::vector<std::function<void()>> tasks;
    {
        const std::lock_guard lock(posted_mutex_);
        tasks.swap(posted_);
        has_posted_.store(false, std::memory_order_relaxed);
    }
    for (auto& task : tasks) task();
    return static_cast<unsigned>(tasks.size());
}

unsigned UringReactor::run_completions() {
    unsigned ready = io_uring_cq_ready(&ring_);
    if (ready == 0) {
        const unsigned flags = __atomic_load_n(ring_.sq.kflags, __ATOMIC_RELAXED);
        if ((flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) == 0) return 0;
        io_uring_get_events(&ring_);
        ready = io_uring_cq_ready(&ring_);
    }
    unsigned events = 0;
    for (; ready > 0; --ready) {
        io_uring_cqe* cqe = nullptr;
        if (io_uring_peek_cqe(&ring_, &cqe) != 0) break;  // a callback ran the reactor and took the rest
        const std::uint64_t name = cqe->user_data;
        const int result = cqe->res;
        io_uring_cqe_seen(&ring_, cqe);
        if (name == wake_name) {
            wake_read_armed_ = false;
        } else if (name != UringWatches::no_one) {
            watches_.complete(name, result);
            ++events;
        }
    }
    return events;
}

unsigned UringReactor::pass() noexcept {
    unsigned events = run_timers();
    events += run_posted();
    events += run_completions();
    events += run_pollers();
    if (watches_.pending() || (use_ == Use::shared && !wake_read_armed_)) submit();
    return events;
}

/// Everything that wants to be in the ring goes in.
void UringReactor::fill_ring() noexcept {
    watches_.flush(ring_);
    if (wake_read_armed_) return;
    if (io_uring_sqe* const sqe = next_sqe(ring_)) {
        io_uring_prep_read(sqe, event_fd_, &event_count_, sizeof event_count_, 0);
        io_uring_sqe_set_data64(sqe, wake_name);
        wake_read_armed_ = true;
    }
}

void UringReactor::submit() noexcept {
    if (disabled_at_start_ && !enabled_) return;
    fill_ring();
    io_uring_submit(&ring_);
}

unsigned UringReactor::run_once(Sleep sleep_allowed, Time deadline) {
    if (!enabled_) enable();
    const std::uint64_t run = ++runs_;
    const unsigned events = pass();
    // A callback that ran the reactor may have consumed what our caller waits for: let it look.
    if (events > 0 || sleep_allowed == Sleep::no || take_wake() || runs_ != run) {
        if (sleep_allowed == Sleep::no) take_wake();
        return events;
    }
    return wait_for_work(deadline);
}

unsigned UringReactor::wait_for_work(Time deadline) {
    const std::uint64_t run = runs_;
    const Time idle_since = now();
    for (;;) {
        const Time time = now();
        if (time >= deadline) return 0;
        if (time - idle_since >= spin_.now() && pollers_prepare_sleep() && runs_ == run) {
            sleep(deadline);
            spin_.failed(now() - time);
            const unsigned events = pass();
            take_wake();
            return events;
        }
        const unsigned events = pass();
        if (events > 0) spin_.paid();
        if (events > 0 || take_wake() || runs_ != run) return events;
    }
}

void UringReactor::sleep(Time deadline) noexcept {
    sleeping_.store(true, std::memory_order_seq_cst);
    if (!woken_.load(std::memory_order_seq_cst) && !has_posted_.load(std::memory_order_seq_cst)) {
        fill_ring();
        io_uring_cqe* cqe = nullptr;
        const Time until = std::min(deadline, next_deadline());
        if (until == never) {
            io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, nullptr, nullptr);
        } else {
            const auto left = std::max<std::int64_t>((until - now()).count(), 0);
            __kernel_timespec limit{left / 1'000'000'000, left % 1'000'000'000};
            io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, &limit, nullptr);
        }
    }
    sleeping_.store(false, std::memory_order_relaxed);
}

std::unique_ptr<Watch> UringReactor::watch(int fd, std::function<void()> ready) {
    std::function<void()> changed;
    if (use_ == Use::shared) changed = [this] { submit(); };
    return std::make_unique<UringWatch>(watches_, fd, std::move(ready), std::move(changed));
}

std::shared_ptr<Reactor> UringReactor::shareable() {
    struct Holder {
        Holder(const Clock& clock, std::uint64_t seed) : random(seed), reactor(clock, random, {}, Use::shared) {}
        SeededRandom random;
        UringReactor reactor;
    };
    auto holder = std::make_shared<Holder>(clock(), random().next());
    if (!holder->reactor.open()) return nullptr;
    return {holder, &holder->reactor};
}

}  // namespace

Duration UringOptions::default_spin() noexcept {
    static const bool alone = ::sysconf(_SC_NPROCESSORS_ONLN) < 2;
    return alone ? Duration::zero() : Duration(std::chrono::microseconds(50));
}

Result<std::unique_ptr<Reactor>> make_uring_reactor(const Clock& clock, Random& random, UringOptions options) {
    auto reactor = std::make_unique<UringReactor>(clock, random, options.spin, Use::one_thread);
    if (auto opened = reactor->open(); !opened) return std::unexpected(opened.error());
    return reactor;
}

}  // namespace mqblk
