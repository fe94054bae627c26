"""Duties: work that a client does again and again in the background. It moves queues, and evicts from maps.

    DutyList ── duties, each with an alarm ──▶  requests, all that are due in one pipeline  ──▶  the next alarms, the seats
        ▲
    channels ── hints: something is due sooner, or a seat is free

A duty has a first client and its deputy; all other clients rest. The scripts know which clients will look in time
(lua/redisson/lib/seats.lua). A message is a hint; if it is lost, the next look makes up for it.

Nothing here does I/O or knows the time: a driver performs the requests, subscribes to the channels, and reports the results.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, cast
from zlib import crc32

from tarry.core.patience import RetryDelay
from tarry.core.requests import Flow, Request
from tarry.values.durations import MILLISECOND, SECOND

FROZEN_S = 0.05
"""If an answer is read later than this, the process was probably frozen meanwhile."""
FIRST_S, LONGEST_S = 0.1, 5.0
"""The delays after an error: the first, which is doubled, and the longest, which is not longer than Redisson's."""


class Duty(ABC):
    """One thing that a client does again and again: it looks when its alarm is due."""

    def __init__(self, key: bytes, name: str, verb_past: str) -> None:
        self.key = key
        self.name = name  #: for the log …
        self.verb_past = verb_past  #: … and what is done to it: "moved"
        self.users: set[int] = set()
        self.alarm: float | None = None  #: when to look next; ``None``: now
        self.may_look_early_s = 0.0  #: how much earlier it may look, to share a pipeline
        self.ended = False  #: whether there is nothing left to do
        self.flow: Flow[Any] | None = None  #: a look that has not finished …
        self.request: Request  #: … and what it asks …
        self.sent = 0.0  #: … since when
        self.outdated = False  #: whether a message came meanwhile, which may be newer than the answer

    @abstractmethod
    def check(self) -> Flow[Any]:
        """The requests of a look, one at a time."""

    @abstractmethod
    def checked(self, result: Any, sent: float, now: float) -> None:
        """Sets the next alarm after a look, whose last request was ``sent`` then."""

    @abstractmethod
    def failed(self, now: float) -> None:
        """Sets the next alarm after an error."""

    def channels(self) -> tuple[bytes, ...]:
        """The channels to subscribe to now."""
        return ()

    def on_message(self, channel: bytes, message: bytes) -> None:  # noqa: B027  # most need no messages
        """Takes a message of one of its channels, which is not empty."""

    def leave_request(self) -> Request | None:
        """The request that gives its seat back, so that it is free at once."""
        return None


class SeatedDuty(Duty):
    """A duty whose script gives the client a seat: its alarm counts from when the server was asked, by the server's clock."""

    IDLE_WAIT_S: float
    """A client that waits at least this long has nothing to do at its alarm but to look …"""
    SHARE_PIPELINE_S: float
    """… and may look this much earlier, together with others of the kind."""

    def __init__(self, key: bytes, name: str, verb_past: str, client_id: bytes) -> None:
        super().__init__(key, name, verb_past)
        self.client_id = client_id
        self.seat = 0
        self._retry_delay = RetryDelay(FIRST_S, LONGEST_S)
        self._answered_at = 0.0  #: by the driver's clock …
        self._server_now = 0  #: … and by the server's

    def failed(self, now: float) -> None:
        self.seat, self.may_look_early_s = 0, 0.0
        self.alarm = now + self._retry_delay.next_delay()

    def _seated(self, seat: int, server_now: int, wait_us: int, sent: float, now: float, *, more: bool) -> None:
        """Sets the next alarm; clients without a seat look a little earlier than the script says, each by another share."""
        self.seat = seat
        self._retry_delay.reset()
        self._answered_at, self._server_now = min(now, sent + FROZEN_S), server_now
        wait = wait_us / SECOND
        self.may_look_early_s = self.SHARE_PIPELINE_S if wait >= self.IDLE_WAIT_S else 0.0
        self.alarm = None if more else self._answered_at + wait * (1 if seat else 1 - crc32(self.client_id) % 100 / 500)

    def _due_at(self, milliseconds: bytes) -> None:
        """Something is due then, by the server's clock."""
        ahead = int(milliseconds) * MILLISECOND - self._server_now
        due = self._answered_at + max(ahead, 0) / SECOND
        if self.alarm is not None and due < self.alarm:
            self.alarm, self.may_look_early_s = due, 0.0


class DutyList:
    """The duties of one client. Not thread-safe: its driver guards it."""

    def __init__(self) -> None:
        self._duties: dict[bytes, Duty] = {}

    def __len__(self) -> int:
        return len(self._duties)

    def __iter__(self) -> Iterator[Duty]:
        return iter(list(self._duties.values()))

    def add(self, duty: Duty, user: int = 0) -> bool:
        """Adds a duty for a user. Returns true if it is new; else the user has the one that is there."""
        known = self._duties.setdefault(duty.key, duty)
        known.users.add(user)
        return known is duty

    def is_used(self, key: bytes, user: int) -> bool:
        """Whether the user's duty is there."""
        return key in self._duties and user in self._duties[key].users

    def remove(self, key: bytes, user: int) -> Duty | None:
        """Removes a user; returns the duty if that was the last."""
        duty = self._duties.get(key)
        if duty is None:
            return None
        duty.users.discard(user)
        return self._duties.pop(key) if not duty.users else None

    # ── looks ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def due(self, now: float) -> list[Duty]:
        """The duties whose ``request`` is due now; the driver performs all at once, and calls ``on_answer`` for each."""
        resting = [duty for duty in self if duty.flow is None]
        due = [duty for duty in resting if duty.alarm is None or duty.alarm <= now]
        kinds = {type(duty) for duty in due if duty.may_look_early_s}
        due += [
            duty
            for duty in resting
            if duty.may_look_early_s
            and type(duty) in kinds
            and duty.alarm
            and now < duty.alarm <= now + duty.may_look_early_s
        ]
        for duty in due:
            duty.flow, duty.sent = duty.check(), now
            duty.request = cast("Request", next(duty.flow))  # a look sends one request at a time
        return [duty for duty in self if duty.flow is not None]

    def on_answer(self, duty: Duty, answer: Any, now: float) -> None:
        """Takes the answer to a duty's request, or its error."""
        assert duty.flow is not None
        flow, duty.flow = duty.flow, None
        sent, duty.sent = duty.sent, now
        try:
            if isinstance(answer, Exception):
                flow.close()
                duty.failed(now)
            else:
                duty.request = cast("Request", flow.send(answer))
                duty.flow = flow
                return
        except StopIteration as end:
            duty.checked(end.value, sent, now)
            duty.alarm = None if duty.outdated else duty.alarm
        duty.outdated = False
        if duty.ended:
            self._duties.pop(duty.key, None)

    def next_due(self) -> float:
        """When the next look is due."""
        return min(((duty.alarm or 0.0) if duty.flow is None else 0.0 for duty in self), default=float("inf"))

    def leave_requests(self) -> list[Request]:
        """The requests that give all seats back."""
        return [request for duty in self if (request := duty.leave_request()) is not None]

    # ── channels ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def channels(self) -> set[bytes]:
        """The channels to subscribe to now."""
        return {channel for duty in self for channel in duty.channels()}

    def on_message(self, channel: bytes, message: bytes) -> None:
        """Takes a message. An empty one: some may have been lost, so look now."""
        for duty in self:
            if channel in duty.channels():
                if duty.flow is not None:
                    duty.outdated = True
                elif message:
                    duty.on_message(channel, message)
                else:
                    duty.alarm = None
