# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""From rows to what the guest does: which measurements there are, in which order."""

from __future__ import annotations

import fnmatch
import shlex
from dataclasses import dataclass, replace
from typing import Callable, Iterable

from .rows import CARDS, QUICK_LEFT_OUT, ROWS, STORAGES, VARIANTS, Row, Variant
from .tools import Client, Tool

SMOKE_FACTOR = 0.02
# siw takes many times longer for the same work, and its figures repeat as well with less.
SIW_FACTOR = 0.25


@dataclass(frozen=True)
class Build:
    """A device type's module and, for Kiwarp, the provider."""

    module: str
    provider: str = ""


@dataclass(frozen=True)
class Job:
    """One measurement: a row, on whom, at which MTU; the round, when there are several."""

    bench: str
    row: Row
    mtu: int
    variant: str
    tool: Tool
    round: int = 0
    also: tuple[Job, ...] = ()  # whose figures are in what this one prints

    @property
    def each(self) -> tuple[Job, ...]:
        """One for each figure."""
        return self, *self.also


def select(pattern: str, quick: bool, smoke: bool) -> list[Row]:
    rows = [r for r in ROWS if any(fnmatch.fnmatch(r.name, p) for p in pattern.split(","))]
    if smoke:
        return [r for r in rows if r.smoke]
    return [r for r in rows if r.quick] if quick else rows


def _tool(row: Row, variant: str, factor: float) -> Tool | None:
    tool = row.plain if variant.startswith("tcp") else row.tool
    if variant.startswith("siw") and not row.name.startswith("latency"):
        factor *= SIW_FACTOR
    return tool.scaled(factor) if tool and factor != 1 else tool


def jobs(rows: list[Row], bench: str, mtus: Iterable[int], variants: Callable[[Row], Iterable[str]],
         rounds: int = 1, factor: float = 1.0) -> list[Job]:
    """In the order in which the guest does them: each MTU, net, round and variant by itself."""
    order = dict.fromkeys((*VARIANTS, "base", "head", *(v for row in rows for v in variants(row))))
    found = []
    for mtu in mtus:
        for storage in STORAGES:
            for number in range(rounds):
                for variant in order:
                    for row in rows:
                        if row.storage != storage or mtu not in row.mtus or variant not in variants(row):
                            continue
                        tool = _tool(row, variant, factor)
                        if tool:
                            found.append(Job(bench, row, mtu, variant, tool, number))
    return found


def shared(todo: list[Job]) -> list[Job]:
    """With one run for those whose figures are in the output of the same."""
    runs: dict[object, list[Job]] = {}
    for job in todo:
        run = job.tool.run() if isinstance(job.tool, Client) else job.row
        here = (job.bench, job.mtu, job.row.storage, job.variant, job.round, job.row.memory)
        runs.setdefault((*here, run), []).append(job)
    return [replace(first, also=tuple(others)) for first, *others in runs.values()]


def usual_variants(quick: bool, smoke: bool) -> Callable[[Row], Iterable[str]]:
    def chosen(row: Row) -> Iterable[str]:
        if smoke:
            return ("tcp", "kiwarp")
        if quick:
            return [v for v in row.variants if v not in QUICK_LEFT_OUT
                    and not (row.storage and v in ("kiwarp-nocrc", "siw-gso"))]
        return row.variants
    return chosen


def kind_of(name: str) -> str:
    """Of a column, which may have other settings."""
    return name.split(":")[0]


def variant_of(name: str) -> Variant:
    """Of a column: a variant, one with other settings ("kiwarp:crc=0"), or another build of Kiwarp."""
    kind, *settings = name.split(":")
    variant = VARIANTS.get(kind, VARIANTS["kiwarp"])
    if not settings:
        return variant
    return replace(variant, title=f"{variant.title}, {' '.join(settings)}",
                   settings=(*variant.settings, *settings), name=name)


def wants_cards(todo: list[tuple[int, Job]]) -> bool:
    return any(variant_of(job.variant).wire == CARDS for _, job in todo)


def script(todo: list[tuple[int, Job]], builds: dict[str, Build]) -> str:
    """The guest's plan: a shell script of the calls of guest.sh. Each job has its index."""
    lines: list[str] = []
    at: tuple[object, ...] = ()
    net: tuple[object, ...] = ()
    device = disk = False

    def leave() -> None:
        if disk:
            lines.append("leave_disk")
        if device:
            lines.append("leave_device")

    for index, job in todo:
        here = (job.mtu, job.row.storage, job.variant, job.round)
        if here != at:
            leave()
            device = disk = False
            variant = variant_of(job.variant)
            use = "use_wire" if job.row.storage else "use_net"
            if (use, job.mtu, variant.wire) != net:
                lines.append(f"{use} {job.mtu} {variant.wire}".rstrip())
                net = (use, job.mtu, variant.wire)
            if variant.type:
                build = builds[job.variant]
                lines.append(shlex.join(["use_device", variant.type, build.module, build.provider,
                                         *variant.settings]))
                device = True
            if job.row.storage:
                lines.append(shlex.join(variant.use_disk(job.row.storage)))
                disk = True
            at = here
        lines.append(job.tool.script(index, job.variant.startswith("tcp")))
    leave()
    return "\n".join(lines) + "\n"
