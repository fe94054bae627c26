"""The chart: a panel a line, a bar a peer, as SVG without anything else."""

from __future__ import annotations

import math
from html import escape

from bench.peers.catalogue import PEERS
from bench.peers.readings import Readings
from bench.peers.rows import ROWS

PANELS = (
    ("add", "one"),
    ("add", "tasks"),
    ("burst", "burst"),
    ("burst", "burst_cpu"),
    ("lateness", "late_500_p99"),
    ("recovery", "recovery"),
)
ACROSS = 2
WIDE, BAR, GAP, LABEL, HEAD = 480, 14, 5, 150, 44
LONGEST = 220
OURS, THEIRS, INK, PAPER = "#c2410c", "#94a3b8", "#1e293b", "#ffffff"
DECADES = 4
"""Rates and times differ by thousands: the bars are logarithmic, over so many powers of ten."""


def draw(readings: Readings) -> str:
    names = [name for name in PEERS if name in readings.rounds]
    panels = [(row, line) for row, line in PANELS if any(readings.reading(name, row, line) for name in names)]
    high = HEAD + len(names) * (BAR + GAP) + 16
    width, height = WIDE * ACROSS, high * math.ceil(len(panels) / ACROSS) + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" role="img">',
        f"<title>tarry beside other job queues, {escape(str(readings.about.get('date', '')))}</title>",
        f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
    ]
    for at, (row, line) in enumerate(panels):
        x, y = at % ACROSS * WIDE, at // ACROSS * high
        parts += _panel(readings, names, row, line, x, y)
    said = f"Logarithmic bars. Measured on {readings.about.get('date', '')}"
    said += ", while the machine did other things: compare within a panel only." if readings.about.get("busy") else "."
    parts.append(_text(16, height - 8, said, size=11))
    parts.append("</svg>\n")
    return "\n".join(parts)


def _panel(readings: Readings, names: list[str], row: str, key: str, x: int, y: int) -> list[str]:
    line = ROWS[row].lines[key]
    better = "longer is better" if line.better == "more" else "shorter is better"
    parts = [_text(x + 16, y + 24, f"{ROWS[row].title}: {line.title}, {line.unit} ({better})", size=13, bold=True)]
    values = {name: reading.median for name in names if (reading := readings.reading(name, row, key))}
    most, sign = max(values.values(), default=1.0), -1 if line.better == "more" else 1
    ranked = sorted(values, key=lambda name: sign * values[name]) + [name for name in names if name not in values]
    for at, name in enumerate(ranked):
        top = y + HEAD + at * (BAR + GAP)
        parts.append(_text(x + LABEL - 8, top + BAR - 3, PEERS[name].title, size=11, end=True))
        if name not in values:
            parts.append(_text(x + LABEL, top + BAR - 3, "—", size=11))
            continue
        long = length(values[name], most)
        color = OURS if name == "tarry" else THEIRS
        parts.append(f'<rect x="{x + LABEL}" y="{top}" width="{long:.0f}" height="{BAR}" fill="{color}"/>')
        parts.append(_text(x + LABEL + int(long) + 6, top + BAR - 3, _number(values[name]), size=11))
    return parts


def length(value: float, most: float) -> float:
    """Of a bar: the largest is the longest, and each tenth of it is shorter by the same piece."""
    if value <= 0 or most <= 0:
        return 1.0
    return max(1.0, LONGEST * (1 + math.log10(value / most) / DECADES))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _text(x: int, y: int, text: str, *, size: int, bold: bool = False, end: bool = False) -> str:
    style = ' font-weight="bold"' if bold else ""
    anchor = ' text-anchor="end"' if end else ""
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{INK}"{style}{anchor}>{escape(text)}</text>'
