# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Results as tables in Markdown, and as a page of tables and plots."""

from __future__ import annotations

import re
from html import escape
from typing import Iterable

from . import svg
from .plan import variant_of
from .results import Results, better, best_siw, differences, judge
from .rows import BY_NAME, ROWS, VARIANTS, Row

BENCHES = {"cost": "Cost bench", "native": "Native speed (User-Mode Linux)"}


def number(value: float | None) -> str:
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if abs(value) >= 200 else f"{value:.1f}"


def times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _cell(results: Results, bench: str, row: Row, mtu: int, variant: str) -> str:
    found = results.find(bench, row.name, mtu, variant)
    if found and found.missing and not found.samples:
        return "not measured"
    if found and found.spread > 0.05:
        return f"{number(found.value)} ±{found.spread:.0%}"
    return number(results.value(bench, row.name, mtu, variant))


def _target(results: Results, bench: str, row: Row, mtu: int) -> str:
    said = []
    for j in judge(results, bench, row, mtu):
        verdict = {True: "met", False: "**missed**", None: "not known"}[j.met]
        said.append(f"{j.text}: {verdict}")
    return "; ".join(said)


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def _columns(measured: Iterable[str]) -> list[str]:
    """Those that were measured, in the table's order, and behind them those with other settings."""
    seen = dict.fromkeys(measured)
    return [v for v in dict.fromkeys((*VARIANTS, *seen)) if v in seen]


def section(results: Results, bench: str, mtu: int) -> str:
    """One table: a row a line, a variant a column, what Kiwarp is worth beside them."""
    here = [r for r in results.results if (r.bench, r.mtu) == (bench, mtu)]
    names = {r.row for r in here}
    variants = _columns(r.variant for r in here)
    lines = []
    for row in ROWS:
        if row.name not in names:
            continue
        own = results.value(bench, row.name, mtu, "kiwarp")
        lines.append([f"{row.title}, {row.unit}",
                      *(_cell(results, bench, row, mtu, v) for v in variants),
                      times(better(row, own, best_siw(results, bench, row, mtu))),
                      times(better(row, own, results.value(bench, row.name, mtu, "tcp"))),
                      _target(results, bench, row, mtu)])
    header = ["", *(variant_of(v).title for v in variants), "to the best siw", "to TCP", "target"]
    return f"## {BENCHES[bench]}, MTU {mtu}\n\n" + table(header, lines)


def missing(results: Results) -> str:
    lines = [f"- {BENCHES[r.bench]}, MTU {r.mtu}, {BY_NAME[r.row].title}, {r.variant}: "
             f"{r.missing}" for r in results.results if r.missing]
    return "## Not measured\n\n" + "\n".join(lines) + "\n" if lines else ""


def about(results: Results) -> str:
    return "".join(f"{name}: {value}  \n" for name, value in results.meta.items())


def markdown(results: Results) -> str:
    parts = [about(results)]
    parts += [section(results, bench, mtu) for bench, mtu in results.tables()]
    parts.append(missing(results))
    return "\n".join(p for p in parts if p)


def comparison(results: Results) -> str:
    """Of two revisions."""
    lines = []
    for d in differences(results):
        change = "-" if d.times is None else f"{(d.times - 1) * 100:+.1f} %"
        lines.append([d.row.title, d.row.unit, str(d.mtu), number(d.base), number(d.head), change,
                      "**regressed**" if d.regressed else ""])
    header = ["", "unit", "MTU", "base", "head", "better by", ""]
    return about(results) + "\n" + table(header, lines) + "\n" + missing(results)


def _relative(results: Results, bench: str, mtu: int) -> str:
    """How Kiwarp and the others stand to plain TCP."""
    rows = []
    for row in ROWS:
        tcp = results.value(bench, row.name, mtu, "tcp")
        values = [(v, r) for v in _columns(r.variant for r in results.results) if v not in ("tcp", "tcp-digest")
                  and (r := better(row, results.value(bench, row.name, mtu, v), tcp))]
        if values and not row.curve:
            rows.append((row.title, values))
    return svg.bars(f"Times plain TCP, MTU {mtu} (more is better)", rows) if rows else ""


def _curves(results: Results, bench: str, mtu: int) -> list[str]:
    plots = []
    for name in dict.fromkeys(r.curve[0] for r in ROWS if r.curve):
        rows = [r for r in ROWS if r.curve and r.curve[0] == name]
        series = {v: [(r.curve[1], value) for r in rows if r.curve
                      and (value := results.value(bench, r.name, mtu, v)) is not None]
                  for v in _columns(r.variant for r in results.results)}
        series = {v: points for v, points in series.items() if len(points) > 1}
        if series:
            what = "size of a message, bytes" if name.endswith("by size") else name
            plots.append(svg.lines(f"{name}, MTU {mtu}", what, rows[0].unit, series))
    return plots


def plots(results: Results) -> list[str]:
    found = []
    for bench, mtu in results.tables():
        found += [p for p in (_relative(results, bench, mtu), *_curves(results, bench, mtu)) if p]
    return found


def title(plot: str) -> str:
    """What stands above it: its first text."""
    found = re.search(r"<text[^>]*>([^<]*)</text>", plot)
    return found[1] if found else "plot"


def _html_of(text: str) -> str:
    """Of the Markdown that is written here: headings, tables, lists, lines."""
    out: list[str] = []
    table = False
    for line in text.splitlines():
        if table and not line.startswith("|"):
            out.append("</table>")
            table = False
        shown = re.sub(r"\*\*(.*?)\*\*", r"<b>\1</b>", escape(line))
        if line.startswith("## "):
            out.append(f"<h2>{escape(line[3:])}</h2>")
        elif line.startswith("|---"):
            continue
        elif line.startswith("|"):
            tag = "td" if table else "th"
            if not table:
                out.append("<table>")
                table = True
            cells = shown.strip("| ").split(" | ") if tag == "td" else shown[1:-1].split("|")
            out.append("<tr>" + "".join(f"<{tag}>{c.strip()}</{tag}>" for c in cells) + "</tr>")
        else:
            out.append(f"<p>{shown}</p>" if shown else "")
    return "\n".join(out + (["</table>"] if table else []))


STYLE = """body{font:14px sans-serif;max-width:1400px;margin:2em auto;padding:0 1em}
table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:3px 8px;text-align:right}
td:first-child,td:last-child,th:first-child{text-align:left}b{color:#b91c1c}p{margin:.2em 0}"""


def html(results: Results, text: str) -> str:
    return (f"<!doctype html><meta charset=utf-8><title>Kiwarp bench</title><style>{STYLE}</style>"
            f"<h1>Kiwarp bench</h1>\n{_html_of(text)}\n" + "\n".join(plots(results)))
