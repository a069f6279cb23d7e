// SPDX-License-Identifier: Apache-2.0
//
// Addresses as people write them: HOST, HOST:PORT, [IPV6]:PORT or a bare IPv6 address.
#include "fabric/connection.h"

#include <fmt/format.h>

#include <charconv>

namespace mqblk::fabric {

std::string Address::to_string() const {
    const bool v6 = host.find(':') != std::string::npos;
    return fmt::format("{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

Result<Address> Address::parse(std::string_view text, std::uint16_t default_port) {
    const auto malformed = [&](std::string_view why) {
        return fail(Errc::invalid_argument,
                    fmt::format("address '{}': {}; write HOST, HOST:PORT or [IPV6]:PORT", text, why));
    };
    std::string_view host = text, port;
    bool has_port = false;
    if (text.starts_with('[')) {
        const auto end = text.find(']');
        if (end == std::string_view::npos) return malformed("']' is missing");
        host = text.substr(1, end - 1);
        const std::string_view rest = text.substr(end + 1);
        if (!rest.empty() && !rest.starts_with(':')) return malformed("only ':PORT' may follow ']'");
        has_port = !rest.empty();
        if (has_port) port = rest.substr(1);
    } else if (const auto colon = text.find(':'); colon != std::string_view::npos && text.rfind(':') == colon) {
        host = text.substr(0, colon);
        port = text.substr(colon + 1);
        has_port = true;
    }  // more than one colon: an IPv6 address without brackets, and no port
    if (host.empty()) return malformed("the host is missing");

    Address address{std::string(host), default_port};
    if (has_port) {
        const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
        if (error != std::errc() || end != port.data() + port.size()) {
            return malformed(fmt::format("port '{}' is not a number from 0 to 65535", port));
        }
    }
    return address;
}

}  // namespace mqblk::fabric
