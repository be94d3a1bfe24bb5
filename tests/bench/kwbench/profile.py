# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Where the instructions of a row go: perf in the cost bench, whose clock counts them."""

from __future__ import annotations

import argparse
from pathlib import Path

from .machine import CostBench, Failed, Runner, output_of, say
from .plan import Job
from .report import number
from .rows import VARIANTS, Row

# One sample in so many instructions; an idle CPU must not halt, or perf's clock stands still.
PERIOD = 10000
APPEND = "idle=poll"
SYMBOLS = 40


def table(report: str, limit: int = SYMBOLS) -> list[tuple[float, int, str, str]]:
    """perf report's lines: share in percent, samples, object, symbol. Idling is left out."""
    rows = []
    for line in report.splitlines():
        words = line.split(maxsplit=4)
        if len(words) < 5 or not words[0].endswith("%"):
            continue
        if words[4].strip() in ("poll_idle", "cpu_idle_poll.isra.0", "cpu_idle_poll"):
            continue
        rows.append((int(words[1]), words[2], words[4].strip()))
    total = sum(samples for samples, _, _ in rows) or 1
    return [(100 * s / total, s, where, what) for s, where, what in rows[:limit]]


def run(row: Row, args: argparse.Namespace, build: Path) -> int:
    variants = args.variant.split(",") if args.variant else ["kiwarp"]
    mtu = int(args.mtu or 1500)
    for variant in variants:
        if variant not in VARIANTS:
            raise Failed(f"no variant {variant}: there are {', '.join(VARIANTS)}")
        tool = row.plain if variant.startswith("tcp") else row.tool
        if tool is None:
            raise Failed(f"{row.name} has no measurement over plain TCP")
        out = build / "bench" / "profile"
        job = Job("cost", row, mtu, variant, tool)
        runner = Runner(CostBench(build), out, {}, APPEND, f"profile={PERIOD}\n")
        say(f"{row.name}, MTU {mtu}, {variant}")
        result, = runner.run([job], lambda *_: None)
        if result.value is None:
            raise Failed(f"{row.name}, {variant}: {result.missing}")
        perf = output_of(["perf", "report", f"--kallsyms={out}/run/kallsyms", "-i",
                          f"{out}/run/0.perf", "--stdio", "--no-children", "-n", "-f",
                          "-s", "dso,sym", "-g", "none"])
        text = [f"## {row.title}, MTU {mtu}, {VARIANTS[variant].title}: "
                f"{number(result.value)} {row.unit} under perf", "",
                "| self | samples | where | symbol |", "|---:|---:|---|---|"]
        text += [f"| {share:.1f} % | {samples} | {where} | `{what}` |"
                 for share, samples, where, what in table(perf)]
        to = build / "bench" / f"profile-{row.name}-{mtu}-{variant}.md"
        to.write_text("\n".join(text) + "\n")
        print("\n".join(text) + "\n")
        say(str(to))
    return 0
