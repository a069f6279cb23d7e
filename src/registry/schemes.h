// SPDX-License-Identifier: Apache-2.0
//
// The one table of everything a URI can name: schemes, their options with defaults, and who opens them. Errors, help,
// shell completion and docs/uris.md are made from it. A new driver adds its entry here and an opener beside it.
#pragma once

#include "registry/options.h"
#include "registry/uri.h"

#include <mqblk/device.h>
#include <mqblk/error.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace mqblk::registry {

class Services;

struct SchemeInfo {
    std::string_view name;     ///< "nvme+tcp"
    std::string_view form;     ///< "nvme+tcp://HOST:PORT/NQN/NSID"
    std::string_view summary;  ///< what it is, one sentence
    std::string_view example;
    std::span<const OptionInfo> options;
    /// Opens it. Options were not checked yet; the opener makes an OptionReader with `info.options`.
    Result<std::shared_ptr<Device>> (*open)(Services&, const Uri&, const SchemeInfo& info);
};

[[nodiscard]] std::span<const SchemeInfo> schemes() noexcept;

/// The entry for a scheme, or an error that names it, the one probably meant and all there are.
[[nodiscard]] Result<const SchemeInfo*> find_scheme(std::string_view name);

/// The table as text for `mqblk help uris`, or as Markdown for docs/uris.md.
[[nodiscard]] std::string describe_schemes(bool markdown);

// The openers, by file.
Result<std::shared_ptr<Device>> open_null(Services&, const Uri&, const SchemeInfo&);            // open_local.cpp
Result<std::shared_ptr<Device>> open_ram(Services&, const Uri&, const SchemeInfo&);             // open_local.cpp
Result<std::shared_ptr<Device>> open_file(Services&, const Uri&, const SchemeInfo&);            // open_local.cpp
Result<std::shared_ptr<Device>> open_nvme_tcp(Services&, const Uri&, const SchemeInfo&);        // open_nvme.cpp
Result<std::shared_ptr<Device>> open_nvme_loop(Services&, const Uri&, const SchemeInfo&);       // open_nvme.cpp
Result<std::shared_ptr<Device>> open_skd_model(Services&, const Uri&, const SchemeInfo&);       // open_skd.cpp
Result<std::shared_ptr<Device>> open_skd_vfio_user(Services&, const Uri&, const SchemeInfo&);   // open_skd.cpp
Result<std::shared_ptr<Device>> open_skd_pci(Services&, const Uri&, const SchemeInfo&);         // open_skd.cpp
Result<std::shared_ptr<Device>> open_megaraid_model(Services&, const Uri&, const SchemeInfo&);  // open_megaraid.cpp
Result<std::shared_ptr<Device>> open_megaraid_vfio_user(Services&, const Uri&, const SchemeInfo&);
Result<std::shared_ptr<Device>> open_megaraid_pci(Services&, const Uri&, const SchemeInfo&);
Result<std::shared_ptr<Device>> open_srp_loop(Services&, const Uri&, const SchemeInfo&);  // open_srp.cpp

}  // namespace mqblk::registry
