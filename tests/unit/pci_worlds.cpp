// SPDX-License-Identifier: Apache-2.0
#include "unit/pci_worlds.h"

#include "pci/in_process.h"
#include "pci/vfio_user_client.h"
#include "pci/vfio_user_server.h"
#include "reactor/simulated.h"
#include "unit/reactor_support.h"

#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <optional>
#include <thread>

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
    bool checks_addresses() const override { return !options_.reaches_everything; }

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
    explicit VfioUserWorld(bool map_areas) : directory_(make_directory()), path_(directory_ + "/device") {
        server_reactor_ = uring_reactor();
        auto model = std::make_unique<CopyDevice>();
        model_ = model.get();
        auto server = pci::VfioUserServer::listen(*server_reactor_, path_, std::move(model), {.map_areas = map_areas});
        if (!server) throw std::runtime_error(server.error().message());
        server_ = std::move(*server);
        thread_ = std::thread([this] {
            while (!stop_.load()) server_reactor_->run_once(Reactor::Sleep::yes);
            server_.reset();
        });
        auto function = pci::open_vfio_user(path_, {.answer_timeout = std::chrono::seconds(60)});
        if (!function) throw std::runtime_error(function.error().message());
        function_ = std::move(*function);
    }
    ~VfioUserWorld() override {
        function_.reset();
        stop_.store(true);
        server_reactor_->wake();
        thread_.join();
        std::filesystem::remove_all(directory_);
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
    void with_model(const std::function<void(CopyDevice&)>& task) override {
        std::promise<void> done;
        server_reactor_->post([&] {
            task(*model_);
            done.set_value();
        });
        done.get_future().wait();
    }

  private:
    static std::string make_directory() {
        std::string name = std::filesystem::temp_directory_path() / "mqblk-pci-XXXXXX";
        if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
        return name;
    }
    const std::string directory_, path_;
    std::unique_ptr<Reactor> server_reactor_;
    CopyDevice* model_ = nullptr;
    std::unique_ptr<pci::VfioUserServer> server_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
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
     }},
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
    {"vfio_user", []() -> std::unique_ptr<PciWorld> { return std::make_unique<VfioUserWorld>(false); }},
    {"vfio_user_mapped", []() -> std::unique_ptr<PciWorld> { return std::make_unique<VfioUserWorld>(true); }},
};

}  // namespace mqblk::test
