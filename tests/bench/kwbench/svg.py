# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Plots as SVG text: bars for the rows of a table, lines for what grows with something."""

from __future__ import annotations

import math
from html import escape

COLOURS = {"tcp": "#6b7280", "tcp-digest": "#9ca3af", "kiwarp": "#1d4ed8",
           "kiwarp-nocrc": "#60a5fa", "siw-gso": "#f59e0b", "siw": "#b45309",
           "siw-crc": "#7c2d12", "base": "#9ca3af", "head": "#1d4ed8"}
# Of columns that have to be asked for.
_OTHERS = {"tcp": "#4b5563", "kiwarp": "#1e3a8a"}
_FONT = 'font-family="sans-serif" font-size="12"'


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def colour_of(series: str) -> str:
    if series in COLOURS:
        return COLOURS[series]
    return _OTHERS.get(series.split("-")[0], "#111827")


def bars(title: str, rows: list[tuple[str, list[tuple[str, float]]]]) -> str:
    """rows: (label, [(series, value relative to 1)]): horizontal bars, a line at 1."""
    left, width, bar, gap = 190, 460, 13, 10
    top = max([1.05, *(v for _, values in rows for _, v in values)])
    parts, y = [], 34
    for label, values in rows:
        parts.append(f'<text x="{left - 8}" y="{y + bar}" text-anchor="end" {_FONT}>'
                     f"{escape(label)}</text>")
        for series, value in values:
            length = max(1.0, value / top * width)
            parts.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{bar - 2}" '
                         f'fill="{colour_of(series)}"><title>{escape(series)}</title></rect>')
            parts.append(f'<text x="{left + length + 4:.1f}" y="{y + bar - 3}" font-size="10" '
                         f'font-family="sans-serif">{escape(series)} {value:.2f}</text>')
            y += bar
        y += gap
    one = left + width / top
    parts.append(f'<line x1="{one:.1f}" x2="{one:.1f}" y1="28" y2="{y}" stroke="#444" '
                 'stroke-dasharray="3,3"/>')
    return _svg(left + width + 130, y + 8, title, parts)


def lines(title: str, x_title: str, y_title: str,
          series: dict[str, list[tuple[float, float]]]) -> str:
    """series: name to (x, y) points; x is logarithmic, y begins at 0."""
    width, height, left, top = 560, 260, 70, 34
    points = [p for values in series.values() for p in values]
    if not points:
        return ""
    low, high = (math.log2(f(x for x, _ in points)) for f in (min, max))
    most = max(y for _, y in points) * 1.08 or 1

    def place(x: float, y: float) -> tuple[float, float]:
        along = (math.log2(x) - low) / ((high - low) or 1)
        return left + along * width, top + height * (1 - y / most)

    parts = [f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" '
             'stroke="#999"/>']
    for i in range(5):
        y = most * i / 4
        _, at = place(2**low, y)
        parts.append(f'<line x1="{left}" x2="{left + width}" y1="{at:.1f}" y2="{at:.1f}" '
                     'stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end" {_FONT}>'
                     f"{_number(y)}</text>")
    for x in sorted({x for x, _ in points}):
        at, _ = place(x, 0)
        label = f"{x / 2**20:g}M" if x >= 2**20 else f"{x / 1024:g}k" if x >= 1024 else f"{x:g}"
        parts.append(f'<text x="{at:.1f}" y="{top + height + 16}" text-anchor="middle" {_FONT}>'
                     f"{label}</text>")
    for i, (name, values) in enumerate(series.items()):
        colour = colour_of(name)
        places = [place(x, y) for x, y in sorted(values)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        at = top + 16 + 16 * i
        parts.append(f'<rect x="{left + width + 12}" y="{at - 9}" width="10" height="10" '
                     f'fill="{colour}"/>')
        parts.append(f'<text x="{left + width + 28}" y="{at}" {_FONT}>{escape(name)}</text>')
    parts.append(f'<text x="{left + width / 2}" y="{top + height + 34}" text-anchor="middle" '
                 f"{_FONT}>{escape(x_title)}</text>")
    parts.append(f'<text x="14" y="{top + height / 2}" {_FONT} text-anchor="middle" '
                 f'transform="rotate(-90 14 {top + height / 2})">{escape(y_title)}</text>')
    return _svg(left + width + 130, top + height + 44, title, parts)


def _svg(width: float, height: float, title: str, parts: list[str]) -> str:
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}"><rect width="100%" height="100%" '
            f'fill="white"/><text x="8" y="18" font-weight="bold" {_FONT}>{escape(title)}</text>'
            + "".join(parts) + "</svg>\n")
