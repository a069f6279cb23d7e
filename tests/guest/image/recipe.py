# SPDX-License-Identifier: Apache-2.0
"""What the guests are made of. One user land for all kernels; to add a kernel, add a line to KERNELS."""

# name: the suite whose kernel it is
KERNELS = {"5.10": "bullseye", "6.1": "bookworm", "6.12": "trixie"}
KERNEL_PACKAGE = "linux-image-amd64"

USER_LAND_SUITE = "bookworm"
USER_LAND = """
    base-files bash busybox-static coreutils dash diffutils e2fsprogs findutils fio grep iproute2 kmod mawk mount
    nvme-cli procps python3 sed sg3-utils socat util-linux xfsprogs
""".split()

# For guests with cards, where this machine's QEMU cannot take them: the suites that have it, its own last.
QEMU_SUITES = ["trixie", "trixie-backports"]
QEMU_PACKAGE = "qemu-system-x86"
# What it starts without: for installing packages, and for devices that no guest has.
QEMU_WITHOUT = """
    adduser base-passwd debconf ipxe-qemu libaudit-common libacl1 libasound2-data libasound2t64 libattr1 libaudit1 libbrlapi0.8
    libbsd0 libbz2-1.0 libcacard0 libcap-ng0 libcrypt1 libdb5.3t64 libdebconfclient0 libexecs1 libmd0 libncursesw6 libnspr4
    libnss3 libpam-modules libpam-modules-bin libpam0g libpcsclite1 libsasl2-modules-db libsemanage-common libsemanage2
    libsepol2 libsqlite3-0 libsystemd0 libtinfo6 libusb-1.0-0 libusbredirparser1t64 login.defs openssl-provider-legacy passwd
""".split()
QEMU_EXCLUDED = "./usr/bin/qemu-system-i386 ./usr/bin/qemu-system-x86_64-microvm".split()

# How a guest names itself to a target: newer kernels insist that identifier and name belong together.
HOST_ID = "1c9b0f3a-5d6e-4f70-8a91-b2c3d4e5f607"

# Left out of the user land's image: nothing that a test calls.
EXCLUDED = """
    ./usr/share/doc ./usr/share/man ./usr/share/locale ./usr/share/info ./usr/share/lintian ./usr/share/perl
    ./usr/lib/x86_64-linux-gnu/perl ./usr/lib/x86_64-linux-gnu/gconv ./usr/share/bash-completion ./usr/share/zsh
""".split()

# Taken with all that they depend on; those that a kernel has built in or does not have are left out.
MODULES = """
    virtio_pci virtio_blk virtio_net ext4 xfs crc32c_generic crc32c_intel configfs
    nvme-tcp nvmet nvmet-tcp nvme-loop null_blk brd loop skd megaraid_sas sd_mod vfio-pci vfio_iommu_type1
""".split()
