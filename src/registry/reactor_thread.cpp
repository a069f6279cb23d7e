// SPDX-License-Identifier: Apache-2.0
#include "registry/reactor_thread.h"

#include "reactor/uring_reactor.h"

#include <pthread.h>
#include <signal.h>

#include <random>

namespace mqblk::registry {

std::uint64_t machine_seed() {
    std::random_device device;
    return (static_cast<std::uint64_t>(device()) << 32) | device();
}

Result<std::unique_ptr<ReactorThread>> ReactorThread::start(const Clock& clock, Options options) {
    auto random = std::make_unique<SeededRandom>(options.seed);
    auto reactor = make_uring_reactor(clock, *random);
    if (!reactor) return std::unexpected(reactor.error());
    std::unique_ptr<ReactorThread> thread(new ReactorThread(std::move(random), std::move(*reactor)));
    if (options.poll) thread->reactor_->set_spin(Duration::max());
    thread->thread_ = std::thread([self = thread.get(), options] { self->turn(options); });
    return thread;
}

ReactorThread::ReactorThread(std::unique_ptr<SeededRandom> random, std::unique_ptr<Reactor> reactor)
    : random_(std::move(random)), reactor_(std::move(reactor)) {}

ReactorThread::~ReactorThread() {
    stop_ = true;
    reactor_->wake();
    thread_.join();
}

void ReactorThread::run(const std::function<void()>& work) {
    auto done = std::make_shared<std::promise<void>>();
    auto result = done->get_future();
    reactor_->post([&work, done] {
        work();
        done->set_value();
    });
    result.get();
}

void ReactorThread::turn(const Options& options) {
    // Signals are for the program's main thread.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    if (!options.name.empty()) pthread_setname_np(pthread_self(), options.name.substr(0, 15).c_str());
    if (options.core >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(static_cast<unsigned>(options.core), &set);
        pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    }
    while (!stop_.load(std::memory_order_relaxed)) reactor_->run_once(Reactor::Sleep::yes);
}

}  // namespace mqblk::registry
