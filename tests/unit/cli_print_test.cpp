// SPDX-License-Identifier: Apache-2.0
//
// A peer's text in a report: it stays where the report put it.
#include "cli/print.h"

#include <gtest/gtest.h>

#include <string>

namespace mqblk::cli {
namespace {

TEST(Print, TextOfOthersStaysInItsPlace) {
    testing::internal::CaptureStdout();
    const std::string model = "disk\x1b[2J\nready";
    print("{:<6}|{}\n{}|{:>4}|{}\n", "a\tb", model, std::string_view("\r"), 7u, model.c_str());
    flush_output();
    EXPECT_EQ(testing::internal::GetCapturedStdout(),
              "a\\x09b|disk\\x1b[2J\\x0aready\n\\x0d|   7|disk\\x1b[2J\\x0aready\n");
}

TEST(Print, WhatIsWrittenStaysAsItIs) {
    testing::internal::CaptureStdout();
    write_output("two\nlines\n");
    flush_output();
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "two\nlines\n");
}

}  // namespace
}  // namespace mqblk::cli
