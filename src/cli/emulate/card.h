// SPDX-License-Identifier: Apache-2.0
//
// The cards that `mqblk emulate` knows: each declares its options, makes its model from devices, says what it made, and
// carries out what `mqblk ctl` asks of it while it works.
#pragma once

#include "cli/session.h"
#include "pci/model.h"
#include "registry/control_request.h"
#include "registry/reactor_thread.h"

#include <mqblk/error.h>

#include <nlohmann/json.hpp>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace mqblk::cli {

class EmulatedCard {
  public:
    virtual ~EmulatedCard() = default;
    [[nodiscard]] virtual std::string name() const = 0;  ///< of its subcommand
    /// Adds its subcommand, whose options write into this object.
    virtual CLI::App* declare(CLI::App& parent) = 0;
    [[nodiscard]] virtual Result<std::unique_ptr<pci::Model>> make(Session& session) = 0;

    // After make().
    /// What it is: the first line is followed by where to find it.
    [[nodiscard]] virtual std::vector<std::string> describe() const = 0;
    virtual void report(nlohmann::ordered_json& to) const = 0;
    /// What a driver in another process opens; empty where mqblk has none for this card.
    [[nodiscard]] virtual std::string uri(const std::string& socket) const = 0;
    /// The commands of `mqblk ctl` that it knows.
    [[nodiscard]] virtual std::span<const std::string_view> commands() const = 0;
    /// Carries out one of them. On the main thread, while the model works in `thread`.
    [[nodiscard]] virtual Result<nlohmann::ordered_json> control(std::string_view command,
                                                                 registry::RequestReader& request, Session& session,
                                                                 registry::ReactorThread& thread) = 0;
};

[[nodiscard]] std::unique_ptr<EmulatedCard> make_skd_card();
[[nodiscard]] std::unique_ptr<EmulatedCard> make_megaraid_card();

}  // namespace mqblk::cli
