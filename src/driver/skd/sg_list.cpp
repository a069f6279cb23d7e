// SPDX-License-Identifier: Apache-2.0
#include "driver/skd/sg_list.h"

#include <cstring>
#include <optional>
#include <utility>

namespace mqblk::driver::skd {

using block::Request;
using namespace wire::skd;

namespace {

constexpr std::uint64_t misaligned = dma_alignment - 1;

/// The address of a piece as the card sees it, if it can.
std::optional<std::uint64_t> reach(const pci::DmaSpace& space, const std::byte* data, std::size_t bytes) noexcept {
    const auto address = space.address(data, bytes);
    if (!address || ((*address | bytes) & misaligned) != 0) return std::nullopt;
    return address;
}

void write_single(Context& context, const CommandMemory& memory, unsigned tag, std::uint64_t address,
                  std::uint64_t bytes) noexcept {
    memory.single(tag) = {.control = sg_last, .bytes = static_cast<std::uint32_t>(bytes), .host_address = address};
    context.list_address = memory.single_address(tag);
}

/// All of the data, where it is one piece of the first bio.
Segment first_piece(const Request& request, std::uint64_t bytes) noexcept {
    const Segments& all = request.data.bio->data;
    if (request.segments != 1 || request.data.segment >= all.size()) return {nullptr, 0};
    const Segment& first = all[request.data.segment];
    if (first.bytes - request.data.offset < bytes) return {nullptr, 0};
    return {first.data + request.data.offset, static_cast<std::size_t>(bytes)};
}

bool gather_list(const Request& request, Context& context, const CommandMemory& memory) noexcept {
    SgDescriptor* const list = memory.list(request.tag);
    const std::uint64_t address = memory.list_address(request.tag);
    std::size_t count = 0;
    bool reached = true;
    request.for_each_segment([&](std::byte* data, std::size_t bytes) noexcept {
        const auto place = reach(memory.space(), data, bytes);
        if (!place) {
            reached = false;
            return;
        }
        if (!reached) return;
        list[count] = {.control = sg_not_last,
                       .bytes = static_cast<std::uint32_t>(bytes),
                       .host_address = *place,
                       .next_address = address + (count + 1) * sizeof(SgDescriptor)};
        ++count;
    });
    if (!reached) return false;
    list[count - 1].control = sg_last;
    list[count - 1].next_address = 0;
    context.list_address = address;
    return true;
}

bool gather_by_copy(const Request& request, Context& context, const CommandMemory& memory,
                    std::uint64_t bytes) noexcept {
    context.bounce = memory.bounce().get(bytes);
    if (context.bounce == nullptr) return false;
    if (request.op == Op::write) {
        std::byte* to = context.bounce;
        request.for_each_segment([&](const std::byte* data, std::size_t count) noexcept {
            std::memcpy(to, data, count);
            to += count;
        });
    }
    write_single(context, memory, request.tag, memory.bounce().address(context.bounce), bytes);
    return true;
}

}  // namespace

bool gather(const Request& request, Context& context, CommandMemory& memory) noexcept {
    const std::uint64_t bytes = request.data_bytes();
    if (const Segment piece = first_piece(request, bytes); piece.data != nullptr) [[likely]] {
        if (const auto address = reach(memory.space(), piece.data, piece.bytes)) [[likely]] {
            write_single(context, memory, request.tag, *address, bytes);
            return true;
        }
    } else if (gather_list(request, context, memory)) {
        return true;
    }
    return gather_by_copy(request, context, memory, bytes);
}

void let_go(const Request& request, Context& context, CommandMemory& memory, bool filled) noexcept {
    std::byte* const bounce = std::exchange(context.bounce, nullptr);
    if (bounce == nullptr) return;
    if (filled && request.op == Op::read) {
        const std::byte* from = bounce;
        request.for_each_segment([&](std::byte* data, std::size_t count) noexcept {
            std::memcpy(data, from, count);
            from += count;
        });
    }
    memory.bounce().put(bounce, request.data_bytes());
}

}  // namespace mqblk::driver::skd
