// SPDX-License-Identifier: Apache-2.0
//
// Finding an entry costs the same among 1, 64 and 4,096 of them: XArray as the namespaces are found, with the read-side
// section, and beside it the linked list that Linux's NVMe drivers walked before 2020.
#include "base/xarray.h"
#include "base/random.h"

#include <benchmark/benchmark.h>

#include <list>
#include <memory>
#include <vector>

namespace {

struct Namespace {
    std::uint32_t nsid;
};

std::vector<std::unique_ptr<Namespace>> make(std::int64_t count) {
    std::vector<std::unique_ptr<Namespace>> all;
    for (std::int64_t i = 1; i <= count; ++i) {
        all.push_back(std::make_unique<Namespace>(Namespace{static_cast<std::uint32_t>(i)}));
    }
    return all;
}

/// Random identifiers, made beforehand.
std::vector<std::uint32_t> questions(std::int64_t count) {
    mqblk::SeededRandom random(1);
    std::vector<std::uint32_t> asked(4096);
    for (auto& nsid : asked) nsid = 1 + static_cast<std::uint32_t>(random.below(static_cast<std::uint64_t>(count)));
    return asked;
}

void xarray_load(benchmark::State& state) {
    mqblk::XArray<Namespace> array;
    const auto all = make(state.range(0));
    for (const auto& one : all) benchmark::DoNotOptimize(array.insert(one->nsid, *one));
    const auto asked = questions(state.range(0));
    std::size_t i = 0;
    for (auto _ : state) {
        const mqblk::rcu::ReadLock lock;
        benchmark::DoNotOptimize(array.load(asked[i++ % asked.size()]));
    }
}
BENCHMARK(xarray_load)->Arg(1)->Arg(64)->Arg(4096);

void list_walk(benchmark::State& state) {
    std::list<const Namespace*> list;
    const auto all = make(state.range(0));
    for (const auto& one : all) list.push_back(one.get());
    const auto asked = questions(state.range(0));
    std::size_t i = 0;
    for (auto _ : state) {
        const std::uint32_t nsid = asked[i++ % asked.size()];
        for (const Namespace* one : list) {
            if (one->nsid == nsid) {
                benchmark::DoNotOptimize(one);
                break;
            }
        }
    }
}
BENCHMARK(list_walk)->Arg(1)->Arg(64)->Arg(4096);

}  // namespace

BENCHMARK_MAIN();
