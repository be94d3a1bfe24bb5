# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""The programs that measure: how each is run in the guest, and where its output has the figure.

Each has script(index, plain): its line in the guest's plan ("plain" for plain TCP), scaled(f): the
same with f times the messages, and value(text): the figure, or None.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, replace

ADDRESS = "10.1.0.1"
PROGRAM = '"$TOP/build/host/tests/bench/kiwarp-bench"'


def figure(value: float) -> float | None:
    """A program that could not tell the time says 0 or inf."""
    return value if 0 < value < float("inf") else None


def _pair(index: int, server: list[str], client: list[str]) -> str:
    return f"measure {index} {shlex.join(server)} -- {shlex.join(client)}"


@dataclass(frozen=True)
class Client:
    """kiwarp-bench, of tests/bench/client: both ends sleep when there is nothing to do."""

    op: str
    size: int
    count: int
    field: str = "mib_per_s"
    options: str = ""
    list: int = 1
    call: str = "measure"  # of guest.sh: or transfer
    setting: str = ""  # that Kiwarp has to have on for it

    def scaled(self, factor: float) -> Client:
        # Whole lists, and enough of them that what is measured is a run.
        lists = max(1, round(self.count * factor / self.list))
        return replace(self, count=lists * self.list)

    def script(self, index: int, plain: bool) -> str:
        client = f"--connect {ADDRESS} --op {self.op} --size {self.size} --count {self.count}"
        client += f" --list {self.list} {self.options}" + (" --tcp" if plain else "")
        with_setting = f"with {self.setting} " if self.setting else ""
        line = (f"{with_setting}{self.call} {index} {PROGRAM} --port @PORT@ --listen {ADDRESS} -- "
                f"{PROGRAM} --port @PORT@ {shlex.join(client.split())}")
        return f"tidy\n{line}" if self.op == "idle" and self.call == "measure" else line

    def run(self) -> Client:
        """Equal for all whose figures are in what one run prints."""
        return replace(self, field="")

    def value(self, text: str) -> float | None:
        found = re.search(rf"\b{self.field}=(-?[0-9.]+)", text)
        return figure(float(found[1])) if found else None


@dataclass(frozen=True)
class Perftest:
    """ib_send_bw and its like, sleeping on events."""

    program: str
    size: int
    count: int
    column: int  # of its table: 3 is the average in MiB/s, 5 of latency tests in microseconds

    def scaled(self, factor: float) -> Perftest:
        # An odd number; see tests/vm/suites/30-perftest.sh.
        return replace(self, count=max(5, round(self.count * factor)) | 1)

    def client(self) -> Client:
        """The same by kiwarp-bench."""
        if self.program == "ib_send_lat":
            return Client("latency", self.size, self.count, "latency_us")
        return Client("send", self.size, self.count)

    def script(self, index: int, plain: bool) -> str:
        assert not plain
        both = f"{self.program} -R -F -e -s {self.size} -n {self.count} -p @PORT@".split()
        if self.program == "ib_send_bw":
            # With a receive for each message the window that a sleeper does not see never closes.
            both += ["-r", str(min(self.count + 2, 4096))]
        return _pair(index, both, [*both, ADDRESS])

    def value(self, text: str) -> float | None:
        for line in text.splitlines():
            words = line.split()
            if len(words) > self.column and words[0] == str(self.size):
                return figure(float(words[self.column]))
        return None


@dataclass(frozen=True)
class Iperf3:
    """The bytes of one TCP connection, in MiB/s."""

    megabytes: int

    def scaled(self, factor: float) -> Iperf3:
        return replace(self, megabytes=max(1, round(self.megabytes * factor)))

    def script(self, index: int, plain: bool) -> str:
        assert plain
        return _pair(index, "iperf3 -s -1 -p @PORT@".split(),
                     f"iperf3 -c {ADDRESS} -p @PORT@ -J -n {self.megabytes}M".split())

    def value(self, text: str) -> float | None:
        try:
            return json.loads(text)["end"]["sum_received"]["bits_per_second"] / 8 / 2**20
        except (ValueError, KeyError):
            return None


@dataclass(frozen=True)
class Disk:
    """fio on a disk, or on NFS's file: I/Os a second, or MB/s."""

    pattern: str
    size: str
    depth: int
    count: int
    field: str  # iops or bw_bytes
    memory: str = "huge"  # of large pages, or of single "pages"
    storage: str = "nvme"  # of guest.sh's use_disk: what it is reached by

    def scaled(self, factor: float) -> Disk:
        return replace(self, count=max(10, round(self.count * factor)))

    def script(self, index: int, plain: bool) -> str:
        return f"disk {index} {self.pattern} {self.size} {self.depth} {self.count} {self.memory}"

    def value(self, text: str) -> float | None:
        try:
            job = json.loads(text[text.index("{"):])["jobs"][0]
            value = job["write" if "write" in self.pattern else "read"][self.field]
        except (ValueError, KeyError, IndexError):
            return None
        return value / (1e6 if self.field == "bw_bytes" else 1)


@dataclass(frozen=True)
class DiskClient:
    """kiwarp-bench on the same: fio's work, between two looks at the meter."""

    disk: Disk
    count: int
    options: str = ""

    def script(self, index: int, plain: bool) -> str:
        pattern = self.disk.pattern
        options = f"--op {pattern.removeprefix('rand')} --size {size_of(self.disk)} --depth {self.disk.depth}"
        options += f" --count {self.count} {self.options}"
        options += " --random" * pattern.startswith("rand") + " --scattered" * (self.disk.memory == "pages")
        return f'alone {index} {PROGRAM} --disk "$(bench_disk)" {options}'

    def value(self, text: str) -> float | None:
        found = re.search(r"\biops=([0-9.]+)", text)
        return figure(float(found[1])) if found else None

    def scaled(self, factor: float) -> DiskClient:
        return replace(self, count=max(10, round(self.count * factor)))


def size_of(tool: Tool) -> int:
    """Of a message or an I/O, in bytes."""
    assert not isinstance(tool, Iperf3)
    size = tool.size if not isinstance(tool, DiskClient) else tool.disk.size
    return int(size[:-1]) << 10 if isinstance(size, str) else size


Tool = Client | Perftest | Iperf3 | Disk | DiskClient
