"""A seed → what will be done, and with which dice. The same seed is the same plan."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .environment import Fault
from .families import Family


@dataclass(frozen=True)
class Step:
    """One fault: so long after the one before has ended, with dice of its own."""

    number: int
    after_s: float
    fault: Fault
    dice: str

    def __str__(self) -> str:
        return f"{self.number:3}  {self.after_s:5.2f} s later  {self.fault.__name__}"


def steps(family: Family, seed: str, most: int = 2000) -> list[Step]:
    """More than a run has time for."""
    dice = random.Random(f"{seed}/{family.name}")
    kinds, weights = list(family.faults), list(family.faults.values())
    if not kinds:
        return []
    # every kind once before any twice
    first = dice.sample(kinds, len(kinds))
    chosen = first + dice.choices(kinds, weights, k=most - len(first))
    return [Step(n, dice.uniform(*family.gap_s), fault, f"{seed}/{family.name}/{n}") for n, fault in enumerate(chosen)]
