"""Numbers that no other process of a namespace has: for protocols in which a job's id is one."""

from __future__ import annotations

from tarry.core.requests import Command
from tarry.values.keys import numbers_key


def reserve_numbers(namespace: str, n: int) -> Command[int]:
    """Reserves ``n`` numbers, and returns the last one. They rise. Numbers of a lost reply are given to nobody."""
    return Command((b"INCRBY", numbers_key(namespace), b"%d" % n), int)
