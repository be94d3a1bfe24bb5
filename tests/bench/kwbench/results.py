# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""What a run measured, and the arithmetic on it: ratios, targets, comparisons. No I/O but JSON."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field

from .rows import BY_NAME, Row, Target

# A row of two revisions may differ by this much before it counts.
TOLERANCE = 0.03


@dataclass
class Result:
    bench: str  # cost or native
    row: str
    mtu: int
    variant: str
    samples: list[float] = field(default_factory=list)
    missing: str = ""  # why there is no sample, or one less
    seconds: float = 0  # that measuring it took

    @property
    def value(self) -> float | None:
        return statistics.median(self.samples) if self.samples else None

    @property
    def spread(self) -> float:
        """From the median to the sample that is furthest from it, relative."""
        if len(self.samples) < 2 or not self.value:
            return 0.0
        return max(abs(s - self.value) for s in self.samples) / abs(self.value)


@dataclass
class Results:
    meta: dict[str, object] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)

    def find(self, bench: str, row: str, mtu: int, variant: str) -> Result | None:
        for r in self.results:
            if (r.bench, r.row, r.mtu, r.variant) == (bench, row, mtu, variant):
                return r
        return None

    def samples(self, bench: str, row: str, mtu: int, variant: str) -> int:
        """How often it was measured."""
        found = self.find(bench, row, mtu, variant)
        return len(found.samples) if found else 0

    def value(self, bench: str, row: str, mtu: int, variant: str) -> float | None:
        found = self.find(bench, row, mtu, variant)
        if variant == "tcp" and BY_NAME[row].plain_row:
            found = self.find(bench, BY_NAME[row].plain_row, mtu, variant)
        return found.value if found else None

    def tables(self) -> list[tuple[str, int]]:
        """The benches and MTUs that there are results of, in order."""
        return sorted({(r.bench, r.mtu) for r in self.results})

    def dump(self) -> str:
        return json.dumps({"meta": self.meta, "results": [
            {**asdict(r), "value": r.value, "unit": BY_NAME[r.row].unit} for r in self.results]},
            indent=1)

    @staticmethod
    def load(text: str) -> Results:
        data = json.loads(text)
        keep = ("bench", "row", "mtu", "variant", "samples", "missing", "seconds")
        return Results(data["meta"], [Result(**{k: r[k] for k in keep}) for r in data["results"]])


def better(row: Row, value: float | None, than: float | None) -> float | None:
    """How many times better value is: above 1 is better, whatever the row counts."""
    if not value or not than or value < 0 or than < 0:
        return None
    return value / than if row.higher else than / value


def best_siw(results: Results, bench: str, row: Row, mtu: int) -> float | None:
    values = [v for name in ("siw", "siw-gso", "siw-crc")
              if (v := results.value(bench, row.name, mtu, name)) is not None]
    if not values:
        return None
    return max(values) if row.higher else min(values)


@dataclass(frozen=True)
class Judgement:
    text: str  # what is to be reached
    met: bool | None  # None: a figure is missing
    limit: float | None


def limit_of(results: Results, bench: str, row: Row, mtu: int, target: Target) -> float | None:
    if not target.of:
        return target.factor + target.plus
    variant = target.variant if target.of == "same" else target.of
    reference = results.value(bench, target.row or row.name, mtu, variant)
    return None if reference is None else reference * target.factor + target.plus


def target_text(row: Row, target: Target) -> str:
    sign = ">=" if row.higher else "<="
    if not target.of:
        return f"{target.variant} {sign} {target.factor:,.0f}"
    of = target.of if target.of != "same" else ""
    if target.row:
        of = f"{of} {target.row}".strip()
    plus = f" + {target.plus:,.0f}" if target.plus else ""
    return f"{target.variant} {sign} {target.factor:g} x {of}{plus}"


def judge(results: Results, bench: str, row: Row, mtu: int) -> list[Judgement]:
    judged = []
    for target in row.targets:
        if target.mtus and mtu not in target.mtus:
            continue
        if results.find(bench, row.name, mtu, target.variant) is None:
            continue
        value = results.value(bench, row.name, mtu, target.variant)
        limit = limit_of(results, bench, row, mtu, target)
        met = None
        if value is not None and limit is not None:
            met = value >= limit if row.higher else value <= limit
        judged.append(Judgement(target_text(row, target), met, limit))
    return judged


def failures(results: Results) -> list[Result]:
    """Kiwarp's own rows that have no figure."""
    return [r for r in results.results if not r.variant.startswith(("siw", "tcp")) and r.missing]


@dataclass(frozen=True)
class Difference:
    row: Row
    mtu: int
    base: float | None
    head: float | None

    @property
    def times(self) -> float | None:
        return better(self.row, self.head, self.base)

    @property
    def regressed(self) -> bool:
        # No figure is no better than a bad one; but what the base has not got cannot be worse.
        if self.times is None:
            return self.head is None
        return self.times < 1 - TOLERANCE


def differences(results: Results) -> list[Difference]:
    seen = dict.fromkeys((r.bench, r.row, r.mtu) for r in results.results)
    return [Difference(BY_NAME[row], mtu, results.value(bench, row, mtu, "base"),
                       results.value(bench, row, mtu, "head")) for bench, row, mtu in seen]
