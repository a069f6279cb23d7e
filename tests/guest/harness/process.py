# SPDX-License-Identifier: Apache-2.0
"""Child processes that end with the test, however it ends."""
import ctypes
import signal
import subprocess

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def start(command, **options):
    """Like Popen; the kernel kills the child when this process is gone."""
    def die_with_parent():
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return subprocess.Popen([str(word) for word in command], preexec_fn=die_with_parent, stdin=subprocess.DEVNULL, **options)


def end(process):
    if process and process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
