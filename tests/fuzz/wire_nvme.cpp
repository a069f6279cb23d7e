// SPDX-License-Identifier: Apache-2.0
//
// The decoders of NVMe structures that come from a peer: descriptor lists, name fields, text fields. None may read
// outside its input.
#include "wire/nvme_fabrics.h"
#include "wire/nvme_identify.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    namespace wire = mqblk::wire::nvme;
    const std::vector<std::uint8_t> page(bytes, bytes + size);  // its own allocation: the sanitizer sees its end
    static_cast<void>(wire::for_each_descriptor(page, [&](std::uint8_t, std::span<const std::uint8_t> id) {
        if (id.data() < page.data() || id.data() + id.size() > page.data() + page.size()) std::abort();
    }));
    std::array<char, wire::nqn_field_bytes> field{};
    if (size > 0) std::memcpy(field.data(), bytes, std::min(size, field.size()));
    if (const auto nqn = wire::nqn_of(field)) {
        if (nqn->empty() || nqn->size() > wire::nqn_max_chars) std::abort();
    }
    if (wire::text_of(field).size() > field.size()) std::abort();
    return 0;
}
