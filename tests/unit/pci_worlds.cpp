// SPDX-License-Identifier: Apache-2.0
#include "unit/pci_worlds.h"

#include "pci/in_process.h"
#include "pci/vfio_user_client.h"
#include "reactor/simulated.h"
#include "unit/pci_served.h"
#include "unit/reactor_support.h"

#include <optional>

namespace mqblk::test {

Result<> PciWorld::reset() {
    std::optional<Result<>> result;
    spawn(function().reset(reactor()), [&result](Result<> r) { result = std::move(r); });
    if (!run_until([&] { return result.has_value(); })) return fail(Errc::timed_out, "the test waited too long");
    return *result;
}

namespace {

class InProcessWorld : public PciWorld {
  public:
    InProcessWorld(std::unique_ptr<Reactor> reactor, pci::InProcessOptions options)
        : reactor_(std::move(reactor)), options_(options) {
        auto model = std::make_unique<CopyDevice>();
        model_ = model.get();
        auto made = pci::make_in_process(std::move(model), *reactor_, options);
        if (!made) throw std::runtime_error(made.error().message());
        function_ = std::move(*made);
    }
    pci::Function& function() override { return *function_; }
    Reactor& reactor() override { return *reactor_; }
    bool run_until(const std::function<bool()>& done) override { return test::run_until(*reactor_, done); }
    void with_model(const std::function<void(CopyDevice&)>& task) override { task(*model_); }

  private:
    std::unique_ptr<Reactor> reactor_;
    const pci::InProcessOptions options_;
    CopyDevice* model_ = nullptr;
    std::unique_ptr<pci::Function> function_;
};

struct SimulatedBase {
    SimulatedWorld world{1};
};
class SimulatedPciWorld final : SimulatedBase, public InProcessWorld {
  public:
    SimulatedPciWorld() : InProcessWorld(world.make_reactor(), {.reaches_everything = false}) {}
    bool run_until(const std::function<bool()>& done) override {
        return world.run_until(done, std::chrono::seconds(60)) || done();
    }
};

/// The model in a thread of its own behind a socket.
class VfioUserWorld final : public PciWorld {
  public:
    VfioUserWorld(bool map_areas, bool posted_writes) : served_(map_areas) {
        auto function = pci::open_vfio_user(
            served_.path(), {.answer_timeout = std::chrono::seconds(60), .posted_writes = posted_writes});
        if (!function) throw std::runtime_error(function.error().message());
        function_ = std::move(*function);
    }
    pci::Function& function() override { return *function_; }
    Reactor& reactor() override { return *reactor_; }
    bool run_until(const std::function<bool()>& done) override {
        const Time limit = reactor_->now() + std::chrono::seconds(60);
        while (!done()) {
            if (reactor_->now() >= limit) return false;
            reactor_->run_once(Reactor::Sleep::yes, reactor_->now() + std::chrono::milliseconds(1));
        }
        return true;
    }
    void with_model(const std::function<void(CopyDevice&)>& task) override { served_.with_model(task); }

  private:
    ServedDevice served_;
    std::unique_ptr<Reactor> reactor_ = uring_reactor();
    std::unique_ptr<pci::Function> function_;
};

}  // namespace

std::string name_of(const testing::TestParamInfo<PciWay>& info) {
    return info.param.name;
}

const std::vector<PciWay> pci_ways{
    {"in_process",
     []() -> std::unique_ptr<PciWorld> {
         return std::make_unique<InProcessWorld>(uring_reactor(), pci::InProcessOptions{});
     },
     false},
    {"in_process_checked",
     []() -> std::unique_ptr<PciWorld> {
         return std::make_unique<InProcessWorld>(uring_reactor(), pci::InProcessOptions{.reaches_everything = false});
     }},
    {"in_process_mapped",
     []() -> std::unique_ptr<PciWorld> {
         return std::make_unique<InProcessWorld>(uring_reactor(),
                                                 pci::InProcessOptions{.reaches_everything = false, .map_areas = true});
     }},
    {"simulated", []() -> std::unique_ptr<PciWorld> { return std::make_unique<SimulatedPciWorld>(); }},
    {"vfio_user", []() -> std::unique_ptr<PciWorld> { return std::make_unique<VfioUserWorld>(false, false); }},
    {"vfio_user_posted", []() -> std::unique_ptr<PciWorld> { return std::make_unique<VfioUserWorld>(false, true); }},
    {"vfio_user_mapped", []() -> std::unique_ptr<PciWorld> { return std::make_unique<VfioUserWorld>(true, true); }},
};

}  // namespace mqblk::test
