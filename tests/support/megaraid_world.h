// SPDX-License-Identifier: Apache-2.0
//
// A MegaRAID model over memory disks in a thread of its own, and the driver on it.
#pragma once

#include "base/steady_clock.h"
#include "device/megaraid/controller.h"
#include "driver/megaraid/megaraid.h"
#include "driver/ram/ram.h"
#include "pci/in_process.h"
#include "pci/model.h"
#include "registry/reactor_thread.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mqblk::test {

struct MegaraidWorldOptions {
    unsigned jbods = 2;
    std::vector<std::string> volumes{};  ///< shapes: "6x8"
    std::uint64_t disk_bytes = 8u << 20;
    unsigned block_bytes = 512;
    device::megaraid::Options model{};
    driver::megaraid::Options driver{};
    pci::InProcessOptions function{};
    std::function<std::shared_ptr<Device>(std::size_t)> make_disk{};  ///< instead of memory
    /// What the function says of itself instead.
    std::function<void(pci::FunctionSpec&)> change_spec{};
    /// Another in front of it.
    std::function<std::unique_ptr<pci::Model>(std::unique_ptr<pci::Model>)> wrap{};
};

/// A model that says other things of itself.
class OtherSpec : public pci::Model {
  public:
    OtherSpec(std::unique_ptr<pci::Model> model, pci::FunctionSpec spec)
        : model_(std::move(model)), spec_(std::move(spec)) {}
    const pci::FunctionSpec& spec() const noexcept override { return spec_; }
    Result<> attach(pci::Host& host) override { return model_->attach(host); }
    std::uint64_t bar_read(unsigned bar, std::uint64_t offset, unsigned bytes) noexcept override {
        return model_->bar_read(bar, offset, bytes);
    }
    void bar_write(unsigned bar, std::uint64_t offset, unsigned bytes, std::uint64_t value) noexcept override {
        model_->bar_write(bar, offset, bytes, value);
    }
    void reset() noexcept override { model_->reset(); }
    bool quiet() const noexcept override { return model_->quiet(); }
    void memory_changed() noexcept override { model_->memory_changed(); }
    void interrupts_changed() noexcept override { model_->interrupts_changed(); }

  private:
    std::unique_ptr<pci::Model> model_;
    pci::FunctionSpec spec_;
};

class MegaraidWorld {
  public:
    explicit MegaraidWorld(MegaraidWorldOptions options = {}) : options_(std::move(options)) {
        thread_ = need(registry::ReactorThread::start(clock(), {.name = "megaraid"}));
        for (std::size_t i = 0; i < options_.jbods; ++i) disks_.push_back(make_disk(i));
        for (std::size_t i = 0; i < options_.volumes.size(); ++i) {
            auto spec = need(device::megaraid::parse_volume_shape(options_.volumes[i]));
            spec.device = make_disk(options_.jbods + i);
            volumes_.push_back(std::move(spec));
        }
    }
    ~MegaraidWorld() {
        adapter.reset();
        thread_.reset();
    }
    MegaraidWorld(const MegaraidWorld&) = delete;
    MegaraidWorld& operator=(const MegaraidWorld&) = delete;

    /// The driver's, or its error.
    Result<> start() {
        std::unique_ptr<pci::Function> function;
        Result<> made;
        thread_->run([&] {
            auto created = device::megaraid::Controller::create(disks_, volumes_, options_.model);
            if (!created) {
                made = std::unexpected(created.error());
                return;
            }
            model_ = created->get();
            std::unique_ptr<pci::Model> model = std::move(*created);
            if (options_.change_spec) {
                pci::FunctionSpec spec = model->spec();
                options_.change_spec(spec);
                model = std::make_unique<OtherSpec>(std::move(model), std::move(spec));
            }
            if (options_.wrap) model = options_.wrap(std::move(model));
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
    [[nodiscard]] Result<std::shared_ptr<Device>> disk(unsigned id) {
        return adapter->device(driver::megaraid::Kind::disk, id);
    }
    [[nodiscard]] Result<std::shared_ptr<Device>> volume(unsigned id) {
        return adapter->device(driver::megaraid::Kind::volume, id);
    }
    /// On the model's thread; while the adapter is open.
    void on_model(const std::function<void(device::megaraid::Controller&)>& work) {
        thread_->run([&] { work(*model_); });
    }
    void inject(const device::megaraid::Fault& fault) {
        on_model([&](device::megaraid::Controller& model) { model.inject(fault); });
    }
    [[nodiscard]] device::megaraid::Controller::Counters model_counters() {
        device::megaraid::Controller::Counters counters;
        on_model([&](device::megaraid::Controller& model) { counters = model.counters(); });
        return counters;
    }
    [[nodiscard]] const std::vector<std::shared_ptr<Device>>& disks() const noexcept { return disks_; }

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
    std::shared_ptr<Device> make_disk(std::size_t index) {
        if (options_.make_disk) return options_.make_disk(index);
        driver::ram::Options ram;
        ram.bytes = options_.disk_bytes;
        ram.disk.block = options_.block_bytes;
        return need(driver::ram::open(ram));
    }

    MegaraidWorldOptions options_;
    std::shared_ptr<registry::ReactorThread> thread_;
    std::vector<std::shared_ptr<Device>> disks_;
    std::vector<device::megaraid::VolumeSpec> volumes_;
    device::megaraid::Controller* model_ = nullptr;
};

}  // namespace mqblk::test
