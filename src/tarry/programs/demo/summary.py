"""The summary of a demo run, computed from the orders, the answers of delete and the workers' work logs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from tarry.programs.demo.work_log import LogLine
from tarry.types import State

IN_TIME: tuple[State, ...] = ("delayed", "ready")
"""The answers of delete when no worker had the order yet: the payment was in time."""


class Summary(msgspec.Struct, frozen=True):
    """``lost``, ``early`` and ``closed_after_paid`` must be 0."""

    orders: int
    closed: int
    paid_in_time: int
    paid_too_late: int
    """The payment came while, or after, the order was closed."""
    lost: int
    early: int
    closed_after_paid: int
    redelivered: int
    closed_twice: int
    killed_holding: int
    lateness_p50_ms: float
    lateness_p99_ms: float
    lateness_max_ms: float
    took_s: float
    check: tuple[str, ...]
    """Faults that ``check`` found in the topic."""

    @property
    def ok(self) -> bool:
        return not (self.lost or self.early or self.closed_after_paid or self.check)


def summary(
    dues_us: Mapping[str, int],
    payments: Mapping[str, State | None],
    work_logs: Sequence[Sequence[LogLine]],
    *,
    killed_holding: int,
    took_s: float,
    check: tuple[str, ...],
) -> Summary:
    """``dues_us``: the due times of the orders, by the answers of ``add``. ``payments``: the answers of ``delete``."""
    lines = [line for work_log in work_logs for line in work_log]
    taken = [line for line in lines if line.what == "taken"]
    closed = Counter(line.order for line in lines if line.what == "closed")
    paid = {id for id, state in payments.items() if state in IN_TIME}
    deleted = {id for id, state in payments.items() if state is not None}
    lateness_ms = sorted((line.handed_us - line.due_us) / 1000 for line in taken)
    return Summary(
        orders=len(dues_us),
        closed=len(closed),
        paid_in_time=len(paid),
        paid_too_late=len(payments) - len(paid),
        lost=len(dues_us.keys() - closed.keys() - deleted),
        early=sum(line.handed_us < max(line.due_us, dues_us[line.order]) for line in taken),
        closed_after_paid=len(paid & {line.order for line in taken}),
        redelivered=sum(n - 1 for n in Counter(line.order for line in taken).values()),
        closed_twice=sum(n > 1 for n in closed.values()),
        killed_holding=killed_holding,
        lateness_p50_ms=_share(lateness_ms, 0.50),
        lateness_p99_ms=_share(lateness_ms, 0.99),
        lateness_max_ms=_share(lateness_ms, 1.0),
        took_s=round(took_s, 1),
        check=check,
    )


def _share(sorted_ms: Sequence[float], share: float) -> float:
    return round(sorted_ms[max(math.ceil(share * len(sorted_ms)) - 1, 0)], 2) if sorted_ms else 0.0
