// SPDX-License-Identifier: Apache-2.0
#include "pci/vfio_device.h"

#include "pci/vfio.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/vfio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <string_view>
#include <vector>

namespace mqblk::pci {

namespace {

/// "0000:01:00.0"; functions are 0 to 7.
bool is_pci_address(std::string_view text) noexcept {
    constexpr std::string_view pattern = "xxxx:xx:xx.f";
    return std::ranges::equal(text, pattern, [](char c, char p) {
        if (p == 'f') return c >= '0' && c <= '7';
        return p == 'x' ? std::isxdigit(static_cast<unsigned char>(c)) != 0 : c == p;
    });
}

/// The last part of what a link names; empty if there is no such link.
std::string link_name(const std::string& path) {
    char target[PATH_MAX];
    const auto length = ::readlink(path.c_str(), target, sizeof target);
    if (length <= 0) return {};
    const std::string_view text(target, static_cast<std::size_t>(length));
    return std::string(text.substr(text.rfind('/') + 1));
}

/// The card's directory in sysfs.
Result<std::string> find_card(const std::string& address, const std::string& root) {
    if (!is_pci_address(address)) {
        return fail(Errc::invalid_argument, fmt::format("PCI address {}: must be written as 0000:01:00.0, the function "
                                                        "from 0 to 7 (lspci -D shows it)",
                                                        address));
    }
    std::string place = root + "/sys/bus/pci/devices/" + address;
    if (::access(place.c_str(), F_OK) != 0)
        return fail(Errc::not_found, fmt::format("no PCI card at {}: lspci -D lists those that are there", address));
    return place;
}

/// "0x1b39", of a file in sysfs.
std::uint16_t read_hex(const std::string& path) {
    std::ifstream file(path);
    unsigned value = 0xffff;
    file >> std::hex >> value;
    return static_cast<std::uint16_t>(value);
}

/// The number of the card's IOMMU group.
Result<std::string> find_group(const std::string& address, const std::string& root) {
    const auto found = find_card(address, root);
    if (!found) return found;
    const std::string& place = *found;
    std::string group = link_name(place + "/iommu_group");
    if (group.empty()) {
        return fail(Errc::not_supported,
                    fmt::format("PCI card {} is behind no IOMMU: turn on VT-d or AMD-Vi in the firmware and boot Linux "
                                "with intel_iommu=on",
                                address));
    }
    if (const std::string driver = link_name(place + "/driver"); driver != "vfio-pci") {
        return fail(Errc::not_supported,
                    fmt::format("PCI card {} is bound to {}, not to vfio-pci: run `modprobe vfio-pci` and `driverctl "
                                "set-override {} vfio-pci` as root",
                                address, driver.empty() ? "no driver" : driver, address));
    }
    return group;
}

Result<OwnedFd> open_node(const std::string& address, const std::string& path) {
    OwnedFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (fd) return fd;
    const int problem = errno;
    const std::string what = fmt::format("open {} for PCI card {}", path, address);
    switch (problem) {
        case EACCES:
        case EPERM:
            return fail(Errc::permission_denied,
                        fmt::format("{}: no permission: run `chown $USER {}` as root, once", what, path));
        case EBUSY:
            return fail(Errc::already_exists, fmt::format("{}: another process uses the card", what));
        case ENOENT:
        case ENODEV:
            return fail(Errc::not_supported, fmt::format("{}: VFIO is not loaded: run `modprobe vfio-pci`", what));
        default:
            return std::unexpected(Error::from_errno(problem, what));
    }
}

std::unexpected<Error> refused(const std::string& address, const char* what) {
    return std::unexpected(Error::from_errno(errno, fmt::format("PCI card {}: {}", address, what)));
}

/// What the IOMMU translates, where Linux says it: the part of the usual ranges that lies within one of its own.
void fit_addresses(int container, DmaSpace::Options& addresses) {
    std::vector<std::byte> space(4096);
    auto* info = reinterpret_cast<vfio_iommu_type1_info*>(space.data());
    info->argsz = static_cast<std::uint32_t>(space.size());
    if (::ioctl(container, VFIO_IOMMU_GET_INFO, info) != 0 || info->argsz > space.size()) return;
    if ((info->flags & VFIO_IOMMU_INFO_CAPS) == 0) return;
    const auto fit = [](std::uint64_t& start, std::uint64_t& end, const vfio_iova_range& range) {
        const std::uint64_t from = std::max<std::uint64_t>(start, range.start);
        const std::uint64_t to = range.end < end ? range.end + 1 : end;
        if (from >= to) return false;
        start = from;
        end = to;
        return true;
    };
    for (std::uint32_t at = info->cap_offset; at != 0 && at + sizeof(vfio_info_cap_header) <= space.size();) {
        vfio_info_cap_header header{};
        std::memcpy(&header, space.data() + at, sizeof header);
        if (header.id == VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE) {
            vfio_iommu_type1_info_cap_iova_range list{};
            std::memcpy(&list, space.data() + at, sizeof list);
            bool low = false, high = false;
            for (std::uint32_t i = 0; i < list.nr_iovas; ++i) {
                vfio_iova_range range{};
                const std::size_t place = at + sizeof list + i * sizeof range;
                if (place + sizeof range > space.size()) break;
                std::memcpy(&range, space.data() + place, sizeof range);
                low = low || fit(addresses.low_start, addresses.low_end, range);
                high = high || fit(addresses.high_start, addresses.high_end, range);
            }
            if (!high) {  // a small IOMMU: everything is low
                addresses.high_start = addresses.low_start;
                addresses.high_end = addresses.low_end;
            }
            return;
        }
        at = header.next;
    }
}

}  // namespace

Result<FunctionId> read_vfio_id(const std::string& address, const std::string& root) {
    const auto place = find_card(address, root);
    if (!place) return std::unexpected(place.error());
    return FunctionId{.vendor = read_hex(*place + "/vendor"), .device = read_hex(*place + "/device")};
}

Result<VfioDevice> open_vfio_device(const std::string& address, const std::string& root) {
    const auto number = find_group(address, root);
    if (!number) return std::unexpected(number.error());
    VfioDevice result;
    auto container = open_node(address, root + "/dev/vfio/vfio");
    if (!container) return std::unexpected(container.error());
    result.container = std::move(*container);
    if (::ioctl(result.container.get(), VFIO_GET_API_VERSION) != VFIO_API_VERSION ||
        ::ioctl(result.container.get(), VFIO_CHECK_EXTENSION, VFIO_TYPE1v2_IOMMU) != 1) {
        return fail(Errc::not_supported,
                    fmt::format("PCI card {}: this kernel's VFIO has no type 1 IOMMU: run `modprobe vfio_iommu_type1`",
                                address));
    }
    auto group = open_node(address, root + "/dev/vfio/" + *number);
    if (!group) return std::unexpected(group.error());
    result.group = std::move(*group);
    vfio_group_status status{};
    status.argsz = sizeof status;
    if (::ioctl(result.group.get(), VFIO_GROUP_GET_STATUS, &status) != 0) return refused(address, "ask for its group");
    if ((status.flags & VFIO_GROUP_FLAGS_VIABLE) == 0) {
        return fail(Errc::not_supported,
                    fmt::format("PCI card {} shares IOMMU group {} with others that are in use: bind all of "
                                "/sys/kernel/iommu_groups/{}/devices to vfio-pci",
                                address, *number, *number));
    }
    int container_fd = result.container.get();
    if (::ioctl(result.group.get(), VFIO_GROUP_SET_CONTAINER, &container_fd) != 0) {
        return refused(address, "give its group an address space");
    }
    if (::ioctl(container_fd, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU) != 0) return refused(address, "set up its IOMMU");
    fit_addresses(container_fd, result.addresses);
    result.device = OwnedFd(::ioctl(result.group.get(), VFIO_GROUP_GET_DEVICE_FD, address.c_str()));
    if (!result.device) return refused(address, "open it");
    return result;
}

}  // namespace mqblk::pci
