"""The turns of the event loop, and the work of strangers in them: connections of a port that were never authorized.

                          turns that admit no connection    those that admit one, as long as they follow each other
shows a valid token       16 requests                       16 requests
shows none                16 requests                       one in every fourth turn

uvloop accepts a connection a turn. So a client that connects behind two thousand others waits for as many turns, and for what
strangers do in them: a large answer takes three times as long as to admit a connection. A token that is shown is compared with those
that the service knows already. One that was created after it looked last counts as none, once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice

MOST_IN_A_TURN = 16
"""How many requests of strangers begin in one turn of the loop, of those that show a valid token and of the others."""
CROWDED_TURNS = 4
"""While each turn admits a connection, a request that shows none begins in one turn of this number."""
Work = Callable[[], object]


class Turns:
    """The strangers that wait for their turn: the longest waiting first."""

    def __init__(self) -> None:
        self._waiting: dict[bool, dict[Work, None]] = {True: {}, False: {}}
        """By whether they show a valid token."""
        self._left = {True: MOST_IN_A_TURN, False: MOST_IN_A_TURN}
        self._timer: asyncio.Handle | None = None
        """The begin of the next turn, while somebody works or waits."""
        self._admits = False
        self._crowded = 0
        """How many turns before this one have admitted a connection, without one between them that has not."""

    def note_admission(self) -> None:
        """This turn has admitted a connection."""
        self._admits = True
        self._go_on()

    def take(self, work: Work, *, shows_token: bool) -> bool:
        """Does the work, now or in a later turn. Returns whether now."""
        if not self._left[shows_token]:
            self.wait_for(work, shows_token=shows_token)
            return False
        self._left[shows_token] -= 1
        self._go_on()
        work()
        return True

    def wait_for(self, work: Work, *, shows_token: bool) -> None:
        """Does the work in a later turn."""
        self._waiting[not shows_token].pop(work, None)
        self._waiting[shows_token][work] = None
        self._go_on()

    async def turn(self, *, shows_token: bool) -> None:
        """Returns when a turn has come."""
        turn = asyncio.Event()
        self.take(turn.set, shows_token=shows_token)
        await turn.wait()

    def _go_on(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_soon(self._begin_next)

    def _begin_next(self) -> None:
        self._timer = None
        self._crowded, self._admits = self._crowded + 1 if self._admits else 0, False
        of_others = MOST_IN_A_TURN if not self._crowded else int(self._crowded % CROWDED_TURNS == 0)
        self._left = {True: MOST_IN_A_TURN, False: of_others}
        for shows_token, waiting in self._waiting.items():
            for work in list(islice(waiting, self._left[shows_token])):
                del waiting[work]
                self.take(work, shows_token=shows_token)
        if any(self._waiting.values()):
            self._go_on()
