# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""The host's end of a User-Mode Linux's lines: tells CPU time, hands over what is to be done.

A User-Mode Linux is one process of the host for its kernel, and one for each address space of its
user space. What all of them have used is the same however busy the host is otherwise, and can be
read exactly, to the nanosecond, from outside.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path


def cpu_clock(pid: int) -> int:
    """What a process has used so far, in nanoseconds; see clock_getcpuclockid(3)."""
    return time.clock_gettime_ns((~pid << 3) | 2)


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


def voluntary_switches(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("voluntary_ctxt_switches:"):
            return int(line.split()[1])
    return 0


class Usage:
    """Of a process and its children, those included that have ended since."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.cpu: dict[int, int] = {}
        self.calls: dict[int, int] = {}

    def read(self) -> tuple[int, int]:
        """CPU time in nanoseconds, and how often user space stopped for the kernel."""
        for child in children(self.pid):
            try:
                self.cpu[child] = cpu_clock(child)
                self.calls[child] = voluntary_switches(child)
            except OSError:
                continue  # ended meanwhile
        self.cpu[self.pid] = cpu_clock(self.pid)
        return sum(self.cpu.values()), sum(self.calls.values())


class Line:
    """One terminal of a User-Mode Linux: two pipes, by the numbers that its command line names."""

    def __init__(self) -> None:
        self.from_guest, self._guest_out = os.pipe()
        self._guest_in, self.to_guest = os.pipe()

    @property
    def guests(self) -> tuple[int, int]:
        return self._guest_in, self._guest_out

    def started(self) -> None:
        """The guest has its ends."""
        for fd in self.guests:
            os.close(fd)

    def close(self) -> None:
        for fd in (self.from_guest, self.to_guest):
            os.close(fd)


def serve(line: Line, usage: Usage, times: list[float]) -> threading.Thread:
    """Answers each line of the guest's, which waits for it meanwhile, until the guest has gone. Adds
    the time of each to times."""

    def answer() -> None:
        while os.read(line.from_guest, 64):
            times.append(time.monotonic())
            try:
                os.write(line.to_guest, b"%d %d\n" % usage.read())
            except OSError:
                return

    thread = threading.Thread(target=answer, name="meter", daemon=True)
    thread.start()
    return thread
