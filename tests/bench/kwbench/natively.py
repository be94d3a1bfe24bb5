# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""What scripts/bench --native does: which columns, which trees, for how long."""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path
from typing import Callable

from . import native_profile, native_report, report
from .machine import TOP, Failed, NativeBench, build_here, build_revision, build_tree, output_of, say
from .native import SMOKE_MESSAGES, Campaign, Measured, Pair, Session, messages_of, net_for
from .plan import Build, kind_of, select, variant_of
from .profile import Profile
from .rows import STORAGES, VARIANTS, Row
from .tools import PROGRAM

COLUMNS = ("kiwarp", "kiwarp-nocrc", "tcp", "siw", "siw-gso", "rxe", "again")
SMOKE_COLUMNS = ("kiwarp", "kiwarp-nocrc", "tcp")
# Not measured with disks: rxe, whose sockets are not for it; and the smoke test's kernel has no NVMe/TCP.
NO_DISK = {False: {"rxe"}, True: {"rxe", "tcp"}}
# Nor without: the smoke test shows by disks that a column has its settings.
NO_MESSAGES: dict[bool, set[str]] = {False: set(), True: {"kiwarp-nocrc"}}
# Nor any of these.
NOT_FOR_SMOKE = ("iscsi", "nfs")
MINUTES = 10.0
# What rounds are not, of the time: boots, builds of modules.
OVERHEAD_S = 30.0
# The same build measured twice may differ by this.
EQUAL = 0.02


def known_column(name: str) -> str:
    # Its wires are plain ones.
    known = [v.name for v in VARIANTS.values() if not v.wire]
    if kind_of(name) not in known:
        raise Failed(f"no column {name}: there are {', '.join(known)}, with settings as kiwarp:crc=0")
    return name


def trees(named: str, bench: NativeBench, build: Path) -> dict[str, Build]:
    """Builds of revisions of this tree, or of other work trees, by what they were called."""
    found = {}
    for n, name in enumerate(named.split(",")):
        if (Path(name) / "Kbuild").exists():
            to = build / "bench" / f"tree-{n}"
            to.mkdir(parents=True, exist_ok=True)
            say(f"Building {name}")
            found[name] = build_tree(Path(name).resolve(), to.resolve(), to / "make.log", bench.uml)
        else:
            found[name], _ = build_revision(name, bench.uml)
    return found


def compared(names: list[str]) -> list[Pair]:
    """This tree with each of them, and the first with itself."""
    return [*(Pair(name, "head") for name in names), Pair("again", names[0])]


def beside(columns: list[str]) -> list[Pair]:
    """Each column with the first, which is Kiwarp unless it was left out."""
    first = "kiwarp" if "kiwarp" in columns else columns[0]
    return [Pair(c, first) for c in columns if c != first]


def mtus_of(args: argparse.Namespace) -> list[int]:
    return [int(m) for m in args.mtu.split(",")] if args.mtu else [1500]


def at_mtu(rows: list[Row], mtu: int) -> list[Row]:
    """Those that are measured at it: 65536 is lo's, and disks are over veth. Failed if there is none."""
    found = [row for row in rows if mtu in row.mtus]
    if rows and not found:
        raise Failed(f"at MTU {mtu} there is no {rows[0].name}, which is at {', '.join(map(str, rows[0].mtus))}")
    return found


def campaigns(rows: list[Row], columns: list[str], builds: dict[str, Build], bench: NativeBench,
              measured: Measured, args: argparse.Namespace, out: Path) -> list[str]:
    """All rows at all MTUs; what the kernels complained of."""
    complaints = []
    kinds = [(mtu, storage, some) for mtu in mtus_of(args) for storage in STORAGES
             if (some := [r for r in at_mtu(rows, mtu) if r.storage == storage])]
    total = sum(len(some) for *_, some in kinds)
    messages: Callable[[Row], int] = (lambda _: SMOKE_MESSAGES) if args.smoke else messages_of
    pairs = measured.pairs
    for mtu, storage, some in kinds:
        say(f"native, MTU {mtu}: {len(some)} rows, {', '.join(columns)}")
        campaign = Campaign(measured, builds, mtu, messages, 1 if args.smoke else args.rounds)
        left_out = (NO_DISK if storage else NO_MESSAGES)[args.smoke]
        measured.pairs = [p for p in pairs if not left_out & {p.of, p.to}]
        session = Session(bench, out / f"{storage or 'messages'}-{mtu}", net_for(storage, mtu))
        begun = time.monotonic()

        def progress(number: int, left: int) -> None:
            say(f"[{time.monotonic() - begun:5.0f} s] round {number}: {left} rows")

        seconds = (args.minutes * 60 - OVERHEAD_S) * len(some) / total
        try:
            campaign.run(session, some, seconds, progress)
        finally:
            session.end()
        complaints += session.complaints
        measured.pairs = pairs
    return complaints


def run(args: argparse.Namespace, build: Path, meta: Callable[[float, str], dict[str, object]],
        keep: Callable[[Measured, str], None]) -> int:
    begun = time.time()
    build_here(build, "bench-program")
    bench = NativeBench(build, args.newest, args.cpus, checkers=args.smoke)
    # Those that are not for every day have to be asked for.
    rows = [r for r in select(args.only, args.only == "*" and not args.smoke, args.smoke)
            if r.native and not (args.smoke and r.storage in NOT_FOR_SMOKE)]
    if not rows:
        raise Failed("no row matches (--list shows them)")
    for mtu in mtus_of(args):
        at_mtu(rows, mtu)
    if args.compare:
        others = trees(args.compare, bench, build)
        first = next(iter(others))
        measured = Measured(pairs=compared(list(others)))
        columns = ["head", *others, "again"]
        builds = bench.builds(columns, {**others, "again": others[first]})
    else:
        usual = SMOKE_COLUMNS if args.smoke else COLUMNS
        columns = [known_column(c) for c in args.variant.split(",") if c] or list(usual)
        if len(columns) < 2:
            raise Failed("one column has nothing to be compared with")
        measured = Measured(pairs=beside(columns))
        builds = bench.builds([c for c in columns if variant_of(c).type], {})
    name = "compare-native" if args.compare else "smoke-native" if args.smoke else "native"
    out = build / "bench" / name
    if not args.smoke:
        here, there = basics_of(None, build), basics_of(bench, build)
        measured.call_excess = max(0.0, there["null_call_ns"] - here["null_call_ns"]) / 1e9
    complaints: list[str] = []
    try:
        complaints = campaigns(rows, columns, builds, bench, measured, args, out)
    except KeyboardInterrupt:
        say("ended: this is what was measured until now")
    measured.meta = meta(begun, f"{bench.release}, {args.cpus} CPU{'s' if args.cpus > 1 else ''}")
    keep(measured, name)
    for complaint in complaints:
        say(complaint)
    # Another revision need not know all that this one's rows are made of.
    missing = [s for s in measured.series if s.missing and not s.cpu
               and (s.column == "head" if args.compare else not s.column.startswith(("siw", "tcp", "rxe")))]
    return judge(measured) if args.compare and not missing else int(bool(missing or complaints))


def profiles(rows: list[Row], columns: list[str], mtu: int, args: argparse.Namespace, build: Path) -> list[Profile]:
    """Where the CPU time of rows goes."""
    if not rows:
        raise Failed("no row matches (--list shows them)")
    build_here(build, "bench-program")
    bench = NativeBench(build, args.newest, args.cpus)
    return native_profile.measure(rows, [known_column(c) for c in columns], mtu, bench,
                                  build / "bench" / "native-profile")


BASICS = {"null_call_ns": "a system call that does nothing", "pipe_ns": "a byte into a pipe and out again",
          "switch_ns": "the same to another process, which waits for it",
          "timer_ns": "a timer's delay, beyond what was asked for", "fault_ns": "a page fault"}


def basics_of(bench: NativeBench | None, build: Path) -> dict[str, float]:
    """In nanoseconds, in a User-Mode Linux or on this machine."""
    if bench is None:
        text = output_of([TOP / "build/host/tests/bench/kiwarp-bench", "--basics"])
    else:
        session = Session(bench, build / "bench" / "basics", "")
        try:
            session.run([f"alone 0 {PROGRAM} --basics"])
        finally:
            session.end()
        text = (session.out / "run" / "0.out").read_text()
    found = {name: float(value) for name, value in re.findall(r"(\w+)=(\d+)", text)}
    if not found:
        raise Failed(f"no figures: {text}")
    return found


def basics(build: Path) -> str:
    """What the things that messages are made of take: in the kernels that rows are measured in, and in this
    machine's own, which says how far rows are distorted."""
    build_here(build, "bench-program")
    benches = [NativeBench(build, newest) for newest in (False, True)]
    figures = {"this machine": basics_of(None, build)}
    figures |= {f"User-Mode Linux {bench.release}": basics_of(bench, build) for bench in benches}
    return report.table(["nanoseconds", *figures], [[title, *(report.number(f[name]) for f in figures.values())]
                                                    for name, title in BASICS.items()])


def judge(measured: Measured) -> int:
    """A row is worse where the whole interval is below what A against A may differ by."""
    worse = 0
    for series in measured.series:
        for pair in measured.pairs:
            if series.column != pair.of or pair.to != "head":
                continue
            found = measured.ratio(series.row, series.mtu, pair)
            if found and found.high < 1 - EQUAL:
                worse += 1
                say(f"worse than {pair.of}: {series.row}: {native_report.ratio_text(found)}")
    return int(worse > 0)
