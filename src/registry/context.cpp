// SPDX-License-Identifier: Apache-2.0
#include "registry/services.h"

#include <mqblk/context.h>

namespace mqblk {

Context::Context() : Context(Options{}) {}
Context::Context(Options options) : services_(std::make_unique<registry::Services>(std::move(options))) {}
Context::~Context() = default;

Result<std::shared_ptr<Device>> Context::open(std::string_view uri) {
    const auto parsed = registry::Uri::parse(uri);
    if (!parsed) return std::unexpected(parsed.error());
    return services_->open(*parsed);
}

}  // namespace mqblk
