// SPDX-License-Identifier: Apache-2.0
#include "driver/srp/scan.h"

#include "driver/srp/channel.h"
#include "reactor/reactor.h"
#include "wire/scsi_answer.h"
#include "wire/scsi_cdb.h"
#include "wire/scsi_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

namespace mqblk::driver::srp {

using namespace wire::srp;

namespace {

constexpr unsigned most_luns = 1024;
constexpr std::uint32_t most_bytes = sizeof(wire::scsi::LunListHeader) + most_luns * 8;
constexpr unsigned most_tries = 8;

/// A channel for one command at a time.
class ScanChannel final : private ChannelEvents, private Poller {
  public:
    ScanChannel(Session& session, Reactor& reactor, bool keep_others)
        : session_(session), reactor_(reactor), late_([this] { end(Error(Errc::timed_out, "no answer in time")); }) {
        reactor_.add(*this);
        channel_.reset(new Channel(*session.network, reactor, session.address, session.options, 1, keep_others, *this));
    }
    ~ScanChannel() { reactor_.remove(*this); }

    [[nodiscard]] Task<Result<>> login() { co_return co_await wait(); }

    /// The data that came. Unit attentions are passed over.
    [[nodiscard]] Task<Result<std::vector<std::byte>>> ask(unsigned lun, wire::scsi::Cdb cdb, std::uint32_t bytes) {
        for (unsigned tries = 1;; ++tries) {
            std::vector<std::byte> data(bytes);
            if (auto sent = send(lun, cdb, data); !sent) co_return std::unexpected(sent.error());
            const Result<> done = co_await wait();
            if (channel_ != nullptr) channel_->mapper().unmap(channel_->queue_pair(), 0);
            if (!done) co_return std::unexpected(done.error().in(session_.address.to_string()));
            if (answer_.verdict == wire::scsi::Verdict::good) {
                data.resize(bytes - std::min(missing_, bytes));
                co_return data;
            }
            if (answer_.verdict == wire::scsi::Verdict::error || tries == most_tries)
                co_return fail(Errc::io, fmt::format("{}: LUN {} fails command {:#x}: {}", session_.address.to_string(),
                                                     lun, cdb[0], mqblk::to_string(answer_.status)));
        }
    }

  private:
    [[nodiscard]] Result<> send(unsigned lun, const wire::scsi::Cdb& cdb, std::span<std::byte> data) {
        if (channel_ == nullptr || !channel_->has_task_credit() || !channel_->slot_is_free(0))
            return fail(Errc::protocol,
                        fmt::format("{}: the SRP target gives no credits", session_.address.to_string()));
        Cmd cmd;
        cmd.tag = ++tag_;
        cmd.lun = encode_lun(lun);
        cmd.cdb = cdb;
        std::uint32_t size = sizeof cmd;
        std::byte* const unit = channel_->unit(0).data();
        if (!data.empty()) {
            const Mapped mapped = channel_->mapper().map(channel_->queue_pair(), 0, true,
                                                         [&](auto&& add) { add(data.data(), data.size()); });
            if (!mapped.ok || mapped.count != 1) return fail(Errc::no_space, "the RDMA device registers no memory");
            cmd.buf_fmt = static_cast<std::uint8_t>(DescriptorFormat::direct);
            std::memcpy(unit + size, channel_->mapper().table(0), sizeof(Descriptor));
            size += sizeof(Descriptor);
        }
        std::memcpy(unit, &cmd, sizeof cmd);
        outcome_.reset();
        if (!channel_->send(0, size)) return fail(Errc::io, "the RDMA device takes no command");
        late_.arm(reactor_, reactor_.now() + session_.options.login_bound);
        return {};
    }

    [[nodiscard]] Task<Result<>> wait() {
        Promise<bool> promise;
        if (!outcome_) {
            waiter_ = &promise;
            co_await promise;
        }
        co_return std::move(*outcome_);
    }
    void end(Result<> outcome) {
        late_.cancel();
        if (!outcome_) outcome_ = std::move(outcome);
        if (Promise<bool>* const waiter = std::exchange(waiter_, nullptr); waiter != nullptr)
            reactor_.post([waiter] { waiter->set(true); });
    }
    void end(Error why) { end(Result<>(std::unexpected(std::move(why)))); }

    void channel_live() noexcept override { end(Result<>{}); }
    void channel_lost(const Error& why) noexcept override {
        Error copy = why;
        channel_.reset();
        outcome_.reset();
        end(std::move(copy));
    }
    void answered(const RspView& view) noexcept override {
        if (view.rsp.tag.value() != tag_) return;
        answer_ = wire::scsi::judge(view.rsp.status,
                                    {reinterpret_cast<const std::uint8_t*>(view.sense.data()), view.sense.size()});
        missing_ = (view.rsp.flags & data_in_underflow) != 0 ? view.rsp.data_in_res_cnt.value() : 0;
        end(Result<>{});
    }
    void may_send() noexcept override {}
    unsigned poll() noexcept override { return channel_ != nullptr ? channel_->poll() : 0; }
    bool prepare_sleep() noexcept override { return channel_ == nullptr || channel_->prepare_sleep(); }

    Session& session_;
    Reactor& reactor_;
    std::unique_ptr<Channel> channel_;
    std::optional<Result<>> outcome_;
    Promise<bool>* waiter_ = nullptr;
    std::uint64_t tag_ = 100;
    wire::scsi::Answer answer_;
    std::uint32_t missing_ = 0;
    Timer late_;
};

template <class T>
[[nodiscard]] std::optional<T> as(const Result<std::vector<std::byte>>& data, std::size_t least = sizeof(T)) {
    if (!data || data->size() < least) return {};
    T result{};
    std::memcpy(static_cast<void*>(&result), data->data(), std::min(sizeof result, data->size()));
    return result;
}

std::string text_of(const std::uint8_t* bytes, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i)
        text += bytes[i] >= 0x20 && bytes[i] < 0x7f ? static_cast<char>(bytes[i]) : ' ';
    while (!text.empty() && text.back() == ' ') text.pop_back();
    while (!text.empty() && text.front() == ' ') text.erase(0, 1);
    return text;
}

Task<void> ask_pages(ScanChannel& channel, Unit& unit) {
    namespace vpd = wire::scsi::vpd;
    using wire::scsi::build_inquiry_page;
    const auto serial = co_await channel.ask(unit.lun, build_inquiry_page(vpd::unit_serial_number, 255), 255);
    if (const auto header = as<wire::scsi::VpdHeader>(serial); header && header->page == vpd::unit_serial_number)
        unit.serial = text_of(reinterpret_cast<const std::uint8_t*>(serial->data()) + sizeof *header,
                              std::min<std::size_t>(header->bytes, serial->size() - sizeof *header));
    const auto block =
        as<wire::scsi::BlockLimitsPage>(co_await channel.ask(unit.lun, build_inquiry_page(vpd::block_limits, 64), 64));
    const auto provisioning = as<wire::scsi::ProvisioningPage>(
        co_await channel.ask(unit.lun, build_inquiry_page(vpd::logical_block_provisioning, 64), 64));
    const auto shape = as<wire::scsi::BlockCharacteristicsPage>(
        co_await channel.ask(unit.lun, build_inquiry_page(vpd::block_characteristics, 64), 64));
    if (block && block->header.page == vpd::block_limits) {
        unit.max_transfer_blocks = block->max_transfer_blocks;
        const bool unmaps = provisioning && provisioning->header.page == vpd::logical_block_provisioning &&
                            (provisioning->flags & wire::scsi::provisioning_unmap) != 0;
        if (unmaps && block->max_unmap_descriptors != 0u) unit.max_unmap_blocks = block->max_unmap_blocks;
        if (block->optimal_unmap_granularity_blocks != 0u)
            unit.unmap_granularity_blocks = block->optimal_unmap_granularity_blocks;
        unit.max_write_same_blocks =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(block->max_write_same_blocks, 0xffffffff));
    }
    if (shape && shape->header.page == vpd::block_characteristics) unit.rotational = shape->rotation_rate > 1;
}

/// False: it is no disk that can be used.
Task<bool> ask_unit(ScanChannel& channel, Unit& unit) {
    const auto inquiry = as<wire::scsi::InquiryData>(
        co_await channel.ask(unit.lun, wire::scsi::build_inquiry(sizeof(wire::scsi::InquiryData)),
                             sizeof(wire::scsi::InquiryData)),
        36);
    if (!inquiry || inquiry->peripheral != 0) co_return false;
    unit.vendor = text_of(inquiry->vendor, sizeof inquiry->vendor);
    unit.product = text_of(inquiry->product, sizeof inquiry->product);
    unit.revision = text_of(inquiry->revision, sizeof inquiry->revision);
    const auto capacity = as<wire::scsi::Capacity16>(co_await channel.ask(
        unit.lun, wire::scsi::build_read_capacity_16(sizeof(wire::scsi::Capacity16)), sizeof(wire::scsi::Capacity16)));
    if (!capacity) co_return false;
    const std::uint32_t block = capacity->block_bytes;
    const unsigned exponent = capacity->exponents & 0x0f;
    if (block < 512 || block > Mapper::zero_bytes || !std::has_single_bit(block) || exponent > 12) co_return false;
    unit.block_bytes = block;
    unit.block_shift = static_cast<unsigned>(std::countr_zero(block)) - 9;
    if (capacity->last_lba >= (std::uint64_t{1} << 53)) co_return false;
    unit.blocks = capacity->last_lba + 1;
    unit.physical_bytes = block << exponent;
    co_await ask_pages(channel, unit);
    const auto modes =
        co_await channel.ask(unit.lun, wire::scsi::build_mode_sense_6(wire::scsi::mode_page::caching, 192), 192);
    if (const auto header = as<wire::scsi::ModeHeader6>(modes)) {
        unit.read_only = (header->device_specific & wire::scsi::mode_write_protected) != 0;
        unit.fua = (header->device_specific & wire::scsi::mode_dpo_fua) != 0;
        const std::size_t at = sizeof *header + header->block_descriptor_bytes;
        if (modes->size() >= at + 3 &&
            (std::to_integer<unsigned>((*modes)[at]) & 0x3f) == wire::scsi::mode_page::caching)
            unit.write_cache = (std::to_integer<unsigned>((*modes)[at + 2]) & wire::scsi::caching_wce) != 0;
    }
    co_return true;
}

std::vector<unsigned> luns_of(std::span<const std::byte> list) {
    std::vector<unsigned> luns;
    wire::scsi::LunListHeader header;
    if (list.size() < sizeof header) return luns;
    std::memcpy(static_cast<void*>(&header), list.data(), sizeof header);
    list = list.subspan(sizeof header);
    const std::size_t bytes = std::min<std::size_t>(header.bytes, list.size());
    for (std::size_t at = 0; at + 8 <= bytes; at += 8) {
        be64 name;
        std::memcpy(static_cast<void*>(&name), list.data() + at, sizeof name);
        const auto lun = decode_lun(name);
        if (lun && std::ranges::find(luns, *lun) == luns.end()) luns.push_back(*lun);
    }
    return luns;
}

}  // namespace

Task<Result<>> scan(Session& session, Reactor& reactor, unsigned channels) {
    ScanChannel channel(session, reactor, false);
    if (auto ok = co_await channel.login(); !ok) co_return std::unexpected(ok.error());
    {
        // How many channels the target allows: as many as can be had at once.
        std::vector<std::unique_ptr<ScanChannel>> others;
        session.channels = 1;
        while (session.channels < channels) {
            others.push_back(std::make_unique<ScanChannel>(session, reactor, true));
            if (!co_await others.back()->login()) break;
            ++session.channels;
        }
    }
    const auto list = co_await channel.ask(0, wire::scsi::build_report_luns(most_bytes), most_bytes);
    if (!list) co_return std::unexpected(list.error());
    for (const unsigned lun : luns_of(*list)) {
        auto unit = std::make_unique<Unit>();
        unit->lun = lun;
        if (co_await ask_unit(channel, *unit)) session.units.push_back(std::move(unit));
    }
    co_return Result<>{};
}

}  // namespace mqblk::driver::srp
