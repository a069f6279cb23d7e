// SPDX-License-Identifier: Apache-2.0
//
// The MegaRAID controllers that a context has open, by the way that leads to each. URIs that name disks or volumes of
// one controller share it: a card and a vfio-user socket have one user at a time, and the tags of a controller are for
// all of its disks. It is open as long as something of it is in use.
#pragma once

#include "driver/megaraid/megaraid.h"

#include <mqblk/error.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace mqblk::registry {

/// Thread-safe.
class MegaraidControllers {
  public:
    using Adapter = driver::megaraid::Adapter;
    using Open = std::function<Result<std::shared_ptr<Adapter>>()>;

    /// The controller at `way`: the one that is open, else what `open` returns, which runs for one caller at a time.
    /// One that was opened with other `options` (any text) is an error that says so.
    [[nodiscard]] Result<std::shared_ptr<Adapter>> get(const std::string& way, const std::string& options,
                                                       const Open& open);

  private:
    struct Entry {
        std::mutex mutex;
        std::string options;
        Adapter::Trace trace;
    };
    std::mutex mutex_;
    std::map<std::string, std::shared_ptr<Entry>> entries_;
};

}  // namespace mqblk::registry
