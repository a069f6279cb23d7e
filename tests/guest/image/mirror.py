# SPDX-License-Identifier: Apache-2.0
"""Packages of any suite from the mirror that this machine's apt uses, without touching the machine's own state.

apt does the work, with lists, cache and an empty package database of our own: it knows proxies, resolves dependencies,
and verifies every file by signature and SHA256. Needs no root.
"""
import re
from urllib.parse import unquote

from .failure import GuestFailure, need

KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
NO_MIRROR = "apt on this machine names no package mirror; put one into the sources list in /etc/apt"


class Mirror:
    def __init__(self, folder, suites):
        self.archives = folder / "archives"
        for needed in (folder / "lists/partial", self.archives / "partial"):
            needed.mkdir(parents=True, exist_ok=True)
        (folder / "status").write_text("")
        self.address = self._address()
        sources = folder / f"sources-{'-'.join(suites)}.list"
        sources.write_text("".join(f"deb [signed-by={KEYS}] {self.address} {suite} main\n" for suite in suites))
        settings = {
            "Dir::Etc::SourceList": sources, "Dir::Etc::SourceParts": "-",
            "Dir::Etc::Preferences": "-", "Dir::Etc::PreferencesParts": "-",
            "Dir::State": folder, "Dir::State::lists": folder / "lists", "Dir::State::status": folder / "status",
            "Dir::Cache": folder, "Dir::Cache::archives": self.archives,
            "APT::Sandbox::User": "", "APT::Get::List-Cleanup": "false", "APT::Update::Error-Mode": "any", "Acquire::Languages": "none",
            "Acquire::Retries": 2, "Acquire::http::Timeout": 20, "Acquire::https::Timeout": 20,
        }
        self.options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]

    @staticmethod
    def _address():
        """The first archive in apt's configuration that is of a whole suite, not of its updates."""
        formats = ["--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"]
        for line in need(["apt-get", "indextargets", *formats], NO_MIRROR).splitlines():
            address, suite, component = line.split()
            if component == "main" and re.fullmatch("[a-z]+", suite):
                return address
        raise GuestFailure(NO_MIRROR)

    def _apt(self, program, *words, otherwise=None, **options):
        otherwise = otherwise or (f"the package mirror {self.address} did not give what the guests are built from; "
                                  "see that 'apt-get update' works on this machine, then run ./test guest again")
        return need([program, *self.options, *words], otherwise, **options)

    def refresh(self, otherwise=None):
        self._apt("apt-get", "update", "-q", otherwise=otherwise)

    def with_dependencies(self, packages, suite, without=(), otherwise=None):
        """Downloads packages and all that they need, but for those named in `without`; their files."""
        words = ["install", "-q", "-y", "--no-install-recommends", "-t", suite, *packages, "--print-uris"]
        lines = self._apt("apt-get", *words, otherwise=otherwise).splitlines()
        files = [line.split()[1] for line in lines if line.startswith("'")]
        files = [file for file in files if file.split("_")[0] not in without]
        wanted = ["{}={}".format(*unquote(file).split("_")[:2]) for file in files]
        self._apt("apt-get", "download", "-q", *wanted, otherwise=otherwise, cwd=self.archives)
        return [self.archives / file for file in files]

    def kernel(self, meta, suite):
        """Downloads the kernel that the meta package of a suite means; its file."""
        for line in self._apt("apt-cache", "madison", meta).splitlines():
            _, version, source = (field.strip() for field in line.split("|"))
            if f" {suite}/" in source:
                break
        else:
            raise GuestFailure(f"{suite} on {self.address} has no {meta}; choose another suite in tests/guest/image/recipe.py")
        depends = self._apt("apt-cache", "show", f"{meta}={version}")
        name, version = re.search(r"^Depends:.*?(linux-image-\S+) \(= ([^)]+)\)", depends, re.MULTILINE).groups()
        self._apt("apt-get", "download", "-q", f"{name}={version}", cwd=self.archives)
        return max(self.archives.glob(f"{name}_*.deb"), key=lambda path: path.stat().st_mtime)
