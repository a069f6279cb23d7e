// SPDX-License-Identifier: Apache-2.0
//
// Somebody else's program in C: a block is written to a disk in memory and read back.
#include <mqblk/mqblk.h>

#include <stdio.h>
#include <string.h>

int main(void) {
    mqblk_context* context;
    mqblk_device* device;
    char out[4096], in[4096] = "";
    memset(out, 42, sizeof out);
    mqblk_context_open(&context);
    int failed = mqblk_open(context, "ram://?size=1M", &device);
    if (!failed) failed = mqblk_write(device, out, sizeof out, 8192);
    if (!failed) failed = mqblk_read(device, in, sizeof in, 8192);
    if (failed) return fprintf(stderr, "%s\n", mqblk_last_error()), 1;
    mqblk_close(device);
    mqblk_context_close(context);
    puts(memcmp(in, out, sizeof in) == 0 ? "in C: what was written was read" : "in C: differs");
    return memcmp(in, out, sizeof in) != 0;
}
