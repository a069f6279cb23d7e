// SPDX-License-Identifier: Apache-2.0
//
// Errors are values. An Error carries a code for programs and one sentence for people: what was attempted, on what,
// why it failed and, where there is one, the remedy. The I/O path uses Status (see status.h), which never allocates.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace mqblk {

enum class Errc : std::uint8_t {
    invalid_argument,   ///< a value out of range, malformed or contradictory
    not_found,          ///< no such file, namespace, subsystem, scheme
    already_exists,     ///< name or address in use
    permission_denied,  ///< refused by the system or by the peer (host not allowed)
    unreachable,        ///< no route, refused connection, name that does not resolve
    timed_out,          ///< no answer within the stated bound
    not_supported,      ///< this machine, device or peer lacks it
    no_space,           ///< out of memory, tags, queues or disk
    protocol,           ///< the peer broke the protocol
    io,                 ///< the device or the system failed the operation
    closed,             ///< the object was shut down or removed meanwhile
};

[[nodiscard]] std::string_view to_string(Errc) noexcept;

class Error {
  public:
    Error(Errc code, std::string message) : code_(code), message_(std::move(message)) {}

    /// From an errno value: the code that fits it and "`attempted`: strerror text".
    static Error from_errno(int error_number, std::string_view attempted);

    [[nodiscard]] Errc code() const noexcept { return code_; }
    [[nodiscard]] const std::string& message() const noexcept { return message_; }

    /// The same error seen from one level up: "`attempted`: message".
    [[nodiscard]] Error in(std::string_view attempted) const;

  private:
    Errc code_;
    std::string message_;
};

template <class T = void>
using Result = std::expected<T, Error>;

[[nodiscard]] inline std::unexpected<Error> fail(Errc code, std::string message) {
    return std::unexpected<Error>(std::in_place, code, std::move(message));
}

}  // namespace mqblk
