# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""What the native bench measured, as tables in Markdown."""

from __future__ import annotations

from .native import COUNTERS, Measured, Pair, Series
from .plan import variant_of
from .report import number, table
from .rows import BY_NAME, Row
from .stats import PRECISION, Ratio, quantile, spread
from .tools import size_of

GIB = 1 << 30
AGAIN = "again"


def title(column: str) -> str:
    if column in ("base", "head"):
        return {"base": "base", "head": "this tree"}[column]
    variant = variant_of(column)
    return variant.title if variant.name == column else column


def figure(row: Row, cost: float) -> float:
    """What the row counts, of what a message costs."""
    size = size_of(row.tool)
    if row.unit == "us":
        return cost * 1e6 / (2 if row.name.startswith("latency") else 1)
    return {"MiB/s": size / 2**20, "MB/s": size / 1e6}.get(row.unit, 1.0) / cost


def processor(row: Row, cost: float) -> float:
    """What the row costs a processor: seconds for a GiB, or microseconds for a message."""
    if row.unit not in ("MiB/s", "MB/s"):
        return cost * 1e6
    return cost * GIB / size_of(row.tool)


def _cell(value: float, of: float) -> str:
    text = f"{value:.3g}" if value < 100 else number(value)
    return f"{text} ±{of:.0%}" if of >= 0.005 else text


def _of(series: Series | None, row: Row, what: str) -> str:
    if series is None:
        return ""
    costs = list(getattr(series, what).values())
    if not costs:
        return "not measured" if series.missing else ""
    shown = figure if what == "wall" else processor
    return _cell(shown(row, quantile(costs)), spread(costs))


def ratio_text(found: Ratio | None) -> str:
    if found is None:
        return "-"
    return f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"


def _rows(measured: Measured, mtu: int) -> list[Row]:
    return [BY_NAME[name] for name in dict.fromkeys(s.row for s in measured.series if s.mtu == mtu)]


def _columns(measured: Measured, mtu: int) -> list[str]:
    return list(dict.fromkeys(c for p in measured.pairs for c in (p.to, p.of)
                              if any(s.column == c and s.mtu == mtu for s in measured.series)))


def figures(measured: Measured, mtu: int, what: str) -> str:
    columns = _columns(measured, mtu)
    lines = []
    for row in _rows(measured, mtu):
        unit = row.unit if what == "wall" else "s/GiB" if row.unit in ("MiB/s", "MB/s") else "us each"
        lines.append([f"{row.title}, {unit}", *(_of(measured.find(row.name, mtu, c), row, what) for c in columns)])
    return table(["", *map(title, columns)], lines)


def said(found: Ratio | None) -> str:
    if found is None:
        return "no figure"
    return f"{'known' if found.known else 'time was up'} after {found.rounds} rounds"


def ratios(measured: Measured, mtu: int) -> str:
    lines = []
    for row in _rows(measured, mtu):
        for pair in measured.pairs:
            if not (measured.find(row.name, mtu, pair.of) and measured.find(row.name, mtu, pair.to)):
                continue
            cpu = measured.ratio(row.name, mtu, pair, "cpu")
            less = measured.ratio(row.name, mtu, pair, "less calls") if measured.call_excess else None
            lines.append([row.title, f"{title(pair.of)} / {title(pair.to)}", ratio_text(cpu), ratio_text(less),
                          ratio_text(measured.ratio(row.name, mtu, pair, "wall")), said(cpu)])
    return table(["", "what it costs", "CPU time", "less system calls", "time", ""], lines)


def counters(measured: Measured, mtu: int) -> str:
    seen = [name for name in COUNTERS if any(name in s.counters for s in measured.series if s.mtu == mtu)]
    lines = []
    for row in _rows(measured, mtu):
        for column in _columns(measured, mtu):
            series = measured.find(row.name, mtu, column)
            if series and series.counters and column != AGAIN:
                values = [series.counter(name) for name in seen]
                lines.append([row.title, title(column), *("" if v is None else f"{v:.3g}" for v in values)])
    return table(["", "", *(COUNTERS[name] for name in seen)], lines)


def verdict(found: Ratio, factor: float) -> str:
    """Only an interval that is whole on one side of it decides."""
    if found.low >= factor:
        return "met"
    return "missed" if found.high < factor else "open: the interval contains it"


def targets(measured: Measured, mtu: int) -> str:
    lines = []
    for row in _rows(measured, mtu):
        for t in row.targets_at(mtu):
            found = measured.ratio(row.name, mtu, Pair(t.of, t.variant))
            if found:
                lines.append([row.title, f"{title(t.of)} / {title(t.variant)}", f"{t.factor:.2f}",
                              ratio_text(found), verdict(found, t.factor)])
    if not lines:
        return ""
    return f"## Targets, MTU {mtu}\n\n" + table(["", "CPU time", "at least", "found", ""], lines)


def again(measured: Measured, mtu: int) -> str:
    """How far the same thing measured twice is apart."""
    apart = [r.value for row in _rows(measured, mtu) for p in measured.pairs
             if p.of == AGAIN and (r := measured.ratio(row.name, mtu, p))]
    if not apart:
        return ""
    furthest = max(abs(r - 1) for r in apart)
    return (f"A against A: the same build measured as two columns differs by {furthest:.1%} at most in CPU time, "
            f"{len(apart)} rows.\n")


def missing(measured: Measured) -> str:
    lines = [f"- MTU {s.mtu}, {BY_NAME[s.row].title}, {title(s.column)}: {s.missing}"
             for s in measured.series if s.missing]
    return "## Not measured\n\n" + "\n".join(lines) + "\n" if lines else ""


def markdown(measured: Measured) -> str:
    parts = ["".join(f"{name}: {value}  \n" for name, value in measured.meta.items())]
    for mtu in sorted({s.mtu for s in measured.series}):
        parts += [
            f"## Native speed, MTU {mtu}\n\n" + figures(measured, mtu, "wall"),
            f"## CPU time, MTU {mtu}\n\n" + figures(measured, mtu, "cpu"),
            f"## Ratios, MTU {mtu}\n\nAbove 1: the second of the two is cheaper. In brackets the interval, "
            f"{PRECISION:.0%} wide or less where the ratio of CPU time counts as known. "
            f"\"Less system calls\": without the {measured.call_excess * 1e6:.1f} us by which each of them takes "
            "longer here than in this machine's own kernel.\n\n"
            + again(measured, mtu) + "\n" + ratios(measured, mtu),
            targets(measured, mtu),
            f"## For each message, MTU {mtu}\n\n" + counters(measured, mtu)]
    parts.append(missing(measured))
    return "\n".join(p for p in parts if p)
