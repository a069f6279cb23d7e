// SPDX-License-Identifier: Apache-2.0
#include <mqblk/bio.h>
#include <mqblk/status.h>

#include <cerrno>

namespace mqblk {

std::string_view to_string(Status status) noexcept {
    switch (status) {
        case Status::ok:
            return "ok";
        case Status::invalid:
            return "invalid request";
        case Status::out_of_range:
            return "beyond the end of the device";
        case Status::not_supported:
            return "operation not supported";
        case Status::read_only:
            return "device is write-protected";
        case Status::no_space:
            return "no space left";
        case Status::medium_error:
            return "medium error";
        case Status::miscompare:
            return "data differ";
        case Status::protection:
            return "access conflict";
        case Status::io_error:
            return "I/O error";
        case Status::timed_out:
            return "timed out";
        case Status::aborted:
            return "aborted";
        case Status::transport:
            return "path lost";
        case Status::removed:
            return "device removed";
    }
    return "unknown status";
}

int to_errno(Status status) noexcept {
    switch (status) {
        case Status::ok:
            return 0;
        case Status::invalid:
            return EINVAL;
        case Status::out_of_range:
            return ENXIO;
        case Status::not_supported:
            return EOPNOTSUPP;
        case Status::read_only:
            return EROFS;
        case Status::no_space:
            return ENOSPC;
        case Status::medium_error:
            return ENODATA;
        case Status::miscompare:
            return EILSEQ;
        case Status::protection:
            return EBADE;
        case Status::io_error:
            return EIO;
        case Status::timed_out:
            return ETIMEDOUT;
        case Status::aborted:
            return ECANCELED;
        case Status::transport:
            return ENOLINK;
        case Status::removed:
            return ENODEV;
    }
    return EIO;
}

Status status_from_errno(int error_number) noexcept {
    switch (error_number) {
        case 0:
            return Status::ok;
        case EINVAL:
            return Status::invalid;
        case ENXIO:
            return Status::out_of_range;
        case EOPNOTSUPP:
        case ENOSYS:
            return Status::not_supported;
        case EROFS:
        case EPERM:
        case EACCES:
            return Status::read_only;
        case ENOSPC:
        case EDQUOT:
        case EFBIG:
            return Status::no_space;
        case ENODATA:
            return Status::medium_error;
        case EILSEQ:
            return Status::miscompare;
        case EBADE:
            return Status::protection;
        case ETIMEDOUT:
            return Status::timed_out;
        case ECANCELED:
            return Status::aborted;
        case ENOLINK:
            return Status::transport;
        case ENODEV:
            return Status::removed;
        default:
            return Status::io_error;
    }
}

std::string_view to_string(Op op) noexcept {
    switch (op) {
        case Op::read:
            return "read";
        case Op::write:
            return "write";
        case Op::flush:
            return "flush";
        case Op::discard:
            return "discard";
        case Op::write_zeroes:
            return "write_zeroes";
    }
    return "unknown";
}

}  // namespace mqblk
