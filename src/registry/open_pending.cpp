// SPDX-License-Identifier: Apache-2.0
#include "registry/schemes.h"

namespace mqblk::registry {

namespace {
std::unexpected<Error> not_built_in(const Uri& uri) {
    return fail(Errc::not_supported, uri.scheme + " is not built in");
}
}  // namespace

Result<std::shared_ptr<Device>> open_null(Services&, const Uri& uri, const SchemeInfo&) {
    return not_built_in(uri);
}
Result<std::shared_ptr<Device>> open_ram(Services&, const Uri& uri, const SchemeInfo&) {
    return not_built_in(uri);
}
Result<std::shared_ptr<Device>> open_file(Services&, const Uri& uri, const SchemeInfo&) {
    return not_built_in(uri);
}
Result<std::shared_ptr<Device>> open_nvme_tcp(Services&, const Uri& uri, const SchemeInfo&) {
    return not_built_in(uri);
}
Result<std::shared_ptr<Device>> open_nvme_loop(Services&, const Uri& uri, const SchemeInfo&) {
    return not_built_in(uri);
}

}  // namespace mqblk::registry
