# SPDX-License-Identifier: Apache-2.0
"""How fast this processor's time-stamp counter counts, which QEMU's emulated processors show as theirs.

A guest that measures this itself on a busy machine may be wrong by a factor of ten; its clock then runs so much too fast,
and every time-out in it ends too early.
"""
import ctypes
import functools
import mmap
import platform
import time

RDTSC = bytes.fromhex("0f31 48c1e220 4809d0 c3")  # rdtsc; shl rdx, 32; or rax, rdx; ret
WINDOW_S, WINDOWS = 0.02, 9


def reader():
    """A function that reads the counter."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(RDTSC)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    read.page = page  # lives as long as the function
    return read


@functools.cache
def khz():
    """The median of some windows, each right to a per mille on an idle machine; None where there is no such counter."""
    if platform.machine() != "x86_64":
        return None
    read, rates = reader(), []
    for _ in range(WINDOWS):
        ns, count = time.monotonic_ns(), read()
        time.sleep(WINDOW_S)
        rates.append((read() - count) * 1_000_000 // (time.monotonic_ns() - ns))
    return sorted(rates)[WINDOWS // 2]
