// SPDX-License-Identifier: Apache-2.0
#include "cli/session.h"

#include "cli/patience.h"
#include "cli/signals.h"
#include "reactor/uring_reactor.h"
#include "registry/services.h"

#include <fmt/format.h>

#include <algorithm>

namespace mqblk::cli {

Context::Options command_options(bool poll) {
    Context::Options options;
    options.poll = poll;
    options.ctrl_loss_tmo_s = command_loss_tmo_s;
    return options;
}

FreshFiles::~FreshFiles() {
    if (!keep_) context_.services().remove_created();
}

Result<Reactor*> Session::reactor() {
    keep_files();
    if (!reactor_) {
        auto made = make_uring_reactor(clock_, random_);
        if (!made) return std::unexpected(made.error());
        reactor_ = std::move(*made);
    }
    return reactor_.get();
}

Result<Range> resolve_range(const std::string& name, const Device& device, std::uint64_t offset,
                            std::optional<std::uint64_t> length) {
    const std::uint64_t block = device.limits().logical_block_size;
    const std::uint64_t end = device.sectors() * sector_bytes;
    const auto whole_blocks = [&](std::string_view what, std::uint64_t value) -> Result<> {
        if (value % block == 0) return {};
        const auto below = value / block * block;
        return fail(
            Errc::invalid_argument,
            fmt::format("{}: {} {} is not a multiple of the device's block of {} bytes; use {}", name, what, value,
                        block, below == 0 ? fmt::format("{}", block) : fmt::format("{} or {}", below, below + block)));
    };
    if (auto ok = whole_blocks("offset", offset); !ok) return std::unexpected(ok.error());
    if (offset >= end) {
        return fail(Errc::invalid_argument, fmt::format("{}: offset {} is beyond the end of the device at {} bytes; "
                                                        "use an offset below that",
                                                        name, offset, end));
    }
    if (!length) return Range{offset, end - offset};
    if (auto ok = whole_blocks("length", *length); !ok) return std::unexpected(ok.error());
    if (*length > end - offset) {
        return fail(Errc::invalid_argument,
                    fmt::format("{}: {} bytes at offset {} pass the end of the device at {} bytes; use at most {}",
                                name, *length, offset, end, end - offset));
    }
    if (*length == 0) return fail(Errc::invalid_argument, fmt::format("{}: length 0 leaves nothing to do", name));
    return Range{offset, *length};
}

Result<std::uint64_t> run_over_range(Session& session, Progress& progress, const std::string& name, Device& device,
                                     Op op, Range range, std::uint8_t flags) {
    constexpr std::uint64_t step_bytes = 256u << 20;
    const auto reactor = session.reactor();
    if (!reactor) return std::unexpected(reactor.error());
    auto channel = device.channel(**reactor);
    if (!channel) return std::unexpected(channel.error().in(name));
    Patience patience(**reactor);
    auto bio = std::make_unique<Bio>();
    std::uint64_t done = 0;
    while (done < range.bytes && Signals::caught() == 0) {
        const auto step = std::min(step_bytes, range.bytes - done);
        *bio = Bio{};
        bio->op = op;
        bio->flags = flags;
        bio->sector = (range.offset + done) / sector_bytes;
        bio->sectors = step / sector_bytes;
        bio->done = [](Bio&) noexcept {};
        (*channel)->submit(*bio);
        while ((*channel)->outstanding() > 0) {
            progress.update(done, range.bytes);
            if (patience.wait(1)) continue;
            static_cast<void>(bio.release());  // still in flight
            static_cast<void>(channel->release());
            return done;
        }
        if (bio->status != Status::ok) {
            const Errc code = bio->status == Status::not_supported ? Errc::not_supported : Errc::io;
            return fail(code, fmt::format("{}: {} of {} bytes at byte {} failed: {}", name, to_string(op), step,
                                          range.offset + done, to_string(bio->status)));
        }
        done += step;
        progress.update(done, range.bytes);
    }
    return done;
}

bool is_uri(const std::string& text) noexcept {
    return text.find("://") != std::string::npos;
}

}  // namespace mqblk::cli
