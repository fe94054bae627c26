"""Time axes: round steps, and the marks at them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
SUBSECOND = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
MINUTE, HOUR, DAY = 60, 3600, 86400
STEPS_S: tuple[float, ...] = (
    *SUBSECOND,
    *(1, 2, 5, 10, 15, 30),
    *(n * MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR for n in (1, 2, 3, 6, 12)),
    *(n * DAY for n in (1, 2, 7, 14, 28, 91, 364)),
)


def step_of(span_s: float, most: int) -> float:
    """The smallest round step of which ``most`` or fewer make the span."""
    return next((step for step in STEPS_S if span_s / step <= most), span_s / most)


def floor_to_step(moment: datetime, step_s: float) -> datetime:
    """The last whole step before a moment, so that bars do not move as time passes."""
    step = timedelta(seconds=step_s)
    return moment - (moment - EPOCH) % step


def marks(start: datetime, end: datetime, most: int) -> list[datetime]:
    """Whole steps between two moments."""
    step_s = step_of((end - start).total_seconds(), most)
    step = timedelta(seconds=step_s)
    at = floor_to_step(start, step_s)
    found = []
    while at <= end:
        if at >= start:
            found.append(at)
        at += step
    return found


def label_of(at: datetime, span_s: float) -> str:
    """A mark's text, in UTC; the page's script replaces it by the reader's time zone."""
    if span_s < 10:
        return at.strftime("%H:%M:%S.") + f"{at.microsecond // 1000:03}"
    if span_s <= 600:
        return at.strftime("%H:%M:%S")
    return (
        at.strftime("%H:%M")
        if span_s <= 2 * 86400
        else at.strftime("%b %d")
        if span_s < 300 * 86400
        else at.strftime("%Y-%m")
    )


def label_style(span_s: float) -> str:
    """The name of the label's format, for the script."""
    if span_s < 10:
        return "ms"
    if span_s <= 600:
        return "s"
    return "m" if span_s <= 2 * 86400 else "d" if span_s < 300 * 86400 else "y"
