// SPDX-License-Identifier: Apache-2.0
#include "pci/run_aside.h"

#include "reactor/reactor.h"

#include <thread>

namespace mqblk::pci {

Task<Result<>> run_aside(Reactor& reactor, std::function<Result<>()> work) {
    Promise<bool> done;
    Result<> result;
    std::thread thread([&] {
        result = work();
        reactor.post([&done] { done.set(true); });
    });
    co_await done;
    thread.join();
    co_return result;
}

}  // namespace mqblk::pci
