"""The templates' filters: numbers, durations and moments for people; hostile text with its control characters spelled out."""

from __future__ import annotations

import math
import unicodedata
from datetime import datetime, timedelta, timezone

from markupsafe import Markup

from tarry.programs.serving.conditions import STEPS, span_text


def count(n: float) -> str:
    """1,234 up to 99,999; then 123 k, 1.23 M."""
    for least, unit in ((1e9, "G"), (1e6, "M"), (1e5, "k")):
        if n >= least:
            return f"{n / {'G': 1e9, 'M': 1e6, 'k': 1e3}[unit]:.3g} {unit}"
    return f"{n:,.0f}"


def all_digits(n: int) -> str:
    """All of its digits."""
    return f"{n:,}"


def jobs(n: int) -> str:
    return "1 job" if n == 1 else f"{n:,} jobs"


def span(of: timedelta | float | None) -> str:
    """A span: 0.42 ms, 1.5 s, 3 m 20 s, 2 h 5 m, 3 d 4 h."""
    if of is None:
        return "–"
    return span_text(of.total_seconds() if isinstance(of, timedelta) else of)


def exact_span(of: timedelta) -> str:
    """A span to its last digit: 1 d 2 h 0.5 s."""
    left, parts = of // timedelta(microseconds=1), []
    for size, unit in STEPS[1:-1]:
        n, left = divmod(left, size * 1_000_000)
        if n:
            parts.append(f"{n:,} {unit}")
    if left or not parts:
        parts.append(f"{left / 1e6:.6f}".rstrip("0").rstrip(".") + " s")
    return " ".join(parts)


def rate(per_second: float | None) -> str:
    """A rate: 98/s, 1.2/s, 4/min, 3/h."""
    if per_second is None:
        return "–"
    if per_second <= 0:
        return "0/s"
    for times, unit in ((1, "s"), (60, "min"), (3600, "h")):
        if per_second * times >= 1 or unit == "h":
            value = per_second * times
            return f"{count(value) if value >= 100 else format(value, '.2g')}/{unit}"
    return "0/s"


def size(n: float) -> str:
    """Bytes: 324 B, 1.2 MB."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if n < 1000 or unit == "TB":
            return f"{n:.0f} {unit}" if unit == "B" or n >= 100 else f"{n:.3g} {unit}"
        n /= 1000
    return ""


def iso(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock(moment: datetime | None) -> Markup:
    """A moment; the page's script shows it in the reader's own time zone."""
    if moment is None:
        return Markup("–")
    text = moment.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    return Markup('<time datetime="{}">{}</time>').format(iso(moment), text)


def plain(text: object) -> str:
    """Text whose invisible and bidirectional control characters are spelled out, so that it cannot pass for another text."""
    return "".join(_escape(sign) for sign in str(text))


def lines(text: str) -> str:
    """The same for text of several lines."""
    return "".join(sign if sign in "\n\t" else _escape(sign) for sign in text)


def _escape(sign: str) -> str:
    if sign.isprintable() or sign == " ":
        return sign
    return (
        f"⟨{unicodedata.name(sign, f'U+{ord(sign):04X}')}⟩"
        if unicodedata.category(sign) == "Cf"
        else f"⟨U+{ord(sign):04X}⟩"
    )


def share(part: float, whole: float) -> float:
    return part / whole if whole > 0 and math.isfinite(part) else 0.0


FILTERS = {
    "count": count,
    "whole": all_digits,
    "jobs": jobs,
    "span": span,
    "rate": rate,
    "size": size,
    "clock": clock,
    "iso": iso,
    "plain": plain,
    "lines": lines,
}
