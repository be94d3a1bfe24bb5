# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Native speed: many short rounds in one boot of User-Mode Linux, until the ratios are known.

In a round each column does each row once, in random order, with the same number of messages. What
counts is what a message costs, in time and in CPU time of the whole User-Mode Linux; the counters
beside it tell why.
"""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import shutil
import subprocess
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Callable, Iterator

from .machine import Failed, NativeBench, follow, say, why
from .meter import Line, Usage, serve
from .plan import Build, variant_of
from .rows import PROCESSES, SIW_QPS, Row
from .stats import MIN_ROUNDS, Ratio, quantile, ratio
from .tools import Client, Disk, DiskClient, Perftest, Tool, size_of

# Messages of a row in one round, some 0.2 s of Kiwarp's. In the fewest rounds these are
# 60,000 or more; 20,000 of DISK_MESSAGES_OF_128K, and fewer of messages longer than 64 KiB and of
# connections made. As many for each column: less is over before a machine is in its stride.
MESSAGES = {"send-64": 12002, "send-4k": 12002, "send-64-list": 60000, "latency-64": 6002,
            "latency-4k": 6002, "nvme-read-4k-1": 6002, "nvme-read-4k-8": 12002, "send-64-srq": 12002,
            "write-64-imm": 12002, "atomic-64": 12002, "send-64-list-ex": 60000,
            "latency-64-poll": 6002, "nvme-read-4k-32": 12002, "nvme-write-4k-1": 6002,
            "nvme-write-4k-8": 12002, "nvme-write-4k-32": 12002, "latency-64-rsocket": 6002,
            "iser-read-4k-8": 12002,
            "connect": SIW_QPS, "churn-64": 402,
            # All connections together, as many for each.
            **{f"send-by-connections-{n}": 6000 for n in (1, 2, 4, 8, 16)},
            # The scheduler takes some tenths of a second to give each process its CPU.
            **{f"send-by-processes-{n}": 24000 for n in PROCESSES}}
MESSAGES_OF_64K = 6002
DISK_MESSAGES_OF_128K = 2002
SMOKE_MESSAGES = 160
# A column that so many rounds in a row have no figure of is left out of the rest.
FAILURES = 2
METER = "/dev/tty1"


def messages_of(row: Row) -> int:
    if row.name in MESSAGES:
        return MESSAGES[row.name]
    return DISK_MESSAGES_OF_128K if row.storage else max(50, MESSAGES_OF_64K * 65536 // size_of(row.tool))


def connections_of(client: Client) -> int:
    """Of all processes of an end."""
    found = re.search(r"--(?:connections|processes) (\d+)", client.options)
    return int(found[1]) if found else 1


def tool_of(row: Row, variant: str, messages: int) -> Tool:
    """What measures a row: the same program on every column."""
    plain = variant_of(variant).type == ""
    tool: Tool | None = row.plain if plain else row.tool
    if isinstance(row.tool, Disk):
        return DiskClient(row.tool, messages, f"--warm-up {messages // 10} --meter {METER}")
    client = row.tool.client() if isinstance(row.tool, Perftest) else row.tool
    assert isinstance(client, Client)
    if client.op == "idle":
        # What is metered is the connecting, and its messages are the connections.
        return replace(client, call="transfer", options=f"--idle {messages - 1} --meter {METER}")
    if plain:
        # TCP knows Sends only: they are what a Write or a Read of that size is measured by.
        op = client.op if client.op == "latency" else "send"
        client = tool if isinstance(tool, Client) else replace(client, op=op, options="")
    messages //= connections_of(client)
    messages -= messages % client.list
    warm_up = max(client.list, messages // 10 // client.list * client.list)
    return replace(client, count=messages, call="transfer",
                   options=f"{client.options} --warm-up {warm_up} --meter {METER}".strip())


@dataclass
class Series:
    """What a message of one row costs one column, by round; in seconds."""

    row: str
    mtu: int
    column: str
    wall: dict[int, float] = field(default_factory=dict)
    cpu: dict[int, float] = field(default_factory=dict)
    counters: dict[str, list[float]] = field(default_factory=dict)
    missing: str = ""
    failures: int = 0

    def add(self, number: int, messages: int, text: str) -> bool:
        figures = {k: float(v) for k, v in re.findall(r"\b(\w+)=(-?[0-9.]+)", text)}
        cpu, wall = figures.pop("cpu_s", 0.0), figures.pop("wall_s", 0.0)
        if cpu <= 0 or wall <= 0:
            return False
        if number > 0:
            self.wall[number], self.cpu[number] = wall / messages, cpu / messages
        for name in COUNTERS:
            if name in figures:
                self.counters.setdefault(name, []).append(figures[name] / messages)
        self.failures, self.missing = 0, ""
        return True

    def counter(self, name: str) -> float | None:
        # Wake-ups are counted in the first round only.
        seen = self.counters.get(name, [])[:1 if name == "wakeups" else None]
        return quantile(seen, 0.5) if seen else None

    def less_calls(self, excess: float) -> dict[int, float]:
        """CPU time without what each system call takes longer here than on a real kernel."""
        calls = self.counter("calls") or 0.0
        return {number: cost - calls * excess for number, cost in self.cpu.items()}


# In the order in which they are shown.
COUNTERS = {"switches": "context switches", "voluntary": "voluntary", "involuntary": "involuntary",
            "wakeups": "wake-ups", "calls": "system calls", "timers": "timer interrupts",
            "fpdus": "FPDUs", "segments_out": "segments out", "packets_out": "socket buffers out",
            "segments_in": "segments in"}


@dataclass(frozen=True)
class Pair:
    """Of is compared with to: how many times more it costs."""

    of: str
    to: str


@dataclass
class Measured:
    meta: dict[str, object] = field(default_factory=dict)
    pairs: list[Pair] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)
    # What a system call takes longer in the kernel that is measured in than in this machine's; in seconds.
    call_excess: float = 0.0

    def find(self, row: str, mtu: int, column: str) -> Series | None:
        for s in self.series:
            if (s.row, s.mtu, s.column) == (row, mtu, column):
                return s
        return None

    def at(self, row: str, mtu: int, column: str) -> Series:
        found = self.find(row, mtu, column)
        if not found:
            found = Series(row, mtu, column)
            self.series.append(found)
        return found

    def ratio(self, row: str, mtu: int, pair: Pair, what: str = "cpu") -> Ratio | None:
        of, to = self.find(row, mtu, pair.of), self.find(row, mtu, pair.to)
        if not of or not to:
            return None
        if what == "less calls":
            costs = of.less_calls(self.call_excess), to.less_calls(self.call_excess)
            # A row of nothing but calls, of which too much was taken.
            return None if any(c <= 0 for each in costs for c in each.values()) else ratio(*costs)
        return ratio(getattr(of, what), getattr(to, what))

    def dump(self) -> str:
        return json.dumps({"meta": self.meta, "pairs": [[p.of, p.to] for p in self.pairs],
                           "call_excess": self.call_excess,
                           "series": [vars(s) for s in self.series]}, indent=1)

    @staticmethod
    def load(text: str) -> Measured:
        data = json.loads(text)
        series = [Series(**s) for s in data["series"]]
        for s in series:
            s.wall = {int(k): v for k, v in s.wall.items()}
            s.cpu = {int(k): v for k, v in s.cpu.items()}
        return Measured(data["meta"], [Pair(*p) for p in data["pairs"]], series,
                        data["call_excess"])


def is_native(text: str) -> bool:
    """Of this bench's JSON."""
    return "series" in json.loads(text)


@dataclass(frozen=True)
class Task:
    row: Row
    column: str
    tool: Tool
    messages: int


# What a kernel says only when something is wrong with it.
SPLAT = re.compile(r"\bBUG[: ]|WARNING: |KASAN|UBSAN|Oops|Kernel panic|refcount_t:|ODEBUG|blocked for more than|"
                   r"list_(add|del) corruption|[Bb]ad page|scheduling while atomic|sleeping function")


def splats(log: str) -> list[str]:
    return [line for line in log.splitlines() if SPLAT.search(line)]


class Session:
    """A User-Mode Linux that does what it is told to, round by round."""

    def __init__(self, bench: NativeBench, out: Path, prologue: str) -> None:
        self.bench, self.out, self.prologue = bench, out, prologue
        self.numbers = count()
        self.lines: Iterator[str] = iter(())
        self.process: subprocess.Popen[bytes] | None = None
        self.commands: Line | None = None
        self.complaints: list[str] = []
        self.metered: list[float] = []  # when the meter was read, of time.monotonic()

    def start(self) -> None:
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)
        (self.out / "plan").write_text("obey /dev/tty2\n")
        meter, self.commands = Line(), Line()
        fds = (*meter.guests, *self.commands.guests)
        consoles = ["con1=fd:%d,fd:%d" % meter.guests, "con2=fd:%d,fd:%d" % self.commands.guests]
        with (self.out / "machine.log").open("wb") as log:
            self.process = subprocess.Popen([*self.bench.command(self.out, 2048), *consoles], pass_fds=fds,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        meter.started()
        self.commands.started()
        serve(meter, Usage(self.process.pid), self.metered)
        self.lines = follow(self.process, self.out / "script.log")
        if "ready" not in self.lines:
            raise Failed(f"User-Mode Linux does not come up: see {self.out}")
        self.run(self.prologue.splitlines())

    def run(self, script: list[str]) -> list[str]:
        """What the guest says of them; less than all if it has died."""
        if not self.process:
            self.start()
        assert self.commands
        name = f"step-{next(self.numbers)}"
        (self.out / name).write_text("\n".join(script) + "\n")
        os.write(self.commands.to_guest, f"{name}\n".encode())
        said: list[str] = []
        for line in self.lines:
            if line == f"obeyed {name}":
                return said
            said.append(line)
        self.ended()
        return said

    def ended(self) -> None:
        self.process = None
        for name in ("machine.log", "dmesg"):
            if (self.out / name).exists():
                found = splats((self.out / name).read_text(errors="replace"))
                self.complaints += [f"{self.out}/{name}: {line}" for line in found]

    def end(self) -> None:
        if not self.process:
            return
        assert self.commands
        os.write(self.commands.to_guest, b"end\n")
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.ended()


def net_for(storage: str, mtu: int) -> str:
    """Where rows of that kind are measured."""
    return f"{'use_wire' if storage else 'use_net'} {mtu}"


def around(column: str, storage: str, mtu: int, builds: dict[str, Build]) -> tuple[list[str], list[str]]:
    """What the guest does before it measures on a column, and after."""
    variant = variant_of(column)
    before, after = [], []
    # rxe's sockets are in the first network namespace.
    if variant.type == "rxe" and not storage:
        before.append(f"use_wire {mtu}")
        after.append(f"use_net {mtu}")
    if variant.type:
        build = builds[column]
        before.append(shlex.join(["use_device", variant.type, build.module, build.provider, *variant.settings]))
        after.insert(0, "leave_device")
    if storage:
        before.append(shlex.join(variant.use_disk(storage)))
        after.insert(0, "leave_disk")
    return before, after


class Campaign:
    """Rounds of some rows on some columns, until each pair's ratio is known or time is up."""

    def __init__(self, measured: Measured, builds: dict[str, Build], mtu: int,
                 messages: Callable[[Row], int] = messages_of, rounds: int = 0) -> None:
        self.measured, self.builds, self.mtu = measured, builds, mtu
        self.messages = messages
        self.rounds = rounds  # so many and no more, whatever is known by then; 0: until it is
        self.chance = random.Random(1)
        self.indexes = count()

    def wanted(self, row: Row, number: int) -> list[str]:
        """The columns that a row is still to be measured on."""
        found: dict[str, None] = {}
        for pair in self.measured.pairs:
            able = [c for c in (pair.of, pair.to) if variant_of(c).type in row.types
                    and self.measured.at(row.name, self.mtu, c).failures < FAILURES]
            if len(able) < 2:
                # Whom the other one is compared with is to have a figure all the same.
                found.update(dict.fromkeys(able if number <= MIN_ROUNDS else ()))
                continue
            if number > MIN_ROUNDS:
                known = self.measured.ratio(row.name, self.mtu, pair)
                if known and known.known:
                    continue
            found.update(dict.fromkeys((pair.of, pair.to)))
        return list(found)

    def run(self, session: Session, rows: list[Row], seconds: float, progress: Callable[[int, int], None]) -> None:
        end = time.monotonic() + seconds
        for number in count():
            if self.rounds and number > self.rounds:
                break
            todo = [(row, column) for row in rows for column in self.wanted(row, number)]
            if not todo or (number > 1 and time.monotonic() > end):
                break
            self.round(session, number, todo)
            progress(number, len({row.name for row, _ in todo}))
        session.end()

    def round(self, session: Session, number: int, todo: list[tuple[Row, str]]) -> None:
        by_column: dict[str, list[Row]] = defaultdict(list)
        for row, column in todo:
            by_column[column].append(row)
        columns = list(by_column)
        self.chance.shuffle(columns)
        tasks: dict[int, Task] = {}
        for column in columns:
            rows = by_column[column]
            self.chance.shuffle(rows)
            visit = {}
            for row in rows:
                messages = self.messages(row)
                visit[next(self.indexes)] = Task(row, column, tool_of(row, column, messages), messages)
            tasks |= visit
            script = [f"echo {int(number == 0)} >/proc/sys/kernel/sched_schedstats"]
            script += self.visit(column, visit)
            self.take(session, number, visit, session.run(script))

    def visit(self, column: str, tasks: dict[int, Task]) -> list[str]:
        storage = next(iter(tasks.values())).row.storage
        before, after = around(column, storage, self.mtu, self.builds)
        plain = not variant_of(column).type
        return [*before, *(task.tool.script(index, plain) for index, task in tasks.items()), *after]

    def take(self, session: Session, number: int, tasks: dict[int, Task], said: list[str]) -> None:
        left = dict(tasks)
        for line in said:
            words = line.split(maxsplit=3)
            if len(words) < 3 or words[0] not in ("done", "missing") or int(words[1]) not in left:
                continue
            task = left.pop(int(words[1]))
            series = self.measured.at(task.row.name, self.mtu, task.column)
            if words[0] == "missing":
                self.failed(series, " ".join(words[2:]))
                continue
            text = (session.out / "run" / f"{words[1]}.out").read_text(errors="replace")
            if words[2] != "0" or not series.add(number, task.messages, text):
                self.failed(series, f"exit code {words[2]}: {why(text)}")
        for task in list(left.values())[:1]:
            # What was being done when the machine died is to blame.
            self.failed(self.measured.at(task.row.name, self.mtu, task.column), "the machine died")

    def failed(self, series: Series, reason: str) -> None:
        say(f"{series.row}, {series.column}: {reason}")
        series.missing = reason
        series.failures += 1
