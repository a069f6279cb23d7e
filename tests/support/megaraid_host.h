// SPDX-License-Identifier: Apache-2.0
//
// The other side of a MegaRAID controller by its registers alone, in virtual time: hand-shake, IOC INIT, requests,
// reply queues, management frames. It does what a driver does, one thing at a time, and whatever else a test wants
// written to the controller.
#pragma once

#include "device/megaraid/controller.h"
#include "driver/ram/ram.h"
#include "pci/in_process.h"
#include "reactor/simulated.h"
#include "wire/megaraid.h"
#include "wire/megaraid_info.h"
#include "wire/megaraid_map.h"
#include "wire/megaraid_mfi.h"
#include "wire/megaraid_mpi.h"
#include "wire/scsi_cdb.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace mqblk::test {

namespace mrw = wire::megaraid;

inline std::shared_ptr<Device> mr_ram_disk(std::uint64_t bytes = 16 << 20) {
    return driver::ram::open({.bytes = bytes, .disk = {}}).value();
}

/// What a test's controller has behind it.
struct MrParts {
    std::vector<std::shared_ptr<Device>> disks{mr_ram_disk(), mr_ram_disk()};
    std::vector<device::megaraid::VolumeSpec> volumes{{.device = mr_ram_disk()},
                                                      {.device = mr_ram_disk(), .level = 6, .disks = 8}};
};

struct MrReply {
    unsigned queue = 0;
    std::uint16_t smid = 0;
};

/// How a request ended, from its frame.
struct MrDone {
    mrw::MfiStatus status{};
    wire::scsi::Status scsi_status{};
    std::uint32_t bytes = 0;
    std::optional<wire::scsi::Sense> sense{};
};

class MrHost {
  public:
    static constexpr std::size_t data_bytes = 4 << 20;
    static constexpr unsigned depth = 2016;
    static constexpr std::size_t management_at = 3 << 20;  ///< of the data memory: MFI frames, 256 bytes each
    static constexpr std::size_t answers_at = 2 << 20;

    explicit MrHost(device::megaraid::Options options = {}, MrParts parts = {}) : reactor_(world_.make_reactor()) {
        generation_ = mrw::generation_of(options.device_id);
        auto made = device::megaraid::Controller::create(std::move(parts.disks), parts.volumes, std::move(options));
        if (!made) throw std::runtime_error(made.error().message());
        controller_ = made->get();
        function_ = pci::make_in_process(std::move(*made), *reactor_, {.reaches_everything = false}).value();
        bar_.emplace(function_->bar(1).value());
        frames_ = function_->dma().allocate(1024 * mrw::io_frame_bytes).value();
        chains_ = function_->dma().allocate(1024 * 4096).value();
        sense_ = function_->dma().allocate(1024 * 128).value();
        data_ = function_->dma().allocate(data_bytes).value();
        replies_ = function_->dma().allocate(std::size_t{max_queues} * depth * 8).value();
        function_->set_bus_master(true);
    }

    SimulatedWorld& world() { return world_; }
    device::megaraid::Controller& controller() { return *controller_; }
    pci::Function& function() { return *function_; }
    Reactor& reactor() { return *reactor_; }
    const pci::Bar& bar() { return *bar_; }
    std::byte* data(std::size_t offset = 0) { return data_.data() + offset; }
    std::uint64_t data_address(std::size_t offset = 0) { return data_.address(offset); }
    pci::DmaMemory& chains() { return chains_; }
    pci::DmaMemory& replies() { return replies_; }

    bool run_until(const std::function<bool()>& done, Duration bound = std::chrono::seconds(300)) {
        return world_.run_until(done, bound) || done();
    }
    void run_for(Duration time) { world_.run_for(time); }
    void settle() { run_for(std::chrono::milliseconds(1)); }

    std::uint32_t read(unsigned reg) { return bar_->read32(reg); }
    void write(unsigned reg, std::uint32_t value) { bar_->write32(reg, value); }
    mrw::State state() { return mrw::state_of(read(mrw::reg::scratch_pad)); }
    bool wait_state(mrw::State state) {
        return run_until([&] { return this->state() == state; });
    }
    unsigned commands() { return mrw::usable_commands(mrw::max_commands_of(read(mrw::reg::scratch_pad))); }

    // IOC INIT.

    mrw::IocInit ioc_init(unsigned queues = 2) {
        mrw::IocInit init;
        init.msg_version = mrw::mpi_version;
        init.header_version = mrw::mpi_header_version;
        init.host_msix_vectors = static_cast<std::uint8_t>(queues);
        init.request_frame_words = mrw::io_frame_bytes / 4;
        init.reply_queue_depth = depth;
        init.sense_address_high = static_cast<std::uint32_t>(sense_.address() >> 32);
        init.request_frames = frames_.address();
        init.reply_queue = replies_.address();
        return init;
    }
    /// Returns the status that came; `pending` if none did.
    mrw::MfiStatus post_init(const mrw::IocInit& init, std::uint32_t operations = mrw::driver_max_255_lds) {
        mrw::InitFrame frame;
        frame.status = static_cast<std::uint8_t>(mrw::MfiStatus::pending);
        frame.driver_operations = operations;
        frame.flags = mrw::mfi_dont_post;
        frame.data_bytes = sizeof init;
        frame.queue_info_new = data_address(management_at + 512);
        std::memcpy(data(management_at), &frame, sizeof frame);
        std::memcpy(data(management_at + 512), &init, sizeof init);
        std::memset(replies_.data(), 0xff, replies_.size());
        queues_ = std::max<unsigned>(1, init.host_msix_vectors);
        for (auto& index : index_) index = 0;
        bar_->write64(mrw::reg::inbound_low_queue_port, mrw::mfa_descriptor(data_address(management_at)));
        const auto status = [&] { return mrw::MfiStatus{std::to_integer<std::uint8_t>(data(management_at)[2])}; };
        run_until([&] { return status() != mrw::MfiStatus::pending; }, std::chrono::seconds(1));
        return status();
    }
    /// From ready to operational, with interrupts unmasked.
    bool start(unsigned queues = 2) {
        if (!wait_state(mrw::State::ready)) return false;
        if (post_init(ioc_init(queues)) != mrw::MfiStatus::ok) return false;
        write(mrw::reg::outbound_intr_mask, ~mrw::intr_fusion);
        return state() == mrw::State::operational;
    }
    void diag_reset() {
        for (const std::uint32_t key : mrw::diag_keys) write(mrw::reg::write_sequence, key);
        write(mrw::reg::host_diag, read(mrw::reg::host_diag) | mrw::host_diag_reset_adapter);
    }

    // Requests.

    mrw::ScsiIoRequest& frame(std::uint16_t smid) {
        return *reinterpret_cast<mrw::ScsiIoRequest*>(frames_.data() + std::size_t{smid} * mrw::io_frame_bytes);
    }
    void post(std::uint16_t smid, mrw::RequestType type, unsigned queue = 0) {
        const mrw::RequestDescriptor descriptor{mrw::request_flags(type), static_cast<std::uint8_t>(queue), smid, 0, 0};
        bar_->write64(mrw::reg::inbound_low_queue_port, std::bit_cast<std::uint64_t>(descriptor));
    }
    using Ranges = std::vector<pci::DmaSegment>;
    /// Fills the frame's list as drivers do: eight elements, or seven and a chain.
    void put_list(std::uint16_t smid, const Ranges& ranges) {
        mrw::ScsiIoRequest& request = frame(smid);
        const bool chained = ranges.size() > mrw::sges_in_frame;
        auto* to = request.sgl;
        for (std::size_t i = 0; i < ranges.size(); ++i) {
            if (chained && i == mrw::sges_in_frame - 1) {
                request.chain_offset = mrw::chain_offset_io;
                *to = {.address = chains_.address(std::size_t{smid} * 4096),
                       .bytes = static_cast<std::uint32_t>(16 * (ranges.size() - i)),
                       .reserved = {},
                       .flags = mrw::sge_chain};
                to = reinterpret_cast<mrw::IeeeSge*>(chains_.data() + std::size_t{smid} * 4096);
            }
            *to++ = {.address = ranges[i].address,
                     .bytes = static_cast<std::uint32_t>(ranges[i].bytes),
                     .reserved = {},
                     .flags = i + 1 == ranges.size() ? std::uint8_t{mrw::sge_end_of_list} : std::uint8_t{0}};
        }
    }
    /// A request to a volume, through the firmware.
    mrw::ScsiIoRequest& prepare(std::uint16_t smid, const wire::scsi::Cdb& cdb, unsigned target, const Ranges& ranges) {
        mrw::ScsiIoRequest& request = frame(smid);
        std::memset(static_cast<void*>(&request), 0, sizeof request);
        request.dev_handle = static_cast<std::uint16_t>(target);
        request.function = static_cast<std::uint8_t>(mrw::Function::ld_io);
        request.sense_low = static_cast<std::uint32_t>(sense_.address(std::size_t{smid} * 128));
        request.sense_bytes = mrw::sense_buffer_bytes;
        request.sgl_offset[0] = mrw::sgl_offset_words;
        std::uint64_t bytes = 0;
        for (const auto& range : ranges) bytes += range.bytes;
        request.data_bytes = static_cast<std::uint32_t>(bytes);
        request.io_flags = 16;
        std::copy(cdb.begin(), cdb.end(), request.cdb);
        request.context.target_id = static_cast<std::uint16_t>(target);
        put_list(smid, ranges);
        return request;
    }
    /// … to a disk of its own, through the firmware.
    void prepare_disk(std::uint16_t smid, const wire::scsi::Cdb& cdb, unsigned disk, const Ranges& ranges) {
        prepare(smid, cdb, disk, ranges).context.raid_flags = mrw::subtype_system_pd << mrw::raid_flags_subtype_shift;
    }
    /// … to a disk by its handle.
    void prepare_fast(std::uint16_t smid, const wire::scsi::Cdb& cdb, unsigned disk, const Ranges& ranges) {
        mrw::ScsiIoRequest& request = prepare(smid, cdb, disk, ranges);
        request.function = static_cast<std::uint8_t>(mrw::Function::scsi_io);
        request.dev_handle = static_cast<std::uint16_t>(device::megaraid::first_handle + disk);
        request.io_flags = mrw::io_fast_path | 16;
        request.chain_offset = 0;
    }

    /// The next reply of a queue, if it is there.
    std::optional<MrReply> next(unsigned queue) {
        auto* const slot = reinterpret_cast<std::uint64_t*>(replies_.data()) + queue * depth + index_[queue];
        const std::uint64_t raw = std::atomic_ref(*slot).load(std::memory_order_acquire);
        const auto reply = std::bit_cast<mrw::ReplyDescriptor>(raw);
        if (reply.type() == mrw::ReplyType::unused) return std::nullopt;
        *slot = mrw::reply_unused;
        index_[queue] = index_[queue] + 1 == depth ? 0 : index_[queue] + 1;
        const bool combined = generation_ == mrw::Generation::invader && function_->interrupt_counts().msix > 8;
        write(mrw::reply_index_register(queue, combined), mrw::reply_index_value(queue, index_[queue], combined));
        return MrReply{queue, reply.smid};
    }
    std::optional<MrReply> next() {
        for (unsigned queue = 0; queue < queues_; ++queue)
            if (const auto reply = next(queue)) return reply;
        return std::nullopt;
    }
    std::optional<MrReply> wait_next(Duration bound = std::chrono::seconds(300)) {
        std::optional<MrReply> reply;
        run_until([&] { return (reply = next()).has_value(); }, bound);
        return reply;
    }
    MrDone done(std::uint16_t smid) {
        const mrw::ScsiIoRequest& request = frame(smid);
        MrDone done{.status = mrw::MfiStatus{request.context.status},
                    .scsi_status = wire::scsi::Status{request.context.ex_status},
                    .bytes = request.data_bytes,
                    .sense = {}};
        if (done.scsi_status == wire::scsi::Status::check_condition) {
            const auto* const sense = reinterpret_cast<const std::uint8_t*>(sense_.data() + std::size_t{smid} * 128);
            done.sense = wire::scsi::parse_sense({sense, mrw::sense_buffer_bytes});
        }
        return done;
    }
    /// Posts what is prepared and waits for its end.
    MrDone run_prepared(std::uint16_t smid, mrw::RequestType type = mrw::RequestType::scsi_io, unsigned queue = 0) {
        post(smid, type, queue);
        const auto reply = wait_next();
        if (!reply) {
            ADD_FAILURE() << "no reply";
            return {.status = mrw::MfiStatus::pending};
        }
        EXPECT_EQ(reply->smid, smid);
        return done(smid);
    }
    MrDone run_volume(const wire::scsi::Cdb& cdb, unsigned target, std::size_t bytes = 0, std::size_t offset = 0) {
        prepare(1, cdb, target, ranges(offset, bytes));
        return run_prepared(1, mrw::RequestType::ld_io);
    }
    MrDone run_disk(const wire::scsi::Cdb& cdb, unsigned disk, std::size_t bytes = 0, std::size_t offset = 0) {
        prepare_disk(1, cdb, disk, ranges(offset, bytes));
        return run_prepared(1);
    }
    MrDone run_fast(const wire::scsi::Cdb& cdb, unsigned disk, std::size_t bytes = 0, std::size_t offset = 0) {
        prepare_fast(1, cdb, disk, ranges(offset, bytes));
        return run_prepared(1, mrw::RequestType::fp_io);
    }
    Ranges ranges(std::size_t offset, std::size_t bytes) {
        return bytes == 0 ? Ranges{} : Ranges{{data_address(offset), bytes}};
    }

    // Management.

    std::uint64_t management_address(std::uint16_t smid) { return data_address(management_at + 1024 + smid * 256); }
    template <class Frame>
    void put_management(std::uint16_t smid, const Frame& inner) {
        std::memcpy(data(management_at + 1024 + smid * 256), &inner, sizeof inner);
        mrw::ScsiIoRequest& request = frame(smid);
        std::memset(static_cast<void*>(&request), 0, sizeof request);
        request.function = static_cast<std::uint8_t>(mrw::Function::passthrough);
        request.chain_offset = mrw::chain_offset_passthrough;
        request.sgl[0] = {.address = management_address(smid), .bytes = 256, .reserved = {}, .flags = 0x83};
    }
    static mrw::DcmdFrame dcmd(std::uint32_t opcode, std::size_t bytes, std::uint64_t address, mrw::Mailbox mailbox) {
        mrw::DcmdFrame frame;
        frame.header.command = static_cast<std::uint8_t>(mrw::MfiCommand::dcmd);
        frame.header.status = static_cast<std::uint8_t>(mrw::MfiStatus::pending);
        frame.header.sges = bytes > 0 ? 1 : 0;
        frame.header.flags = mrw::mfi_read | mrw::mfi_ieee;
        frame.header.data_bytes = static_cast<std::uint32_t>(bytes);
        frame.opcode = opcode;
        frame.mailbox = mailbox;
        const mrw::MfiSgeIeee sge{.address = address, .bytes = static_cast<std::uint32_t>(bytes), .flags = 0};
        std::memcpy(frame.sgl, &sge, sizeof sge);
        return frame;
    }
    void post_dcmd(std::uint16_t smid, std::uint32_t opcode, std::size_t bytes = 0, mrw::Mailbox mailbox = {},
                   std::size_t answer_at = answers_at) {
        put_management(smid, dcmd(opcode, bytes, data_address(answer_at), mailbox));
        post(smid, mrw::RequestType::scsi_io);
    }
    mrw::MfiStatus management_status(std::uint16_t smid) {
        return mrw::MfiStatus{std::to_integer<std::uint8_t>(data(management_at + 1024 + smid * 256)[2])};
    }
    /// Runs a DCMD to its end; its answer is at data(answers_at).
    mrw::MfiStatus run_dcmd(std::uint32_t opcode, std::size_t bytes = 0, mrw::Mailbox mailbox = {}) {
        std::memset(data(answers_at), 0, 1 << 20);
        post_dcmd(900, opcode, bytes, mailbox);
        const auto reply = wait_next();
        EXPECT_TRUE(reply && reply->smid == 900);
        return management_status(900);
    }
    std::span<const std::byte> answer(std::size_t bytes) { return {data(answers_at), bytes}; }
    template <class T>
    T answer_as() {
        T value;
        std::memcpy(&value, data(answers_at), sizeof value);
        return value;
    }

    /// A task management request; the response that came.
    mrw::TaskResponse run_task(mrw::TaskType type, std::uint16_t handle, bool volume, std::uint16_t task_smid = 0,
                               std::uint16_t smid = 901) {
        post_task(type, handle, volume, task_smid, smid);
        bool answered = false;
        run_until([&] {
            while (const auto reply = next()) {
                answered |= reply->smid == smid;
                if (reply->smid != smid) others.push_back(reply->smid);
            }
            return answered;
        });
        EXPECT_TRUE(answered);
        return task_response(smid);
    }
    void post_task(mrw::TaskType type, std::uint16_t handle, bool volume, std::uint16_t task_smid, std::uint16_t smid) {
        mrw::TaskRequest request;
        request.dev_handle = handle;
        request.task_type = static_cast<std::uint8_t>(type);
        request.task_smid = task_smid;
        request.flags = volume ? mrw::task_for_ld : mrw::task_for_pd;
        std::memcpy(static_cast<void*>(&frame(smid)), &request, sizeof request);
        post(smid, mrw::RequestType::high_priority);
    }
    mrw::TaskResponse task_response(std::uint16_t smid) {
        mrw::TaskReply reply;
        std::memcpy(static_cast<void*>(&reply), reinterpret_cast<const std::byte*>(&frame(smid)) + 0x80, sizeof reply);
        return mrw::TaskResponse{reply.response};
    }
    std::vector<std::uint16_t> others;  ///< replies that came before a task's

  private:
    static constexpr unsigned max_queues = 16;

    SimulatedWorld world_{1};
    std::unique_ptr<Reactor> reactor_;
    mrw::Generation generation_;
    device::megaraid::Controller* controller_ = nullptr;
    std::unique_ptr<pci::Function> function_;
    std::optional<pci::Bar> bar_;
    pci::DmaMemory frames_, chains_, sense_, data_, replies_;
    unsigned queues_ = 1;
    std::array<unsigned, max_queues> index_{};
};

}  // namespace mqblk::test
