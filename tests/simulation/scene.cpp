// SPDX-License-Identifier: Apache-2.0
#include "simulation/scene.h"

#include "simulation/seeds.h"

#include <fmt/format.h>

#include <cstdio>

namespace mqblk::simulation {

void Scene::note(const std::string& line) {
    for (const char c : line) trace_ = (trace_ ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    trace_ = (trace_ ^ static_cast<std::uint64_t>(sim.now().time_since_epoch().count())) * 0x100000001b3u;
    if (replaying()) std::fprintf(stderr, "%12.6f %s\n", sim.now().time_since_epoch().count() / 1e9, line.c_str());
}

void Scene::tell(const std::string& line) {
    story_ += fmt::format("{} us: {}\n", sim.now().time_since_epoch().count() / 1000, line);
    note(line);
}

}  // namespace mqblk::simulation
