# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Where a row's CPU time goes natively: the host's perf samples User-Mode Linux during the transfer.

User-Mode Linux's kernel is one process of the host's, and each address space of its user space
another. perf attributes a sample to a module of that kernel no better than to any other memory: the
guest's own kallsyms has the names.
"""

from __future__ import annotations

import bisect
import re
import signal
import subprocess
from pathlib import Path
from typing import Iterator

from .machine import Failed, NativeBench, output_of, say
from .native import Series, Session, around, messages_of, net_for, tool_of
from .plan import Build, variant_of
from .profile import Profile, Sample
from .rows import STORAGES, Row

# Samples a second of CPU time.
FREQUENCY = 4000
# So many times the messages of a round.
LONGER = 4

_LINE = re.compile(r"^\s*(?P<pid>\d+)\s+(?P<time>\d+\.\d+):\s+(?P<ip>[0-9a-f]+) (?P<what>.*?) "
                   r"\((?P<where>[^()]*(?:\(deleted\))?)\)$")


class Symbols:
    """A kernel's kallsyms."""

    def __init__(self, text: str) -> None:
        found = []
        for line in text.splitlines():
            address, kind, name, *module = line.split()
            if kind in "tTwW":
                found.append((int(address, 16), name, module[0] if module else "[kernel]"))
        if not found:
            raise Failed("the guest's kallsyms has no symbols")
        self.found = sorted(found)
        self.addresses = [address for address, *_ in self.found]

    def at(self, ip: int) -> tuple[str, str]:
        """Module and name."""
        i = bisect.bisect_right(self.addresses, ip) - 1
        return (self.found[i][2], self.found[i][1]) if i >= 0 else ("[kernel]", hex(ip))


def samples(script: str, kernel: int, symbols: Symbols) -> Iterator[Sample]:
    """perf script's lines; kernel is the process of User-Mode Linux's own."""
    for line in script.splitlines():
        found = _LINE.match(line)
        if not found:
            continue
        ip = int(found["ip"], 16)
        where, what = found["where"].split("/")[-1], found["what"]
        if ip >> 63:
            where = "[host]"
        elif int(found["pid"]) == kernel and (where == "[vdso]" or "lib" in where):
            # The host's clock is this kernel's, too; and it calls the C library to ask the host.
            where = "[host]"
        elif int(found["pid"]) == kernel:
            where, what = symbols.at(ip)
        what = re.sub(r"\+0x[0-9a-f]+$|\.(isra|part|constprop|cold)\b.*$", "", what)
        yield Sample(float(found["time"]), found["pid"], where, what)


def one(session: Session, row: Row, column: str, mtu: int, builds: dict[str, Build], index: int) -> Profile:
    messages = messages_of(row) * LONGER
    before, after = around(column, row.storage, mtu, builds)
    names = index + 1
    session.run([*before, f"alone {names} cat /proc/kallsyms"])
    data = session.out / f"{index}.perf"
    assert session.process
    kernel = session.process.pid
    with subprocess.Popen(["perf", "record", "-q", "-k", "mono", "-e", "cpu-clock", "-F", str(FREQUENCY),
                           "-p", str(kernel), "-o", data], stdin=subprocess.DEVNULL) as perf:
        said = session.run([tool_of(row, column, messages).script(index, not variant_of(column).type)])
        perf.send_signal(signal.SIGINT)
    session.run(after)
    series = Series(row.name, mtu, column)
    text = (session.out / "run" / f"{index}.out").read_text(errors="replace")
    if not series.add(1, messages, text):
        raise Failed(f"{row.name}, {column}: {' '.join(said)} {text}")
    begin, end = session.metered[-2:]
    symbols = Symbols((session.out / "run" / f"{names}.out").read_text())
    script = output_of(["perf", "script", "-f", "-G", "-i", data, "-F", "pid,time,ip,sym,dso"])
    taken = [s for s in samples(script, kernel, symbols) if begin <= s.time <= end]
    if not taken:
        raise Failed(f"{row.name}, {column}: perf saw nothing of the transfer")
    cost = 1e6 * series.cpu[1]
    return Profile(row, mtu, column, cost, cost, taken, "us of CPU time")


def measure(rows: list[Row], columns: list[str], mtu: int, bench: NativeBench, out: Path) -> list[Profile]:
    """Of rows, each on each of the columns that it is measured on."""
    builds = bench.builds([c for c in columns if variant_of(c).type], {})
    found = []
    for storage in STORAGES:
        some = [row for row in rows if row.storage == storage]
        if not some:
            continue
        session = Session(bench, out / (storage or "messages"), net_for(storage, mtu))
        try:
            for n, (row, column) in enumerate((row, column) for row in some for column in columns):
                say(f"{row.name}, {column}")
                found.append(one(session, row, column, mtu, builds, 2 * n))
        finally:
            session.end()
    return found
