# SPDX-License-Identifier: Apache-2.0
"""The one kind of error that ends an image build or a guest test: a sentence that names the thing and the remedy."""
import contextlib
import subprocess
import sys


class GuestFailure(Exception):
    pass


def need(command, otherwise, **options):
    """Standard output of a command that must succeed; else `otherwise`, below what the command itself said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, **options)
    except FileNotFoundError as missing:
        raise GuestFailure(f"{otherwise}: there is no {missing.filename}; ./test guest installs it as root") from None
    if done.returncode:
        sys.stderr.write("".join((done.stdout + done.stderr).splitlines(keepends=True)[-15:]))
        raise GuestFailure(otherwise)
    return done.stdout


@contextlib.contextmanager
def one_sentence():
    """Around a main program: says the sentence and exits with 1."""
    try:
        yield
    except GuestFailure as failure:
        sys.exit(f"mqblk: {failure}")
