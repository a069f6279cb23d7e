// SPDX-License-Identifier: Apache-2.0
//
// A directory for one test, removed with all that is in it, and plain access to its files.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace mqblk::test {

class ScratchDirectory {
  public:
    /// `parent` empty: where the system keeps temporary files.
    explicit ScratchDirectory(std::string parent = {}) {
        if (parent.empty()) parent = std::filesystem::temp_directory_path();
        path_ = parent + "/mqblk-test-XXXXXX";
        if (::mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "mkdtemp in " << parent;
    }
    ~ScratchDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    ScratchDirectory(const ScratchDirectory&) = delete;
    ScratchDirectory& operator=(const ScratchDirectory&) = delete;

    [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
};

inline std::vector<std::byte> file_content(const std::string& path) {
    std::vector<std::byte> result(std::filesystem::file_size(path));
    std::ifstream stream(path, std::ios::binary);
    stream.read(reinterpret_cast<char*>(result.data()), static_cast<std::streamsize>(result.size()));
    EXPECT_TRUE(stream) << path;
    return result;
}

inline void make_file(const std::string& path, std::size_t bytes) {
    std::ofstream(path).close();
    std::filesystem::resize_file(path, bytes);
}

}  // namespace mqblk::test
