// SPDX-License-Identifier: Apache-2.0
#include "cli/transfer/operand.h"

#include "cli/transfer/pipeline.h"
#include "registry/services.h"
#include "registry/uri.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>

namespace mqblk::cli {

namespace {

std::string place_of(const struct stat& status) {
    return fmt::format("{}:{}", status.st_dev, status.st_ino);
}

/// The file URI of a path, for block devices given by their path.
std::string file_uri(const std::string& path) {
    char absolute[PATH_MAX];
    registry::Uri uri;
    uri.scheme = "file";
    uri.path = ::realpath(path.c_str(), absolute) != nullptr ? absolute : path;
    return uri.to_string();
}

}  // namespace

Result<> check_writable(const std::string& name, const Device& device) {
    if (!device.read_only()) return {};
    return fail(Errc::invalid_argument,
                name + ": the device is write-protected; open or serve it without ro=1 to change it");
}

Result<> Operand::check_writable() const {
    return device_ ? cli::check_writable(name_, *device_) : Result<>{};
}

Operand::Operand(Operand&& other) noexcept
    : name_(std::move(other.name_)),
      device_(std::move(other.device_)),
      fd_(std::exchange(other.fd_, -1)),
      owned_(std::exchange(other.owned_, false)),
      stream_(other.stream_),
      bytes_(other.bytes_),
      place_(std::move(other.place_)) {}

Operand::~Operand() {
    if (owned_) ::close(fd_);
}

Result<Operand> Operand::open_device(Session& session, const std::string& name, const std::string& uri) {
    auto device = session.context().open(uri);
    if (!device) return std::unexpected(device.error());
    Operand operand(name);
    operand.bytes_ = (*device)->sectors() * sector_bytes;
    operand.device_ = std::move(*device);
    const auto parsed = registry::Uri::parse(uri);
    struct stat status{};
    if (parsed && parsed->scheme == "file" && ::stat(parsed->path.c_str(), &status) == 0) {
        operand.place_ = place_of(status);
    } else {
        operand.place_ = operand.device_->identity().uuid;
    }
    return operand;
}

Result<Operand> Operand::open_path(Session& session, const std::string& path, int flags) {
    Operand operand(path);
    // Whether it is new decides whether it goes again if nothing comes of it.
    if ((flags & O_CREAT) != 0) operand.fd_ = ::open(path.c_str(), flags | O_EXCL | O_CLOEXEC, 0666);
    if (operand.fd_ >= 0) {
        session.context().services().note_created(path);
    } else {
        operand.fd_ = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
    }
    if (operand.fd_ < 0 && errno == ENOENT && (flags & O_CREAT) == 0) {
        return fail(Errc::not_found, fmt::format("{}: there is no such file; name one, or a device by its URI", path));
    }
    if (operand.fd_ < 0) return std::unexpected(Error::from_errno(errno, fmt::format("opening {}", path)));
    operand.owned_ = true;
    struct stat status{};
    if (::fstat(operand.fd_, &status) != 0) {
        return std::unexpected(Error::from_errno(errno, fmt::format("looking at {}", path)));
    }
    if (S_ISBLK(status.st_mode)) return open_device(session, path, file_uri(path));
    if (S_ISDIR(status.st_mode)) {
        return fail(Errc::invalid_argument, fmt::format("{} is a directory; name a file or a URI", path));
    }
    operand.stream_ = !S_ISREG(status.st_mode);
    if (!operand.stream_) operand.place_ = place_of(status);
    operand.bytes_ = operand.stream_ ? 0 : static_cast<std::uint64_t>(status.st_size);
    return operand;
}

Result<Operand> Operand::open_source(Session& session, const std::string& text) {
    if (is_uri(text)) return open_device(session, text, text);
    if (text != "-") return open_path(session, text, O_RDONLY);
    Operand operand("standard input");
    operand.fd_ = STDIN_FILENO;
    operand.stream_ = true;
    return operand;
}

Result<Operand> Operand::open_destination(Session& session, const std::string& text) {
    if (is_uri(text)) return open_device(session, text, text);
    if (text != "-") return open_path(session, text, O_RDWR | O_CREAT);
    if (::isatty(STDOUT_FILENO) == 1) {
        return fail(Errc::invalid_argument, "the data would go to a terminal; use -o FILE or a pipe");
    }
    Operand operand("standard output");
    operand.fd_ = STDOUT_FILENO;
    operand.stream_ = true;
    return operand;
}

std::size_t Operand::block_bytes() const noexcept {
    return device_ ? device_->limits().logical_block_size : 1;
}

Result<std::unique_ptr<Endpoint>> Operand::endpoint(Session& session, std::uint64_t offset, bool fua) {
    if (!device_) return descriptor_endpoint(name_, fd_, stream_);
    const auto reactor = session.reactor();
    if (!reactor) return std::unexpected(reactor.error());
    return device_endpoint(name_, device_, **reactor, offset, fua);
}

Result<> Operand::set_length(std::uint64_t bytes) {
    if (device_ || stream_ || ::ftruncate(fd_, static_cast<off_t>(bytes)) == 0) return {};
    return std::unexpected(Error::from_errno(errno, fmt::format("setting the length of {}", name_)));
}

Result<std::uint64_t> Operand::length_to_move(bool given, std::uint64_t length) const {
    if (stream_) return given ? length : Pipeline::to_the_end;
    if (given && length > bytes_) {
        return fail(Errc::invalid_argument,
                    fmt::format("--length {} is more than {} holds: {} bytes", length, name_, bytes_));
    }
    return given ? length : bytes_;
}

}  // namespace mqblk::cli
