// SPDX-License-Identifier: Apache-2.0
#include "driver/megaraid/generation.h"

#include <fmt/format.h>

namespace mqblk::driver::megaraid {

using namespace wire::megaraid;

Result<Generation> find_generation(const std::string& name, std::uint16_t vendor, std::uint16_t device) {
    const Generation generation = vendor == pci_vendor_id ? generation_of(device) : Generation::unknown;
    if (generation != Generation::unknown) return generation;
    if (vendor == pci_vendor_id && is_later_generation(device)) {
        return fail(
            Errc::not_supported,
            fmt::format("{} is {:04x}:{:04x}, a MegaRAID controller of a later generation (Ventura, Aero), which "
                        "this driver does not know; leave it to Linux's megaraid_sas and open its disks as "
                        "file:///dev/sdX",
                        name, vendor, device));
    }
    return fail(
        Errc::not_supported,
        fmt::format("{} is {:04x}:{:04x}, which is no MegaRAID controller that this driver knows (1000: 0060, 007c, "
                    "0078, 0079, 0071, 0073; 005b, 002f; 005d, 005f, 00ce, 00cf, 0052, 0053); name another one, "
                    "as `lspci -nn -d 1000:` lists them",
                    name, vendor, device));
}

const char* to_string(Generation generation) noexcept {
    switch (generation) {
        case Generation::sas1078:
            return "sas1078";
        case Generation::gen2:
            return "gen2";
        case Generation::skinny:
            return "skinny";
        case Generation::thunderbolt:
            return "thunderbolt";
        case Generation::invader:
            return "invader";
        case Generation::unknown:
            break;
    }
    return "unknown";
}

}  // namespace mqblk::driver::megaraid
