"""Durations in sentences: ``3 d 4 h``, ``3 m 20 s``, ``1.5 s``, ``12 ms``."""

from __future__ import annotations

STEPS = ((365 * 86400, "y"), (86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
"""Seconds of each unit, the longest first."""


def span_text(seconds: float) -> str:
    """A duration with two units at most."""
    if seconds < 0:
        return "−" + span_text(-seconds)
    if seconds < 0.0000005:
        return "0 s"
    if seconds < 0.9995:
        return f"{seconds * 1000:.2g} ms" if seconds < 0.0995 else f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    left = round(seconds)
    parts = []
    for size, unit in STEPS:
        if left >= size:
            parts.append(f"{left // size} {unit}")
            left %= size
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts)
