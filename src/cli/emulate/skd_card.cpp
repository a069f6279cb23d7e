// SPDX-License-Identifier: Apache-2.0
//
// emulate skd: an S1120 with one device as its flash.
#include "cli/emulate/card.h"
#include "cli/emulate/fault_help.h"
#include "cli/numbers.h"
#include "device/skd/card.h"
#include "registry/uri.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <array>
#include <filesystem>

namespace mqblk::cli {

namespace {

constexpr std::array<std::string_view, 1> skd_commands{"fault"};

class SkdCard final : public EmulatedCard {
  public:
    std::string name() const override { return "skd"; }
    CLI::App* declare(CLI::App& parent) override {
        auto* skd = parent.add_subcommand(name(), "The sTec S1120 PCIe SSD, for Linux's skd driver and mqblk's own");
        skd->add_option("DISK-URI", disk_, "The device that is its flash; blocks of 512 bytes")->required();
        skd->add_option("--profile", profile_,
                        "Timing: none, as fast as it goes, or s1120, the published figures:\n"
                        "reads 88 us, writes 26 us of 512 B at depth 1; 103K/81K/15.7K reads and 62K/69K/13.9K writes\n"
                        "per second of 512 B/4 KiB/64 KiB")
            ->capture_default_str();
        skd->add_option("--serial", serial_, "Serial number, 1 to 12 printable ASCII characters [the disk's own]")
            ->check([](const std::string& text) { return text.empty() ? "must not be empty" : ""; });
        skd->add_option("--fault", faults_, "What goes wrong, as below; may be repeated")->allow_extra_args(false);
        skd->footer(explain_faults("SCSI command COMMAND since the card's start",
                                   "With lba or blocks (blocks: 1 if lba is given, all if not)\n"
                                   "only reads and writes that touch these blocks meet it.",
                                   device::skd::fault_help()));
        return skd;
    }

    Result<std::unique_ptr<pci::Model>> make(Session& session) override {
        device::skd::Options options{.serial = serial_, .boot_time = {}, .reset_time = {}, .faults = {}};
        const auto profile = device::skd::parse_profile(profile_);
        if (!profile) return std::unexpected(profile.error().in("--profile"));
        options.profile = *profile;
        if (auto fits = device::skd::check_serial(serial_); !fits) return std::unexpected(fits.error().in("--serial"));
        for (const std::string& text : faults_) {
            const auto fault = device::skd::parse_fault(text);
            if (!fault) return std::unexpected(fault.error().in("--fault"));
            options.faults.push_back(*fault);
        }
        auto disk = session.context().open(disk_);
        if (!disk) return std::unexpected(disk.error());
        bytes_ = (*disk)->sectors() * sector_bytes;
        auto card = device::skd::Card::create(std::move(*disk), std::move(options));
        if (!card) return std::unexpected(card.error());
        model_ = card->get();
        return std::move(*card);
    }
    std::span<const std::string_view> commands() const override { return skd_commands; }
    Result<nlohmann::ordered_json> control(std::string_view, registry::RequestReader& request, Session&,
                                           registry::ReactorThread& thread) override {
        const std::string text = request.required_text("fault");
        if (auto ok = request.finish(); !ok) return std::unexpected(ok.error());
        const auto fault = device::skd::parse_fault(text);
        if (!fault) return std::unexpected(fault.error());
        thread.run([&] { model_->inject(*fault); });
        return nlohmann::ordered_json::object();
    }

    std::vector<std::string> describe() const override {
        return {fmt::format("S1120 with {}, {}", disk_, binary_bytes(bytes_))};
    }
    std::string uri(const std::string& socket) const override {
        registry::Uri uri;
        uri.scheme = "skd+vfio-user";
        uri.path = std::filesystem::absolute(socket).lexically_normal().string();
        return uri.to_string();
    }
    void report(nlohmann::ordered_json& to) const override {
        to["device"] = disk_;
        to["bytes"] = bytes_;
        to["profile"] = profile_;
    }

  private:
    std::string disk_, profile_ = "none", serial_;
    std::vector<std::string> faults_;
    std::uint64_t bytes_ = 0;
    device::skd::Card* model_ = nullptr;  ///< its server's
};

}  // namespace

std::unique_ptr<EmulatedCard> make_skd_card() {
    return std::make_unique<SkdCard>();
}

}  // namespace mqblk::cli
