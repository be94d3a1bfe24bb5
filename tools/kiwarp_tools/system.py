# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""What the command sees of the system: files, programs, its user's rights."""
from __future__ import annotations

import os
import resource
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Sequence


class Failure(Exception):
    """Something that could not be done, in one line. The command's exit code is 1."""


@dataclass(frozen=True)
class Result:
    """What a program left."""

    code: int
    out: str = ""
    err: str = ""

    @property
    def said(self) -> str:
        """Its last line of errors, or of output: what to tell the user of a failure."""
        lines = (self.err.strip() or self.out.strip()).splitlines()
        return lines[-1].strip() if lines else f"exit code {self.code}"


# Where programs for administrators are: not in the PATH of Debian's users.
ADMINISTRATION = "/usr/sbin:/sbin"


class System:
    """The running system. Tests put another in its place."""

    def path(self, name: str) -> Path:
        return Path(name)

    def read(self, name: str) -> str | None:
        """A file's text without the white space around it; None if it can't be read."""
        try:
            return self.path(name).read_text(errors="replace").strip()
        except OSError:
            return None

    def names(self, folder: str) -> list[str]:
        """What a folder has, sorted; nothing if there is no such folder."""
        try:
            return sorted(entry.name for entry in self.path(folder).iterdir())
        except OSError:
            return []

    def exists(self, name: str) -> bool:
        return self.path(name).exists()

    def run(self, *command: str, timeout: float = 60) -> Result:
        """Run a program. One that is missing, or takes too long, has the shell's exit code for it."""
        try:
            # Its output is read, so it has to be in no language but one.
            variables = {**os.environ, "LC_ALL": "C", "PATH": f"{os.environ.get('PATH', os.defpath)}:{ADMINISTRATION}"}
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False,
                                  timeout=timeout, stdin=subprocess.DEVNULL, env=variables)
        except FileNotFoundError:
            return Result(127, err=f"{command[0]} is not installed")
        except subprocess.TimeoutExpired:
            return Result(124, err=f"{command[0]} did not end in {timeout:g} s")
        return Result(done.returncode, done.stdout, done.stderr)

    def kernel_log(self) -> KernelLog:
        return KernelLog()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def is_root(self) -> bool:
        return os.geteuid() == 0

    def release(self) -> str:
        """The kernel's."""
        return os.uname().release

    def machine(self) -> str:
        """The processor's architecture, as the kernel names it."""
        return os.uname().machine

    def environment(self, name: str) -> str:
        return os.environ.get(name, "")

    def memlock(self) -> int:
        """The limit on locked memory in bytes; -1 for none."""
        return resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]

    def is_first_netns(self) -> bool:
        """Whether the network namespace is that of process 1. systemd, udev and what /etc has about interfaces know
        that one's only, while the files of a command that runs in another one are the same but for /sys: see
        ip-netns(8). In a container process 1 is the container's. Only root may always see its namespace."""
        try:
            return os.readlink("/proc/self/ns/net") == os.readlink("/proc/1/ns/net")
        except OSError:
            return True

    def has_systemd(self) -> bool:
        """Whether it runs, as sd_booted(3) finds out, and knows the interfaces that are here."""
        return self.exists("/run/systemd/system") and self.is_first_netns()


class KernelLog:
    """What the kernel logs from now on. Empty where it may not be read."""

    def __init__(self) -> None:
        try:
            self.file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self.file, 0, os.SEEK_END)
        except OSError:
            self.file = -1

    def lines(self) -> list[str]:
        found = []
        while self.file >= 0:
            try:
                # "level,number,time,flags;text", then lines of properties.
                record = os.read(self.file, 8192).decode(errors="replace")
            except OSError:
                break
            # /dev/kmsg has no end. Where it is another file, as in some containers, that has.
            if not record:
                break
            found.append(record.partition(";")[2].split("\n")[0])
        return found


def require_root(system: System, what: str) -> None:
    if not system.is_root():
        raise Failure(f"{what} needs root's rights: try sudo")


def listing(words: Sequence[str]) -> str:
    """a, b and c"""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
