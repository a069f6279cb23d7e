// SPDX-License-Identifier: Apache-2.0
//
// The data structures of the Identify command: controller, namespace, lists and descriptors. NVMe 1.4, section 5.15;
// fabrics fields: NVMe over Fabrics 1.1, section 4.1. I/O command set forms: NVMe TP 4056 as Linux uses it.
#pragma once

#include "wire/nvme.h"

#include <array>
#include <optional>
#include <span>

namespace mqblk::wire::nvme {

inline constexpr std::size_t identify_bytes = 4096;

/// CDW10 bits 7:0.
namespace cns {
inline constexpr std::uint8_t identify_namespace = 0x00;
inline constexpr std::uint8_t controller = 0x01;
inline constexpr std::uint8_t active_namespaces = 0x02;
inline constexpr std::uint8_t descriptors = 0x03;
inline constexpr std::uint8_t command_set_namespace = 0x05;
inline constexpr std::uint8_t command_set_controller = 0x06;
inline constexpr std::uint8_t command_set_active_namespaces = 0x07;
inline constexpr std::uint8_t command_set_list = 0x1c;
}  // namespace cns

[[nodiscard]] constexpr std::uint8_t identify_cns(const Command& command) noexcept {
    return static_cast<std::uint8_t>(command.cdw10 & 0xff);
}
/// Command set identifier, byte 47.
[[nodiscard]] constexpr std::uint8_t identify_csi(const Command& command) noexcept {
    return static_cast<std::uint8_t>(command.cdw11 >> 24);
}
inline constexpr std::uint8_t csi_nvm = 0;

/// CNS 01h.
struct IdentifyController {
    le16 vid, ssvid;
    std::array<char, 20> sn{};  ///< ASCII, padded with spaces
    std::array<char, 40> mn{};
    std::array<char, 8> fr{};
    std::uint8_t rab = 0;
    std::uint8_t ieee[3] = {};
    std::uint8_t cmic = 0;
    std::uint8_t mdts = 0;  ///< 2^n pages of the smallest size; 0: no limit
    le16 cntlid;
    le32 ver, rtd3r, rtd3e, oaes, ctratt;
    le16 rrls;
    std::uint8_t reserved102[9] = {};
    std::uint8_t cntrltype = 0;
    std::uint8_t fguid[16] = {};
    le16 crdt1, crdt2, crdt3;
    std::uint8_t crcap = 0;
    std::uint8_t ciu = 0;  ///< NVMe 2.3: this instance of the controller, by number; 0: not stated
    le64 cirn;             ///< and by chance
    std::uint8_t reserved144[112] = {};
    le16 oacs;
    std::uint8_t acl = 0, aerl = 0, frmw = 0, lpa = 0, elpe = 0, npss = 0, avscc = 0, apsta = 0;
    le16 wctemp, cctemp, mtfa;
    le32 hmpre, hmmin;
    std::uint8_t tnvmcap[16] = {}, unvmcap[16] = {};
    le32 rpmbs;
    le16 edstt;
    std::uint8_t dsto = 0, fwug = 0;
    le16 kas;  ///< 100 ms units
    le16 hctma, mntmt, mxtmt;
    le32 sanicap, hmminds;
    le16 hmmaxd, nsetidmax, endgidmax;
    std::uint8_t anatt = 0, anacap = 0;
    le32 anagrpmax, nanagrpid, pels;
    le16 domain_id;
    std::uint8_t reserved358[28] = {};
    le16 cqt;  ///< NVMe 2.1: ms that commands may go on for after the host was lost; 0: not stated
    std::uint8_t reserved388[124] = {};
    std::uint8_t sqes = 0, cqes = 0;
    le16 maxcmd;
    le32 nn;
    le16 oncs, fuses;
    std::uint8_t fna = 0, vwc = 0;
    le16 awun, awupf;
    std::uint8_t icsvscc = 0, nwpc = 0;
    le16 acwu, reserved534;
    le32 sgls, mnan;
    std::uint8_t reserved544[224] = {};
    std::array<char, 256> subnqn{};
    std::uint8_t reserved1024[768] = {};
    le32 ioccsz, iorcsz;  ///< 16-byte units
    le16 icdoff;          ///< 16-byte units
    std::uint8_t fcatt = 0, msdbd = 0;
    le16 ofcs;
    std::uint8_t dctype = 0;
    std::uint8_t ccrl = 0;  ///< NVMe 2.3: Cross-Controller Resets at once; 0: none
    std::uint8_t reserved1808[240] = {};
    std::uint8_t psd[32][32] = {};
    std::uint8_t vendor[1024] = {};
};
static_assert(sizeof(IdentifyController) == identify_bytes);
static_assert(offsetof(IdentifyController, sn) == 4 && offsetof(IdentifyController, fr) == 64);
static_assert(offsetof(IdentifyController, cmic) == 76 && offsetof(IdentifyController, cntlid) == 78);
static_assert(offsetof(IdentifyController, oaes) == 92 && offsetof(IdentifyController, cntrltype) == 111);
static_assert(offsetof(IdentifyController, crdt1) == 128 && offsetof(IdentifyController, oacs) == 256);
static_assert(offsetof(IdentifyController, ciu) == 135 && offsetof(IdentifyController, cirn) == 136);
static_assert(offsetof(IdentifyController, cqt) == 386 && offsetof(IdentifyController, ccrl) == 1807);
static_assert(offsetof(IdentifyController, lpa) == 261 && offsetof(IdentifyController, wctemp) == 266);
static_assert(offsetof(IdentifyController, rpmbs) == 312 && offsetof(IdentifyController, kas) == 320);
static_assert(offsetof(IdentifyController, anatt) == 342 && offsetof(IdentifyController, nanagrpid) == 348);
static_assert(offsetof(IdentifyController, sqes) == 512 && offsetof(IdentifyController, oncs) == 520);
static_assert(offsetof(IdentifyController, vwc) == 525 && offsetof(IdentifyController, acwu) == 532);
static_assert(offsetof(IdentifyController, sgls) == 536 && offsetof(IdentifyController, mnan) == 540);
static_assert(offsetof(IdentifyController, subnqn) == 768 && offsetof(IdentifyController, ioccsz) == 1792);
static_assert(offsetof(IdentifyController, psd) == 2048 && offsetof(IdentifyController, vendor) == 3072);

namespace cmic {
inline constexpr std::uint8_t multi_port = 1, multi_controller = 2, ana = 8;
}
namespace oaes {
inline constexpr std::uint32_t namespace_attributes = 1u << 8, firmware = 1u << 9, ana = 1u << 11,
                               cross_reset = 1u << 20, discovery_change = 1u << 31;
}
namespace ctratt {
inline constexpr std::uint32_t host_id_128 = 1, traffic_based_keep_alive = 1u << 6;
}
namespace oncs {
inline constexpr std::uint16_t compare = 1, write_uncorrectable = 2, dataset_management = 4, write_zeroes = 8,
                               save_select = 16, reservations = 32, timestamp = 64, verify = 128;
}
namespace lpa {
inline constexpr std::uint8_t smart_per_namespace = 1, effects = 2, extended_data = 4, telemetry = 8;
}
namespace controller_type {
inline constexpr std::uint8_t io = 1, discovery = 2;
}
inline constexpr std::uint16_t fuses_compare_and_write = 1;
inline constexpr std::uint8_t vwc_present = 1, vwc_flush_all_mask = 6, vwc_flush_all_supported = 6;
inline constexpr std::uint32_t sgls_supported = 1, sgls_in_capsule_offset = 1u << 20;

struct LbaFormat {
    le16 metadata_bytes;
    std::uint8_t data_shift = 0;  ///< LBADS: 9 to 12 here
    std::uint8_t performance = 0;
};
static_assert(sizeof(LbaFormat) == 4);

/// CNS 00h. All zeroes: the namespace is not active.
struct IdentifyNamespace {
    le64 nsze, ncap, nuse;  ///< blocks
    std::uint8_t nsfeat = 0, nlbaf = 0, flbas = 0, mc = 0, dpc = 0, dps = 0, nmic = 0, rescap = 0, fpi = 0, dlfeat = 0;
    le16 nawun, nawupf, nacwu, nabsn, nabo, nabspf, noiob;
    std::uint8_t nvmcap[16] = {};
    le16 npwg, npwa, npdg, npda, nows;  ///< zero-based blocks; valid with nsfeat bit 4
    le16 mssrl;
    le32 mcl;
    std::uint8_t msrc = 0;
    std::uint8_t reserved81[11] = {};
    le32 anagrpid;
    std::uint8_t reserved96[3] = {};
    std::uint8_t nsattr = 0;  ///< bit 0: write protected
    le16 nvmsetid, endgid;
    std::array<std::uint8_t, 16> nguid{};
    std::array<std::uint8_t, 8> eui64{};
    LbaFormat lbaf[16];
    std::uint8_t reserved192[192] = {};
    std::uint8_t vendor[3712] = {};
};
static_assert(sizeof(IdentifyNamespace) == identify_bytes);
static_assert(offsetof(IdentifyNamespace, nsfeat) == 24 && offsetof(IdentifyNamespace, nmic) == 30);
static_assert(offsetof(IdentifyNamespace, dlfeat) == 33 && offsetof(IdentifyNamespace, nawun) == 34);
static_assert(offsetof(IdentifyNamespace, noiob) == 46 && offsetof(IdentifyNamespace, npwg) == 64);
static_assert(offsetof(IdentifyNamespace, nows) == 72 && offsetof(IdentifyNamespace, anagrpid) == 92);
static_assert(offsetof(IdentifyNamespace, nsattr) == 99 && offsetof(IdentifyNamespace, nguid) == 104);
static_assert(offsetof(IdentifyNamespace, eui64) == 120 && offsetof(IdentifyNamespace, lbaf) == 128);

namespace nsfeat {
inline constexpr std::uint8_t thin = 1, atomics = 2, deallocated_error = 4, optimal_io = 16;
}
inline constexpr std::uint8_t nmic_shared = 1, nsattr_write_protected = 1;
inline constexpr std::uint8_t dlfeat_zeroes = 1, dlfeat_write_zeroes_deallocate = 8;

/// CNS 06h, CSI 00h.
struct IdentifyControllerNvm {
    std::uint8_t vsl = 0;   ///< verify limit: 2^n smallest pages; 0: none
    std::uint8_t wzsl = 0;  ///< write zeroes limit, same
    std::uint8_t wusl = 0;
    std::uint8_t dmrl = 0;  ///< most ranges in one Dataset Management; 0: no limit
    le32 dmrsl;             ///< most blocks in one range
    le64 dmsl;              ///< most blocks in all
    std::uint8_t reserved16[4080] = {};
};
static_assert(sizeof(IdentifyControllerNvm) == identify_bytes && offsetof(IdentifyControllerNvm, dmsl) == 8);

/// CNS 03h: a list of these, each followed by `length` bytes; length 0 ends it.
struct NamespaceDescriptor {
    std::uint8_t type = 0;
    std::uint8_t length = 0;
    std::uint8_t reserved2[2] = {};
};
static_assert(sizeof(NamespaceDescriptor) == 4);

namespace descriptor_type {
inline constexpr std::uint8_t eui64 = 1, nguid = 2, uuid = 3, csi = 4;
}

/// Calls fn(type, bytes) for each descriptor of a CNS 03h page. False when the page is malformed: a descriptor runs
/// past its end, or a known type has the wrong length. Unknown types are skipped.
template <class Fn>
[[nodiscard]] bool for_each_descriptor(std::span<const std::uint8_t> page, Fn&& fn) {
    while (page.size() >= sizeof(NamespaceDescriptor)) {
        const std::uint8_t type = page[0], length = page[1];
        if (length == 0) return true;
        page = page.subspan(sizeof(NamespaceDescriptor));
        if (length > page.size()) return false;
        const std::uint8_t wanted = type == descriptor_type::eui64   ? 8
                                    : type == descriptor_type::nguid ? 16
                                    : type == descriptor_type::uuid  ? 16
                                    : type == descriptor_type::csi   ? 1
                                                                     : 0;
        if (wanted != 0) {
            if (length != wanted) return false;
            fn(type, page.first(length));
        }
        page = page.subspan(length);
    }
    return true;
}

}  // namespace mqblk::wire::nvme
