// SPDX-License-Identifier: Apache-2.0
//
// A scripted MFI controller (mfi_adapter.h) in a thread of its own, and the driver on it.
#pragma once

#include "base/steady_clock.h"
#include "driver/megaraid/megaraid.h"
#include "driver/ram/ram.h"
#include "pci/in_process.h"
#include "registry/reactor_thread.h"
#include "support/mfi_adapter.h"

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mqblk::test {

struct MfiWorldOptions {
    unsigned volumes = 2, disks = 0;
    std::uint64_t disk_bytes = 4u << 20;
    unsigned block_bytes = 512;
    MfiAdapterOptions adapter{};
    driver::megaraid::Options driver{};
    pci::InProcessOptions function{.reaches_everything = false};
};

class MfiWorld {
  public:
    explicit MfiWorld(MfiWorldOptions options = {}) : options_(std::move(options)) {
        thread_ = need(registry::ReactorThread::start(clock(), {.name = "mfi"}));
        for (unsigned i = 0; i < options_.volumes; ++i) options_.adapter.volumes.push_back(make_disk());
        for (unsigned i = 0; i < options_.disks; ++i) options_.adapter.disks.push_back(make_disk());
    }
    ~MfiWorld() {
        adapter.reset();
        thread_.reset();
    }
    MfiWorld(const MfiWorld&) = delete;
    MfiWorld& operator=(const MfiWorld&) = delete;

    /// The driver's, or its error.
    Result<> start() {
        std::unique_ptr<pci::Function> function;
        Result<> made;
        thread_->run([&] {
            auto model = std::make_unique<MfiAdapter>(options_.adapter);
            model_ = model.get();
            auto in_process = pci::make_in_process(std::move(model), thread_->reactor(), options_.function);
            if (in_process) {
                function = std::move(*in_process);
            } else {
                made = std::unexpected(in_process.error());
            }
        });
        if (!made) return made;
        auto opened = driver::megaraid::Adapter::open(
            std::move(function), driver::megaraid::threaded_control(thread_->reactor(), thread_), options_.driver);
        if (!opened) return std::unexpected(opened.error());
        adapter = std::move(*opened);
        return {};
    }
    [[nodiscard]] Result<std::shared_ptr<Device>> volume(unsigned id) {
        return adapter->device(driver::megaraid::Kind::volume, id);
    }
    [[nodiscard]] Result<std::shared_ptr<Device>> disk(unsigned id) {
        return adapter->device(driver::megaraid::Kind::disk, id);
    }
    /// On the model's thread; while the adapter is open.
    void on_model(const std::function<void(MfiAdapter&)>& work) {
        thread_->run([&] { work(*model_); });
    }
    void inject(MfiFault fault, std::uint8_t value = 0, unsigned count = 1, unsigned skip = 0) {
        on_model([&](MfiAdapter& model) { model.inject(fault, value, count, skip); });
    }
    [[nodiscard]] MfiAdapter::Counters counters() {
        MfiAdapter::Counters counters;
        on_model([&](MfiAdapter& model) { counters = model.counters(); });
        return counters;
    }
    [[nodiscard]] std::string complaint() {
        std::string complaint;
        on_model([&](MfiAdapter& model) { complaint = model.complaint(); });
        return complaint;
    }
    [[nodiscard]] std::shared_ptr<Device> make_disk() const {
        driver::ram::Options ram;
        ram.bytes = options_.disk_bytes;
        ram.disk.block = options_.block_bytes;
        return need(driver::ram::open(ram));
    }

    template <class T>
    static T need(Result<T> result) {
        if (!result) throw std::runtime_error(result.error().message());
        return std::move(*result);
    }

    std::shared_ptr<driver::megaraid::Adapter> adapter;

  private:
    static const Clock& clock() {
        static const SteadyClock instance;
        return instance;
    }

    MfiWorldOptions options_;
    std::shared_ptr<registry::ReactorThread> thread_;
    MfiAdapter* model_ = nullptr;
};

}  // namespace mqblk::test
