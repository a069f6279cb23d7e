# SPDX-License-Identifier: Apache-2.0
"""The images that guests boot from, in the user's cache folder: made once, found by what they are made of.

  root-KEY.ext4             the user land, for all kernels; never written to
  kernel-NAME-KEY/vmlinux   a kernel
  kernel-NAME-KEY/initrd    its modules and busybox; a run adds its own files behind it (harness/guest.py)
  qemu-KEY                  a QEMU that takes cards from other processes, where this machine's own does not (qemu.py)

KEY is a hash of recipe and builder. An image appears under its name only when it is whole; what an interrupted build
left goes with the next one. Needs no root.
"""
import fcntl
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import cpio, qemu, recipe, vmlinux
from .failure import GuestFailure, need
from .mirror import Mirror

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mqblk" / "guest"
KEPT_S = 14 * 86400
UNPACKED = "the guests' image cannot be built; the lines above say why (is there room in {}?)".format(CACHE)


def _key():
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:12]


KEY = _key()


def root_image():
    return CACHE / f"root-{KEY}.ext4"


def kernel_folder(name):
    return CACHE / f"kernel-{name}-{KEY}"


def qemu_folder():
    return CACHE / f"qemu-{KEY}"


def qemu_for_cards():
    """The command that starts it."""
    return qemu.unpacked(qemu_folder()) if qemu_folder().exists() else [qemu.PROGRAM]


def say(sentence):
    print(f"mqblk: guests: {sentence}", file=sys.stderr, flush=True)


def unpack(package, folder, excluded=()):
    """Keeps /bin -> usr/bin and the like where packages still have folders."""
    words = ["tar", "-x", "--keep-directory-symlink", "-C", folder, *(f"--exclude={path}" for path in excluded)]
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as source:
        need([*words, "-f", f"/dev/fd/{source.stdout.fileno()}"], UNPACKED, pass_fds=[source.stdout.fileno()])
    if source.returncode:
        raise GuestFailure(UNPACKED)


def build_root(mirror, work):
    packages = mirror.with_dependencies(recipe.USER_LAND, recipe.USER_LAND_SUITE)
    say(f"unpacking {len(packages)} packages")
    root = work / "root"
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for package in packages:
        unpack(package, root, recipe.EXCLUDED)
    for name in ("dev", "proc", "sys", "run", "tmp", "mnt", "etc", "var", "usr/lib/modules"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/run:/bin/bash\n")
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost guest\n")
    (root / "etc/mtab").symlink_to("../proc/mounts")
    (root / "etc/nvme").mkdir(exist_ok=True)
    (root / "etc/nvme/hostid").write_text(recipe.HOST_ID + "\n")
    (root / "etc/nvme/hostnqn").write_text(f"nqn.2014-08.org.nvmexpress:uuid:{recipe.HOST_ID}\n")
    shutil.copy(root / "bin/busybox", work / "busybox")
    blocks = sum((os.lstat(os.path.join(folder, name)).st_size + 4095) // 4096 + 1
                 for folder, folders, files in os.walk(root) for name in folders + files)
    image = work / "root.ext4"
    need(["/sbin/mke2fs", "-q", "-t", "ext4", "-b", "4096", "-O", "^has_journal", "-m", "0", "-E", "root_owner=0:0",
          "-d", root, image, str(blocks * 11 // 10 + 8192)], UNPACKED)
    os.replace(work / "busybox", CACHE / f"busybox-{KEY}")
    os.replace(image, root_image())


def take_modules(source, target, version):
    """Copies the modules that the recipe names, with what they need, unpacked."""
    for module in recipe.MODULES:
        shown = subprocess.run(["/sbin/modprobe", "-d", source, "-S", version, "--show-depends", module],
                               capture_output=True, text=True, check=False).stdout
        for path in re.findall(r"^insmod (\S+)", shown, re.MULTILINE):
            file = target / Path(path).relative_to(source)
            file.parent.mkdir(parents=True, exist_ok=True)
            data = Path(path).read_bytes()
            if file.suffix == ".xz":
                file, data = file.with_suffix(""), lzma.decompress(data)
            file.write_bytes(data)
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        shutil.copy(source / "lib/modules" / version / name, target / "lib/modules" / version / name)
    need(["/sbin/depmod", "-b", target, version], UNPACKED)


def build_kernel(mirror, work, name, suite):
    package = mirror.kernel(recipe.KERNEL_PACKAGE, suite)
    say(f"unpacking {package.name}")
    tree, initrd, made = work / "kernel", work / "initrd", work / "made"
    (tree / "usr/lib").mkdir(parents=True)
    (tree / "lib").symlink_to("usr/lib")
    made.mkdir()
    unpack(package, tree)
    version = next((tree / "lib/modules").iterdir()).name
    need(["/sbin/depmod", "-b", tree, version], UNPACKED)
    take_modules(tree, initrd, version)
    for folder in ("bin", "dev", "proc", "sys", "new"):
        (initrd / folder).mkdir()
    shutil.copy(CACHE / f"busybox-{KEY}", initrd / "bin/busybox")
    (initrd / "bin/sh").symlink_to("busybox")
    with (made / "initrd").open("wb") as out:
        cpio.write(out, cpio.of_folder(initrd))
    (made / "vmlinux").write_bytes(vmlinux.extract(next((tree / "boot").glob("vmlinuz-*")).read_bytes()))
    (made / "package").write_text(package.name + "\n")
    os.replace(made, kernel_folder(name))


def build_qemu(_, work):
    packages = qemu.download(Mirror(CACHE / "apt", recipe.QEMU_SUITES))
    say(f"unpacking {len(packages)} packages")
    tree = work / "qemu"
    for name in ("bin", "sbin", "lib", "lib64"):
        (tree / "usr" / name).mkdir(parents=True)
        (tree / name).symlink_to(f"usr/{name}")
    for package in packages:
        unpack(package, tree, recipe.EXCLUDED + recipe.QEMU_EXCLUDED)
    qemu.check(tree)
    os.replace(tree, qemu_folder())


def make(steps):
    """Runs (description, function, arguments), each in a scratch folder of its own."""
    suites = {recipe.USER_LAND_SUITE, *recipe.KERNELS.values()}
    say(f"building {', '.join(what for what, *_ in steps)} in {CACHE}; needed once, takes a minute or two")
    mirror = Mirror(CACHE / "apt", sorted(suites))
    if any(function is not build_qemu for _, function, *_ in steps):
        say(f"reading the package lists of {', '.join(sorted(suites))}")
        mirror.refresh()
    for number, (what, function, *arguments) in enumerate(steps, 1):
        say(f"{number}/{len(steps)} downloading {what}")
        with tempfile.TemporaryDirectory(prefix=".new-", dir=CACHE) as work:
            function(mirror, Path(work), *arguments)
    for package in mirror.archives.glob("*.deb"):
        package.unlink()


def tidy():
    for path in CACHE.iterdir():
        old = time.time() - path.stat().st_mtime > KEPT_S and KEY not in path.name and path.name not in ("apt", "lock")
        if old or path.name.startswith(".new-"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def ensure():
    """Builds what is missing. One process at a time; others wait for it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another process that builds the images")
            fcntl.flock(lock, fcntl.LOCK_EX)
        tidy()
        steps = [] if root_image().exists() else [("user land", build_root)]
        steps += [(f"kernel {name}", build_kernel, name, suite)
                  for name, suite in recipe.KERNELS.items() if not kernel_folder(name).exists()]
        if not qemu_folder().exists() and not qemu.has_device([qemu.PROGRAM]):
            steps.append(("QEMU for guests with cards", build_qemu))
        if steps:
            started = time.monotonic()
            make(steps)
            say(f"the images are built, in {time.monotonic() - started:.0f} s")
