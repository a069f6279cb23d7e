// SPDX-License-Identifier: Apache-2.0
#include "memory/buffer_shares.h"

#include <algorithm>
#include <bit>

namespace mqblk::memory {

std::size_t BufferShares::block_of(std::size_t bytes) noexcept {
    return std::bit_ceil(std::max(bytes, BufferPool::min_block_bytes));
}

bool BufferShares::may_take(const BufferAccount& account, std::size_t block) const noexcept {
    if (account.used_bytes == 0) return true;
    const std::size_t budget = pool_.budget_bytes();
    return used_bytes_ < budget && account.used_bytes + block <= budget - used_bytes_;
}

BufferPool::Grant BufferShares::ask(SharedBufferRequest& request) noexcept {
    const BufferPool::Grant grant = pool_.get(request);
    if (grant == BufferPool::Grant::too_large) return grant;
    const std::size_t block = block_of(request.bytes);
    request.account->used_bytes += block;
    used_bytes_ += block;
    return grant;
}

BufferPool::Grant BufferShares::get(SharedBufferRequest& request) noexcept {
    if (request.account->first == nullptr && may_take(*request.account, block_of(request.bytes))) return ask(request);
    if (request.bytes == 0 || request.bytes > pool_.max_block_bytes()) return BufferPool::Grant::too_large;
    hold_back(request);
    return BufferPool::Grant::waiting;
}

void BufferShares::put(BufferAccount& account, std::byte* data, std::size_t bytes) noexcept {
    settle(account, bytes);
    pool_.put(data, bytes);
    serve();
}

void BufferShares::cancel(SharedBufferRequest& request) noexcept {
    if (request.held_back.waiting) {
        let_go(request);
    } else if (request.link.waiting) {
        settle(*request.account, request.bytes);
        pool_.cancel(request);
    }
    serve();
}

void BufferShares::settle(BufferAccount& account, std::size_t bytes) noexcept {
    const std::size_t block = block_of(bytes);
    account.used_bytes -= block;
    used_bytes_ -= block;
}

void BufferShares::hold_back(SharedBufferRequest& request) noexcept {
    BufferAccount& account = *request.account;
    request.held_back = {nullptr, account.last, true};
    (account.last != nullptr ? account.last->held_back.next : account.first) = &request;
    account.last = &request;
    ++waiting_;
    if (account.next != nullptr) return;
    if (turn_ == nullptr) {
        turn_ = account.next = account.previous = &account;
    } else {
        account.next = turn_;
        account.previous = turn_->previous;
        account.previous->next = turn_->previous = &account;
    }
    ++accounts_;
}

void BufferShares::let_go(SharedBufferRequest& request) noexcept {
    BufferAccount& account = *request.account;
    const auto [next, previous, waits] = request.held_back;
    (previous != nullptr ? previous->held_back.next : account.first) = next;
    (next != nullptr ? next->held_back.previous : account.last) = previous;
    request.held_back = {};
    --waiting_;
    if (account.first != nullptr) return;
    if (turn_ == &account) turn_ = account.next == &account ? nullptr : account.next;
    account.previous->next = account.next;
    account.next->previous = account.previous;
    account.next = account.previous = nullptr;
    --accounts_;
}

// One request of each account in turn, until none may have more.
void BufferShares::serve() noexcept {
    if (serving_) return;  // a put() from within `ready`: the loop below goes on
    serving_ = true;
    for (unsigned refused = 0; turn_ != nullptr && refused < accounts_;) {
        BufferAccount& account = *turn_;
        turn_ = account.next;
        SharedBufferRequest& request = *account.first;
        if (!may_take(account, block_of(request.bytes))) {
            ++refused;
            continue;
        }
        refused = 0;
        let_go(request);
        if (ask(request) == BufferPool::Grant::granted) request.ready(request);
    }
    serving_ = false;
}

}  // namespace mqblk::memory
