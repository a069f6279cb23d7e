// SPDX-License-Identifier: Apache-2.0
//
// One sentence for each way in which a connection cannot be had: the address, the reason and the remedy.
#include "fabric/errors.h"

#include <cerrno>

namespace mqblk::fabric {

Error connect_error(int error_number, const Address& to) {
    const std::string what = "connect to " + to.to_string();
    switch (error_number) {
        case ECONNREFUSED:
            return {Errc::unreachable, what + ": connection refused; is a target listening there?"};
        case ENETUNREACH:
        case EHOSTUNREACH:
            return {Errc::unreachable, what + ": no route to this address; check the address and the network"};
        case ETIMEDOUT:
            return {Errc::timed_out, what + ": no answer in time; check the address and any firewall between"};
        default:
            return Error::from_errno(error_number, what);
    }
}

Error listen_error(int error_number, const Address& at) {
    const std::string what = "listen on " + at.to_string();
    switch (error_number) {
        case EADDRINUSE:
            return {Errc::already_exists,
                    what + ": the address is in use; choose another port or end the program that listens there"};
        case EADDRNOTAVAIL:
            return {Errc::unreachable, what + ": this machine has no such address; choose one of its own"};
        case EACCES:
            return {Errc::permission_denied, what + ": not permitted; choose a port from 1024 up"};
        default:
            return Error::from_errno(error_number, what);
    }
}

}  // namespace mqblk::fabric
