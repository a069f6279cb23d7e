// SPDX-License-Identifier: Apache-2.0
//
// The 256-byte request frames of Fusion controllers, after MPI 2: SCSI I/O with a RAID context, task management, the
// IOC INIT message, and IEEE scatter-gather elements. The firmware answers in the frame itself and then posts a reply
// descriptor. Little endian, but for CDB, LUN and sense data.
#pragma once

#include "base/endian.h"
#include "wire/megaraid.h"
#include "wire/scsi.h"

#include <cstddef>
#include <cstdint>

namespace mqblk::wire::megaraid {

enum class Function : std::uint8_t {
    scsi_io = 0x00,  ///< fast path: to a disk by its handle
    task_management = 0x01,
    ioc_init = 0x02,
    passthrough = 0xf0,  ///< an MFI frame
    ld_io = 0xf1,        ///< through the firmware
};

struct IocInit {
    std::uint8_t who_init = 4;  ///< host driver
    std::uint8_t reserved1 = 0;
    std::uint8_t chain_offset = 0;
    std::uint8_t function = static_cast<std::uint8_t>(Function::ioc_init);
    std::uint8_t reserved2[3] = {};
    std::uint8_t msg_flags = 0;  ///< ioc_init_reply_array
    std::uint8_t vp_id = 0, vf_id = 0;
    std::uint8_t reserved3[2] = {};
    le16 msg_version{};
    le16 header_version{};
    std::uint8_t reserved4[6] = {};
    std::uint8_t host_page_size = 0;
    std::uint8_t host_msix_vectors = 0;  ///< 0: one queue
    std::uint8_t reserved5[2] = {};
    le16 request_frame_words{};  ///< of 4 bytes
    le16 reply_queue_depth{};
    le16 reply_free_queue_depth{};
    le32 sense_address_high{};
    le32 reply_address_high{};
    le64 request_frames{};  ///< address of the frame of SMID 0
    le64 reply_queue{};     ///< of all queues one behind the other, or of a ReplyArrayEntry for each
    le64 reply_free_queue{};
    le64 time_stamp{};  ///< milliseconds since 1970
};
static_assert(sizeof(IocInit) == 72 && offsetof(IocInit, function) == 3 && offsetof(IocInit, msg_flags) == 7 &&
              offsetof(IocInit, msg_version) == 0x0c && offsetof(IocInit, host_msix_vectors) == 0x17 &&
              offsetof(IocInit, request_frame_words) == 0x1a && offsetof(IocInit, sense_address_high) == 0x20 &&
              offsetof(IocInit, request_frames) == 0x28 && offsetof(IocInit, reply_queue) == 0x30 &&
              offsetof(IocInit, time_stamp) == 0x40);
inline constexpr std::uint16_t mpi_version = 0x0200, mpi_header_version = 0x1000;
inline constexpr std::uint8_t ioc_init_reply_array = 0x01;

struct ReplyArrayEntry {
    le64 address{};
    le64 reserved{};
};
static_assert(sizeof(ReplyArrayEntry) == 16);

// Scatter-gather.

struct IeeeSge {
    le64 address{};
    le32 bytes{};
    le16 reserved{};
    std::uint8_t next_chain_offset = 0;
    std::uint8_t flags = 0;  ///< SgeFlag
};
static_assert(sizeof(IeeeSge) == 16 && offsetof(IeeeSge, flags) == 15);
enum SgeFlag : std::uint8_t {
    sge_address_space = 0x03,  ///< 0: system memory; chains of Thunderbolt have 3
    sge_end_of_list = 0x40,
    sge_chain = 0x80,  ///< not data: the rest of the list is there
};

// Region locks and context.

enum class RegionLock : std::uint8_t { unused = 0, shared_read = 1, shared_write = 2, exclusive = 3 };
enum RegionLockFlag : std::uint8_t { lock_sequence_number = 0x08, lock_cuda = 0x80 };
inline constexpr std::uint8_t context_type_cuda = 0x2;
inline constexpr std::uint8_t raid_flags_subtype_shift = 4;
inline constexpr std::uint8_t raid_flags_subtype_mask = 0x30;
inline constexpr std::uint8_t subtype_system_pd = 1;

struct RaidContext {
    std::uint8_t type = 0;  ///< 3:0 type, 7:4 segments
    std::uint8_t reserved0 = 0;
    le16 timeout{};  ///< seconds
    std::uint8_t lock_flags = 0;
    std::uint8_t reserved1 = 0;
    le16 target_id{};  ///< of the volume; disks of their own by the sequence number map: device id + 255
    le64 lock_row{};
    le32 lock_length{};
    le16 next_lmid{};
    std::uint8_t ex_status = 0;  ///< scsi::Status, by the firmware
    std::uint8_t status = 0;     ///< MfiStatus, by the firmware
    std::uint8_t raid_flags = 0;
    std::uint8_t sges = 0;
    le16 config_seq{};
    std::uint8_t span_arm = 0;  ///< 7:5 span, 4:0 arm
    std::uint8_t priority = 0;
    std::uint8_t sges_high = 0;
    std::uint8_t reserved2 = 0;
};
static_assert(sizeof(RaidContext) == 32 && offsetof(RaidContext, target_id) == 6 &&
              offsetof(RaidContext, lock_row) == 8 && offsetof(RaidContext, ex_status) == 0x16 &&
              offsetof(RaidContext, raid_flags) == 0x18 && offsetof(RaidContext, config_seq) == 0x1a &&
              offsetof(RaidContext, span_arm) == 0x1c);

struct ScsiIoRequest {
    le16 dev_handle{};
    std::uint8_t chain_offset = 0;  ///< 16-byte units: where in the frame a chain element is; 0 = none stated
    std::uint8_t function = 0;      ///< Function
    std::uint8_t reserved0[3] = {};
    std::uint8_t msg_flags = 0;
    std::uint8_t vp_id = 0, vf_id = 0;
    std::uint8_t reserved1[2] = {};
    le32 sense_low{};  ///< the upper half was in IOC INIT
    le16 sgl_flags{};
    std::uint8_t sense_bytes = 0;
    std::uint8_t reserved2 = 0;
    std::uint8_t sgl_offset[4] = {};  ///< 4-byte units
    le32 skip_count{};
    le32 data_bytes{};  ///< the firmware writes what was moved
    le32 bidirectional_bytes{};
    le16 io_flags{};  ///< 4:0 CDB length, io_fast_path
    le16 eedp_flags{};
    le32 eedp_block_bytes{};
    std::uint8_t secondary_tags[8] = {};
    std::uint8_t lun[8] = {};
    le32 control{};  ///< Control
    std::uint8_t cdb[32] = {};
    RaidContext context{};
    IeeeSge sgl[sges_in_frame] = {};
};
static_assert(sizeof(ScsiIoRequest) == io_frame_bytes && offsetof(ScsiIoRequest, function) == 3 &&
              offsetof(ScsiIoRequest, sense_low) == 0x0c && offsetof(ScsiIoRequest, sgl_offset) == 0x14 &&
              offsetof(ScsiIoRequest, data_bytes) == 0x1c && offsetof(ScsiIoRequest, io_flags) == 0x24 &&
              offsetof(ScsiIoRequest, lun) == 0x34 && offsetof(ScsiIoRequest, control) == 0x3c &&
              offsetof(ScsiIoRequest, cdb) == 0x40 && offsetof(ScsiIoRequest, context) == 0x60 &&
              offsetof(ScsiIoRequest, sgl) == 0x80);
enum Control : std::uint32_t { control_write = 0x01000000, control_read = 0x02000000 };
inline constexpr std::uint16_t io_fast_path = 0x4000, io_cdb_length = 0x001f;
inline constexpr std::uint16_t sgl_flags_64bit = 0x0002;
inline constexpr std::uint8_t sgl_offset_words = 0x20, chain_offset_io = 0x0f, chain_offset_passthrough = 0x08;
inline constexpr unsigned context_answer_offset = 0x76;  ///< ex_status, then status
inline constexpr std::uint8_t sense_buffer_bytes = 96;

// Task management.

enum class TaskType : std::uint8_t {
    abort_task = 1,
    abort_task_set = 2,
    target_reset = 3,
    logical_unit_reset = 5,
    query_task = 7,
};
enum class TaskResponse : std::uint8_t {
    complete = 0x00,
    invalid_frame = 0x02,
    not_supported = 0x04,
    failed = 0x05,
    succeeded = 0x08,
    invalid_lun = 0x09,
    overlapped_tag = 0x0a,
    queued_on_ioc = 0x80,
};

struct TaskRequest {
    le16 dev_handle{};  ///< of a disk; of a volume its target id
    std::uint8_t chain_offset = 0;
    std::uint8_t function = static_cast<std::uint8_t>(Function::task_management);
    std::uint8_t reserved0 = 0;
    std::uint8_t task_type = 0;
    std::uint8_t reserved1 = 0;
    std::uint8_t msg_flags = 0;
    std::uint8_t vp_id = 0, vf_id = 0;
    std::uint8_t reserved2[2] = {};
    std::uint8_t lun[8] = {};
    std::uint8_t reserved3[28] = {};
    le16 task_smid{};  ///< to abort
    std::uint8_t reserved4[78] = {};
    le32 flags{};  ///< TaskFlag; lies where the reply goes
    std::uint8_t reserved5[124] = {};
};
static_assert(sizeof(TaskRequest) == io_frame_bytes && offsetof(TaskRequest, task_type) == 5 &&
              offsetof(TaskRequest, lun) == 0x0c && offsetof(TaskRequest, task_smid) == 0x30 &&
              offsetof(TaskRequest, flags) == 0x80);
enum TaskFlag : std::uint32_t { task_for_ld = 1, task_for_pd = 2 };

inline constexpr unsigned task_reply_offset = 0x80;  ///< of TaskReply in the frame
struct TaskReply {
    le16 dev_handle{};
    std::uint8_t msg_length = 0;
    std::uint8_t function = 0;
    std::uint8_t response = 0;  ///< TaskResponse
    std::uint8_t task_type = 0;
    std::uint8_t reserved0 = 0;
    std::uint8_t msg_flags = 0;
    std::uint8_t vp_id = 0, vf_id = 0;
    std::uint8_t reserved1[4] = {};
    le16 ioc_status{};
    le32 ioc_log_info{};
    le32 terminated{};
    le32 response_info{};
};
static_assert(sizeof(TaskReply) == 28 && offsetof(TaskReply, response) == 4 && offsetof(TaskReply, ioc_status) == 14 &&
              offsetof(TaskReply, terminated) == 20);

}  // namespace mqblk::wire::megaraid
