// SPDX-License-Identifier: Apache-2.0
#include "cli/names.h"

#include "registry/uri.h"

#include <fmt/format.h>

namespace mqblk::cli {

NamedUri split_name(const std::string& text, const std::string& standard) {
    const auto equals = text.find('=');
    // A "=" behind "://" belongs to the URI's options.
    if (equals == std::string::npos || equals == 0 || text.find("://") < equals) return {standard, text};
    const auto name = text.substr(0, equals);
    return {name.starts_with("nqn.") ? name : fmt::format("nqn.2026-01.io.mqblk:{}", name), text.substr(equals + 1)};
}

std::string namespace_uri(const fabric::Address& address, const std::string& nqn, std::uint32_t nsid) {
    registry::Uri uri;
    uri.scheme = "nvme+tcp";
    uri.address = address.to_string();
    uri.path = fmt::format("/{}/{}", nqn, nsid);
    return uri.to_string();
}

}  // namespace mqblk::cli
