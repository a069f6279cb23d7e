// SPDX-License-Identifier: Apache-2.0
#include <mqblk/error.h>

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace mqblk {

std::string_view to_string(Errc code) noexcept {
    switch (code) {
        case Errc::invalid_argument:
            return "invalid argument";
        case Errc::not_found:
            return "not found";
        case Errc::already_exists:
            return "already exists";
        case Errc::permission_denied:
            return "permission denied";
        case Errc::unreachable:
            return "unreachable";
        case Errc::timed_out:
            return "timed out";
        case Errc::not_supported:
            return "not supported";
        case Errc::no_space:
            return "no space";
        case Errc::protocol:
            return "protocol error";
        case Errc::io:
            return "I/O error";
        case Errc::closed:
            return "closed";
    }
    return "unknown error";
}

namespace {
Errc code_of(int error_number) noexcept {
    switch (error_number) {
        case EINVAL:
        case ENAMETOOLONG:
            return Errc::invalid_argument;
        case ENOENT:
        case ENODEV:
        case ENXIO:
        case ENOTDIR:
            return Errc::not_found;
        case EEXIST:
        case EADDRINUSE:
        case EBUSY:
            return Errc::already_exists;
        case EACCES:
        case EPERM:
        case EROFS:
            return Errc::permission_denied;
        case ECONNREFUSED:
        case ENETUNREACH:
        case EHOSTUNREACH:
        case EADDRNOTAVAIL:
            return Errc::unreachable;
        case ETIMEDOUT:
            return Errc::timed_out;
        case EOPNOTSUPP:
        case ENOSYS:
            return Errc::not_supported;
        case ENOSPC:
        case ENOMEM:
        case EMFILE:
        case ENFILE:
        case EDQUOT:
            return Errc::no_space;
        case EPROTO:
            return Errc::protocol;
        case EPIPE:
        case ECONNRESET:
        case ECONNABORTED:
            return Errc::closed;
        default:
            return Errc::io;
    }
}
}  // namespace

Error Error::from_errno(int error_number, std::string_view attempted) {
    return {code_of(error_number), fmt::format("{}: {}", attempted, std::generic_category().message(error_number))};
}

Error Error::in(std::string_view attempted) const {
    return {code_, fmt::format("{}: {}", attempted, message_)};
}

}  // namespace mqblk
