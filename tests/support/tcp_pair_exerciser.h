// SPDX-License-Identifier: Apache-2.0
//
// A TcpQueuePair over a connection in memory, whose target is whoever writes into it. Commands live in slots of exactly
// their size, so that a byte written outside of one is found by the address sanitizer.
#pragma once

#include "driver/nvme/tcp_queue_pair.h"
#include "support/memory_connection.h"

#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace mqblk::test {

class TcpPairExerciser final : public driver::nvme::QueuePairEvents {
  public:
    using Terms = driver::nvme::TcpQueuePair::Terms;
    using Transfer = driver::nvme::Transfer;

    struct Slot {
        driver::nvme::Capsule capsule;
        std::vector<std::byte> memory;
        unsigned completions = 0;
        std::uint16_t status = 0;
    };

    explicit TcpPairExerciser(Terms terms, std::size_t step = SIZE_MAX) {
        auto ends = connection_pair();
        ends.first->receive_limit = [step] { return step; };
        target = std::move(ends.second);
        pair = std::make_unique<driver::nvme::TcpQueuePair>(std::move(ends.first), *this, terms);
        pair->initialize();
    }

    /// What the target writes; nothing when the host has closed.
    void feed(std::span<const std::byte> bytes) {
        const Segment segment{const_cast<std::byte*>(bytes.data()), bytes.size()};
        target->send(Segments(&segment, 1), false);
    }
    template <class Pdu>
    void feed_pdu(const Pdu& pdu) {
        feed(std::as_bytes(std::span(&pdu, 1)));
    }
    void accept(std::uint8_t digests = 0, std::uint32_t max_data = 4096) {
        wire::nvme_tcp::IcResp response{};
        response.ch.type = static_cast<std::uint8_t>(wire::nvme_tcp::PduType::ic_resp);
        response.ch.hlen = sizeof(response);
        response.ch.plen = sizeof(response);
        response.dgst = digests;
        response.maxh2cdata = max_data;
        feed_pdu(response);
        pump();
    }
    /// Everything the host has sent since.
    std::vector<std::byte> sent() {
        std::vector<std::byte> all(1u << 20);
        Segment room{all.data(), all.size()};
        all.resize(target->receive(Segments(&room, 1)).bytes);
        return all;
    }
    Slot& submit(std::uint16_t id, Transfer transfer, std::size_t bytes) {
        if (slots.size() <= id) slots.resize(id + 1u);
        slots[id] = std::make_unique<Slot>();
        Slot& slot = *slots[id];
        slot.memory.resize(bytes);
        for (std::size_t i = 0; i < bytes; ++i) slot.memory[i] = static_cast<std::byte>(i * 5 + id);
        slot.capsule.command().command_id = id;
        if (transfer == Transfer::none) {
            slot.capsule.set_no_data();
        } else {
            slot.capsule.set_flat(transfer, slot.memory.data(), bytes);
        }
        slot.capsule.rewind();
        pair->submit(slot.capsule);
        pair->commit();
        return slot;
    }
    void pump() {
        for (unsigned idle = 0; idle < 2 && !pair->lost();) idle = pair->poll() == 0 ? idle + 1 : 0;
    }

    driver::nvme::Capsule* find(std::uint16_t id) noexcept override {
        if (id >= slots.size() || slots[id] == nullptr) return nullptr;
        auto& capsule = slots[id]->capsule;
        return capsule.state == driver::nvme::Capsule::State::sent ? &capsule : nullptr;
    }
    void completed(driver::nvme::Capsule& capsule, const wire::nvme::Completion& completion) noexcept override {
        capsule.state = driver::nvme::Capsule::State::idle;
        Slot& slot = *slots[capsule.command().command_id];
        ++slot.completions;
        slot.status = wire::nvme::status_of(completion);
    }

    std::deque<std::unique_ptr<Slot>> slots;
    std::unique_ptr<MemoryConnection> target;
    std::unique_ptr<driver::nvme::TcpQueuePair> pair;
};

}  // namespace mqblk::test
