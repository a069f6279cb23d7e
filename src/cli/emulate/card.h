// SPDX-License-Identifier: Apache-2.0
//
// The cards that `mqblk emulate` knows: each declares its options, makes its model from devices, and says what it made.
#pragma once

#include "cli/session.h"
#include "pci/model.h"

#include <mqblk/error.h>

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string>
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
};

[[nodiscard]] std::unique_ptr<EmulatedCard> make_skd_card();
[[nodiscard]] std::unique_ptr<EmulatedCard> make_megaraid_card();

}  // namespace mqblk::cli
