// SPDX-License-Identifier: Apache-2.0
//
// Typed reading of a URI's options, checked against what its scheme allows. A reader keeps the first error, so that an
// opener reads all it wants and asks once. Every error names the URI's scheme, the option, the value and what would do.
#pragma once

#include "base/clock.h"
#include "registry/uri.h"

#include <mqblk/error.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mqblk::registry {

/// One option of a scheme, as the table in schemes.cpp and the help show it.
struct OptionInfo {
    std::string_view name;
    std::string_view form;      ///< "SIZE", "TIME", "N", "0|1", "512|4096", "[URI]"
    std::string_view standard;  ///< the default as text; empty: required, or none
    std::string_view help;      ///< one line
    bool repeats = false;       ///< may be given more than once
};

class OptionReader {
  public:
    /// Complains about options that are not in `allowed`, or are repeated and must not be.
    OptionReader(const Uri& uri, std::span<const OptionInfo> allowed);

    [[nodiscard]] bool has(std::string_view name) const noexcept { return uri_.find(name) != nullptr; }

    // Each returns `standard` where the option is absent or wrong; bounds are inclusive.
    std::uint64_t size(std::string_view name, std::uint64_t standard, std::uint64_t low, std::uint64_t high);
    std::uint64_t number(std::string_view name, std::uint64_t standard, std::uint64_t low, std::uint64_t high);
    Duration time(std::string_view name, Duration standard, Duration low, Duration high);
    bool flag(std::string_view name, bool standard);  ///< 0/1, no/yes, off/on, false/true; the name alone is true
    std::string text(std::string_view name, std::string_view standard);
    std::size_t choice(std::string_view name, std::span<const std::string_view> allowed, std::size_t standard);
    std::vector<const Uri*> uris(std::string_view name);  ///< each in square brackets, in order

    /// Adds an error of the opener's own about option `name` ("must be a multiple of …").
    void reject(std::string_view name, std::string_view why);
    /// The same with a whole sentence.
    void refuse(std::string sentence);

    /// The first error, if there was one.
    [[nodiscard]] Result<> finish() const;

  private:
    const Uri::Option* find(std::string_view name);  ///< with a value; complains about one without
    void keep(std::string message);

    const Uri& uri_;
    std::optional<Error> error_;
};

/// The entry of `names` that `given` was probably meant to be, or an empty text.
[[nodiscard]] std::string_view closest(std::string_view given, std::span<const std::string_view> names);

}  // namespace mqblk::registry
