// SPDX-License-Identifier: Apache-2.0
//
// The ways to have a Function with a CopyDevice behind it, so that one suite of tests runs on each.
#pragma once

#include "pci/function.h"
#include "support/pci_copy_device.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mqblk::test {

class PciWorld {
  public:
    virtual ~PciWorld() = default;
    virtual pci::Function& function() = 0;
    virtual Reactor& reactor() = 0;  ///< the driver's
    /// Runs both sides until `done()`; false if that takes longer than on any healthy machine.
    virtual bool run_until(const std::function<bool()>& done) = 0;
    /// Runs `task` where the model lives, and waits for it.
    virtual void with_model(const std::function<void(CopyDevice&)>& task) = 0;

    /// Waits for a reset.
    Result<> reset();
};

struct PciWay {
    const char* name;
    std::unique_ptr<PciWorld> (*make)();
    bool checks_addresses = true;  ///< every one, against what the driver mapped
};
std::string name_of(const testing::TestParamInfo<PciWay>& info);
extern const std::vector<PciWay> pci_ways;

}  // namespace mqblk::test
