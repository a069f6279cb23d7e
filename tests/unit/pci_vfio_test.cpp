// SPDX-License-Identifier: Apache-2.0
//
// What opening a card says on machines that lack something, as a tree of files shows them.
#include "pci/vfio.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace mqblk::pci {
namespace {

namespace fs = std::filesystem;

class Vfio : public testing::Test {
  protected:
    Vfio() : root_(fs::temp_directory_path() / "mqblk-vfio-XXXXXX") {
        if (::mkdtemp(root_.data()) == nullptr) throw std::runtime_error("mkdtemp");
    }
    ~Vfio() override { fs::remove_all(root_); }

    void add_card() {
        fs::create_directories(card());
        fs::create_directories(root_ + "/sys/bus/pci/drivers/vfio-pci");
        fs::create_directories(root_ + "/sys/bus/pci/drivers/nvme");
        fs::create_directories(root_ + "/sys/kernel/iommu_groups/17");
    }
    void add_group() { fs::create_symlink("../../../../kernel/iommu_groups/17", card() + "/iommu_group"); }
    void bind_to(const std::string& driver) {
        fs::remove(card() + "/driver");
        fs::create_symlink("../../../../bus/pci/drivers/" + driver, card() + "/driver");
    }
    void add_node(const std::string& name) {
        fs::create_directories(root_ + "/dev/vfio");
        std::ofstream(root_ + "/dev/vfio/" + name) << "no device";
    }
    std::string card() const { return root_ + "/sys/bus/pci/devices/0000:01:00.0"; }
    Error error() const {
        auto opened = open_vfio("0000:01:00.0", root_);
        return opened ? Error(Errc::io, "it opened") : opened.error();
    }
    void expect(Errc code, const std::string& part) const {
        EXPECT_EQ(error().code(), code);
        EXPECT_NE(error().message().find(part), std::string::npos) << error().message();
        EXPECT_NE(error().message().find("0000:01:00.0"), std::string::npos) << error().message();
    }
    std::string root_;
};

TEST_F(Vfio, AddressesAreWrittenInFull) {
    for (const char* wrong : {"", "01:00.0", "0000:01:00", "0000:01:00.0x", "000g:01:00.0", "0000-01:00.0",
                              "../../../../0", "0000:01:00.00", "0000:01:00.8", "0000:00:1f.f"}) {
        const auto opened = open_vfio(wrong, root_);
        ASSERT_FALSE(opened);
        EXPECT_EQ(opened.error().code(), Errc::invalid_argument) << wrong;
    }
}

TEST_F(Vfio, SaysWhatIsMissing) {
    expect(Errc::not_found, "no PCI card at 0000:01:00.0");
    add_card();
    expect(Errc::not_supported, "behind no IOMMU");
    add_group();
    expect(Errc::not_supported, "bound to no driver, not to vfio-pci");
    bind_to("nvme");
    expect(Errc::not_supported, "bound to nvme, not to vfio-pci");
    bind_to("vfio-pci");
    expect(Errc::not_supported, "modprobe vfio-pci");
    add_node("vfio");
    expect(Errc::not_supported, "no type 1 IOMMU");
}

TEST_F(Vfio, WhatACardIsIsKnownBeforeItIsOpened) {
    EXPECT_EQ(read_vfio_id("0000:01:00.9", root_).error().code(), Errc::invalid_argument);
    EXPECT_EQ(read_vfio_id("0000:01:00.0", root_).error().code(), Errc::not_found);
    add_card();
    std::ofstream(card() + "/vendor") << "0x1b39\n";
    std::ofstream(card() + "/device") << "0x0001\n";
    const auto id = read_vfio_id("0000:01:00.0", root_);
    ASSERT_TRUE(id) << id.error().message();
    EXPECT_EQ(id->vendor, 0x1b39);
    EXPECT_EQ(id->device, 0x0001);
}

TEST_F(Vfio, ThisMachineHasNoSuchCard) {
    const auto opened = open_vfio("ffff:ff:1f.7");
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code(), Errc::not_found);
}

}  // namespace
}  // namespace mqblk::pci
