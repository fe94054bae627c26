"""The order in which the tubes of a namespace were made, as this process knows it.

A tube begins when a connection uses or watches it, and ends when none does and it has no jobs. The server's list of topics has no
order, so tubes that only other processes have used come in the order in which this one learns of them, by name.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from itertools import count

MOST_LEFT = 10_000
"""How many tubes that no connection refers to a process remembers; the others are new when they are listed."""


class TubeOrder:
    """Which tubes connections refer to, and which tube was made before which."""

    def __init__(self, first: str) -> None:
        self._references: Counter[str] = Counter()
        self._made: dict[str, int] = {}
        """The tubes that connections refer to, with the number that orders them."""
        self._filled: set[str] = set()
        """Those of them that jobs were put into."""
        self._left: OrderedDict[str, int] = OrderedDict()
        """Tubes that had jobs when the last connection left them."""
        self._numbers = count()
        self.refer(first)

    def refer(self, tube: str) -> None:
        """A connection uses or watches it."""
        self._references[tube] += 1
        if tube not in self._made:
            found = self._left.pop(tube, None)
            if found is not None:
                self._filled.add(tube)
            self._made[tube] = next(self._numbers) if found is None else found

    def fill(self, tube: str) -> None:
        """A job is put into it."""
        if tube in self._made:
            self._filled.add(tube)

    def leave(self, tube: str) -> None:
        """A connection uses or watches it no longer."""
        self._references[tube] -= 1
        if self._references[tube]:
            return
        del self._references[tube]
        number = self._made.pop(tube)
        if tube in self._filled:
            self._filled.remove(tube)
            self._note(tube, number)

    def _note(self, tube: str, number: int) -> None:
        self._left[tube] = number
        if len(self._left) > MOST_LEFT:
            self._left.popitem(last=False)

    def refers(self, tube: str) -> bool:
        """Whether a connection uses or watches it."""
        return tube in self._made

    @property
    def referred(self) -> list[str]:
        return list(self._made)

    def sort(self, tubes: Iterable[str]) -> list[str]:
        """These tubes, which are all that there are, in the order of making."""
        there = set(tubes)
        for gone in self._left.keys() - there:
            del self._left[gone]
        numbers = {**self._left, **self._made}
        for new in sorted(there - numbers.keys()):
            numbers[new] = next(self._numbers)
            self._note(new, numbers[new])
        return sorted(there, key=numbers.__getitem__)
