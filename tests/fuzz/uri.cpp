// SPDX-License-Identifier: Apache-2.0
//
// Any text is either refused with one sentence or parsed to a URI that prints and parses to itself.
#include "registry/uri.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using mqblk::registry::Uri;
    const auto uri = Uri::parse(std::string_view(reinterpret_cast<const char*>(data), size));
    if (!uri) {
        if (uri.error().message().empty()) std::abort();
        return 0;
    }
    const auto text = uri->to_string();
    // Encoding may lengthen a text beyond what parse takes.
    if (text.size() > Uri::max_length) return 0;
    const auto again = Uri::parse(text);
    if (!again || again->to_string() != text) std::abort();
    return 0;
}
