// SPDX-License-Identifier: Apache-2.0
#include "registry/uri.h"

#include <fmt/format.h>

#include <algorithm>

namespace mqblk::registry {

namespace {

bool is_lower(char c) noexcept {
    return c >= 'a' && c <= 'z';
}
bool is_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}
bool is_name(char c) noexcept {
    return is_lower(c) || is_digit(c) || c == '_' || c == '-' || c == '.';
}
bool is_control(char c) noexcept {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

int hex_digit(char c) noexcept {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/// A text for an error message: whole when short, else its beginning; control characters made visible.
std::string quoted(std::string_view text) {
    constexpr std::size_t shown = 200;
    std::string result = "\"";
    for (const char c : text.substr(0, shown)) {
        if (is_control(c)) {
            result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        } else {
            result += c;
        }
    }
    result += text.size() > shown ? "…\"" : "\"";
    return result;
}

/// Reads one URI that lies at [begin, end) of `whole`; positions in errors are those in `whole`.
class UriParser {
  public:
    UriParser(std::string_view whole, std::size_t begin, std::size_t end, unsigned depth)
        : whole_(whole), at_(begin), end_(end), depth_(depth) {}

    Result<Uri> parse() {
        Uri uri;
        if (auto done = parse_scheme(uri); !done) return std::unexpected(done.error());
        if (auto done = parse_place(uri); !done) return std::unexpected(done.error());
        while (at_ < end_) {
            ++at_;  // the "?" or "&"
            auto option = parse_option();
            if (!option) return std::unexpected(option.error());
            if (!option->name.empty()) uri.options.push_back(std::move(*option));
        }
        return uri;
    }

  private:
    std::unexpected<Error> wrong(std::size_t position, std::string_view what) const {
        return fail(Errc::invalid_argument,
                    fmt::format("URI {}: {} at character {}", quoted(whole_), what, position + 1));
    }
    char peek() const noexcept { return at_ < end_ ? whole_[at_] : '\0'; }

    Result<> parse_scheme(Uri& uri) {
        const std::size_t start = at_;
        while (true) {
            if (!is_lower(peek())) {
                return wrong(at_, at_ == start
                                      ? "expected a scheme such as \"ram\" (lower-case letters; a plain file is "
                                        "file:///PATH)"
                                      : "expected a transport such as \"tcp\" (lower-case letters)");
            }
            while (is_lower(peek()) || is_digit(peek()) || peek() == '-') ++at_;
            if (peek() != '+') break;
            ++at_;
        }
        if (!whole_.substr(at_, end_ - at_).starts_with("://")) {
            return wrong(at_, "expected \"://\" after the scheme (a plain file is file:///PATH)");
        }
        uri.scheme = whole_.substr(start, at_ - start);
        at_ += 3;
        return {};
    }

    Result<> parse_place(Uri& uri) {
        const auto part_end = [&](std::string_view stops) {
            const auto found = whole_.substr(0, end_).find_first_of(stops, at_);
            return found == std::string_view::npos ? end_ : found;
        };
        auto address = decode(part_end("/?"));
        if (!address) return std::unexpected(address.error());
        uri.address = std::move(*address);
        auto path = decode(part_end("?"));
        if (!path) return std::unexpected(path.error());
        uri.path = std::move(*path);
        return {};
    }

    /// From at_ to the "&" or end after it. An empty piece ("?" at the end, "&&") is an option without a name.
    Result<Uri::Option> parse_option() {
        Uri::Option option;
        const std::size_t start = at_;
        while (is_name(peek())) ++at_;
        option.name = whole_.substr(start, at_ - start);
        if (at_ == end_ || peek() == '&') return option;
        if (peek() != '=' || option.name.empty()) {
            return wrong(at_, "expected an option as name=value (lower-case letters, digits, \"_\", \"-\", \".\")");
        }
        ++at_;
        option.has_value = true;
        if (peek() == '[') return parse_nested(std::move(option));
        const auto found = whole_.substr(0, end_).find_first_of("&[]", at_);
        const std::size_t stop = found == std::string_view::npos ? end_ : found;
        if (stop < end_ && whole_[stop] != '&') {
            return wrong(stop, fmt::format("a \"{}\" within a value must be written {}", whole_[stop],
                                           whole_[stop] == '[' ? "%5B" : "%5D"));
        }
        auto value = decode(stop);
        if (!value) return std::unexpected(value.error());
        option.value = std::move(*value);
        return option;
    }

    Result<Uri::Option> parse_nested(Uri::Option option) {
        const std::size_t open = at_;
        if (depth_ + 1 >= Uri::max_depth) {
            return wrong(open, fmt::format("URIs are nested more than {} deep", Uri::max_depth));
        }
        unsigned level = 0;
        std::size_t close = open;
        for (; close < end_; ++close) {
            if (whole_[close] == '[') ++level;
            if (whole_[close] == ']' && --level == 0) break;
        }
        if (close == end_) return wrong(open, "this \"[\" has no matching \"]\"");
        auto nested = UriParser(whole_, open + 1, close, depth_ + 1).parse();
        if (!nested) return std::unexpected(nested.error());
        option.value = whole_.substr(open + 1, close - open - 1);
        option.nested.push_back(std::move(*nested));
        at_ = close + 1;
        if (at_ < end_ && peek() != '&') return wrong(at_, "expected \"&\" or the end after \"]\"");
        return option;
    }

    Result<std::string> decode(std::size_t stop) {
        std::string result;
        result.reserve(stop - at_);
        while (at_ < stop) {
            const char c = whole_[at_];
            if (is_control(c)) return wrong(at_, "a control character must be written as %XX");
            if (c != '%') {
                result += c;
                ++at_;
                continue;
            }
            const int high = at_ + 1 < stop ? hex_digit(whole_[at_ + 1]) : -1;
            const int low = at_ + 2 < stop ? hex_digit(whole_[at_ + 2]) : -1;
            if (high < 0 || low < 0)
                return wrong(at_, "expected two hexadecimal digits after \"%\" (write %25 for itself)");
            if (high == 0 && low == 0) return wrong(at_, "a zero byte (%00) is not allowed");
            result += static_cast<char>(high * 16 + low);
            at_ += 3;
        }
        return result;
    }

    std::string_view whole_;
    std::size_t at_, end_;
    unsigned depth_;
};

std::string encode(std::string_view text, std::string_view reserved) {
    std::string result;
    for (const char c : text) {
        const bool ascii = static_cast<unsigned char>(c) < 0x80;
        if (!ascii || is_control(c) || c == '%' || c == '[' || c == ']' || reserved.find(c) != std::string_view::npos) {
            result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
        } else {
            result += c;
        }
    }
    return result;
}

/// An address keeps the brackets of IPv6, which always come in a pair.
std::string encode_address(std::string_view address) {
    const auto close = address.find(']');
    if (!address.starts_with('[') || close == std::string_view::npos) return encode(address, "/?");
    return fmt::format("[{}]{}", encode(address.substr(1, close - 1), "/?"), encode(address.substr(close + 1), "/?"));
}

}  // namespace

Result<Uri> Uri::parse(std::string_view text) {
    if (text.size() > max_length) {
        return fail(Errc::invalid_argument, fmt::format("URI {}: {} bytes long; at most {} are allowed", quoted(text),
                                                        text.size(), max_length));
    }
    return UriParser(text, 0, text.size(), 0).parse();
}

std::string Uri::to_string() const {
    std::string result = scheme + "://" + encode_address(address) + encode(path, "?");
    char separator = '?';
    for (const auto& option : options) {
        result += separator;
        result += option.name;
        if (!option.nested.empty()) {
            result += "=[" + option.nested.front().to_string() + "]";
        } else if (option.has_value) {
            result += "=" + encode(option.value, "&");
        }
        separator = '&';
    }
    return result;
}

const Uri::Option* Uri::find(std::string_view name) const noexcept {
    const auto found = std::find_if(options.rbegin(), options.rend(), [&](const Option& o) { return o.name == name; });
    return found == options.rend() ? nullptr : &*found;
}

void Uri::set(std::string_view name, std::string value) {
    const auto found = std::find_if(options.begin(), options.end(), [&](const Option& o) { return o.name == name; });
    Option option{std::string(name), std::move(value), true, {}};
    if (found == options.end()) {
        options.push_back(std::move(option));
    } else {
        *found = std::move(option);
    }
}

}  // namespace mqblk::registry
