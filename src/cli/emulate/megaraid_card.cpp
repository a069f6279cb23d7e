// SPDX-License-Identifier: Apache-2.0
//
// emulate megaraid: a controller with devices as disks of their own and as volumes, in the order of the command line.
#include "cli/emulate/card.h"
#include "cli/numbers.h"
#include "device/megaraid/controller.h"
#include "registry/uri.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cctype>
#include <filesystem>
#include <utility>

namespace mqblk::cli {

namespace {

namespace mr = device::megaraid;

class MegaraidCard final : public EmulatedCard {
  public:
    std::string name() const override { return "megaraid"; }
    std::string uri(const std::string& socket) const override {
        if (disks_.empty() && volumes_.empty()) return {};
        registry::Uri uri;
        uri.scheme = "megaraid+vfio-user";
        uri.path = std::filesystem::absolute(socket).lexically_normal().string() + (disks_.empty() ? "/ld/0" : "/pd/0");
        return uri.to_string();
    }
    CLI::App* declare(CLI::App& parent) override {
        auto* card = parent.add_subcommand(name(), "A MegaRAID SAS controller, for Linux's megaraid_sas driver");
        card->add_option("--jbod", jbods_, "A device as a disk of its own, may be repeated")->allow_extra_args(false);
        card->add_option("--ld", lds_,
                         "[LEVEL[xDISKS]=]URI: a device as a volume, told as RAID 0, 1, 5 or 6 of so many disks,\n"
                         "may be repeated [0x1=]")
            ->allow_extra_args(false);
        card->add_option("--generation", generation_, "thunderbolt (1000:005b) or invader (1000:005d)")
            ->check(CLI::IsMember({"thunderbolt", "invader"}))
            ->capture_default_str();
        card->add_option("--queues", options_.reply_queues, "Reply queues, each with an interrupt of its own")
            ->check(CLI::Range(1, 128))
            ->capture_default_str();
        card->add_option("--commands", options_.max_commands, "Commands that the firmware says it takes")
            ->check(CLI::Range(32, 1008))
            ->capture_default_str();
        card->add_flag("--no-fast-path", no_fast_path_, "Drivers may not go to disks by the RAID map");
        card->add_option(
                "--fault", faults_,
                "What goes wrong: KIND[@COMMAND[xCOUNT]][,KEY=VALUE]..., may be repeated; KIND is\n"
                "medium-error (pd, ld, lba, blocks), status (pd, ld, status, key, asc), io-failed (pd, ld, status),\n"
                "lost (pd, ld), late, twice (pd, ld, by), firmware-fault (for-good), pull (pd, for),\n"
                "slow-dcmd (opcode, by), refuse-dcmd (opcode, status), wrong-abort (response),\n"
                "fewer-commands (commands)")
            ->allow_extra_args(false);
        return card;
    }

    Result<std::unique_ptr<pci::Model>> make(Session& session) override {
        mr::Options options = options_;
        if (generation_ == "thunderbolt") options.device_id = wire::megaraid::pci_device::thunderbolt;
        options.fast_path = !no_fast_path_;
        for (const std::string& text : faults_) {
            const auto fault = mr::parse_fault(text);
            if (!fault) return std::unexpected(fault.error().in("--fault"));
            options.faults.push_back(*fault);
        }
        std::vector<std::shared_ptr<Device>> disks;
        for (const std::string& uri : jbods_) {
            auto disk = session.context().open(uri);
            if (!disk) return std::unexpected(disk.error());
            disks_.push_back({uri, (*disk)->sectors() * sector_bytes, {}});
            disks.push_back(std::move(*disk));
        }
        std::vector<mr::VolumeSpec> volumes;
        for (const std::string& text : lds_) {
            auto volume = open_volume(session, text);
            if (!volume) return std::unexpected(volume.error());
            volumes.push_back(std::move(*volume));
        }
        auto card = mr::Controller::create(std::move(disks), volumes, std::move(options));
        if (!card) return std::unexpected(card.error());
        return std::move(*card);
    }

    std::vector<std::string> describe() const override {
        std::vector<std::string> lines{fmt::format("MegaRAID {} with {} and {}", generation_,
                                                   counted(disks_.size(), "disk"), counted(volumes_.size(), "volume"))};
        for (std::size_t i = 0; i < disks_.size(); ++i)
            lines.push_back(fmt::format("  disk {}: {}, {}", i, disks_[i].uri, binary_bytes(disks_[i].bytes)));
        for (std::size_t i = 0; i < volumes_.size(); ++i) {
            lines.push_back(fmt::format("  volume {}: {}, {}, {}", i, volumes_[i].shape, volumes_[i].uri,
                                        binary_bytes(volumes_[i].bytes)));
        }
        return lines;
    }
    void report(nlohmann::ordered_json& to) const override {
        to["generation"] = generation_;
        auto disks = nlohmann::ordered_json::array();
        for (const Part& disk : disks_) disks.push_back({{"device", disk.uri}, {"bytes", disk.bytes}});
        auto volumes = nlohmann::ordered_json::array();
        for (const Part& volume : volumes_)
            volumes.push_back({{"raid", volume.shape}, {"device", volume.uri}, {"bytes", volume.bytes}});
        to["disks"] = std::move(disks);
        to["volumes"] = std::move(volumes);
    }

  private:
    struct Part {
        std::string uri;
        std::uint64_t bytes;
        std::string shape;  ///< of a volume
    };

    static std::string counted(std::size_t count, const char* what) {
        return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
    }

    Result<mr::VolumeSpec> open_volume(Session& session, const std::string& text) {
        std::string shape = "0x1", uri = text;
        if (!text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) != 0) {
            const std::size_t at = text.find('=');
            shape = text.substr(0, at);
            uri = at == std::string::npos ? std::string{} : text.substr(at + 1);
        }
        auto spec = mr::parse_volume_shape(shape);
        if (!spec) return std::unexpected(spec.error().in(fmt::format("--ld {}", text)));
        auto device = session.context().open(uri);
        if (!device) return std::unexpected(device.error());
        volumes_.push_back({uri, (*device)->sectors() * sector_bytes,
                            fmt::format("RAID {} of {}", spec->level, counted(spec->disks, "disk"))});
        spec->device = std::move(*device);
        return spec;
    }

    std::vector<std::string> jbods_, lds_, faults_;
    std::string generation_ = "invader";
    bool no_fast_path_ = false;
    mr::Options options_;
    std::vector<Part> disks_, volumes_;
};

}  // namespace

std::unique_ptr<EmulatedCard> make_megaraid_card() {
    return std::make_unique<MegaraidCard>();
}

}  // namespace mqblk::cli
