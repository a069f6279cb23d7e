// SPDX-License-Identifier: Apache-2.0
//
// The program `mqblk`. Everything is in app.cpp and commands/.
#include "cli/app.h"

int main(int argc, char** argv) {
    return mqblk::cli::run(argc, argv);
}
