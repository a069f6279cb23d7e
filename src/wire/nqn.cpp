// SPDX-License-Identifier: Apache-2.0
#include "wire/nqn.h"

#include "wire/nvme_fabrics.h"

#include <fmt/format.h>

namespace mqblk::wire::nvme {

Result<> check_nqn(std::string_view what, std::string_view nqn) {
    if (nqn.empty() || nqn.size() > nqn_max_chars) {
        return fail(Errc::invalid_argument,
                    fmt::format("{} has {} characters; an NQN has 1 to {}", what, nqn.size(), nqn_max_chars));
    }
    for (const char c : nqn) {
        if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7f) {
            return fail(Errc::invalid_argument,
                        fmt::format("{} '{}' has a space or control character in it", what, nqn));
        }
    }
    if (!nqn.starts_with("nqn.")) {
        return fail(Errc::invalid_argument,
                    fmt::format("{} '{}' does not begin with 'nqn.', as in nqn.2026-01.io.example:disk", what, nqn));
    }
    return {};
}

}  // namespace mqblk::wire::nvme
