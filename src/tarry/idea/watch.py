"""Keeping the watch, the client's side: one waiter for all who wait, without a poll and without a herd.

    callers  ──▶  posts, one a topic      steps            what is told back
    pop(wait)     ┌ callers, in order     Look(post)   ──▶ what was handed out, the alarm, the seat
    pop(wait)     │ alarm                 Block(keys)  ──▶ a token's key, or nothing: the alarm rang, or a poke
    pop(wait)     └ seat                  Leave(post), GiveBack(jobs)

The script that looks (lua/lib/watch.lua) says by when to look again and whether this is a seat: a promise that others rely
on. Until then the waiter blocks on the topic's tokens: on ``wake``, and on ``relay`` while it has no seat. A token asks for
somebody to promise: it is answered by a look, or by leaving. No answer in hand (the start, a lost connection): look
before waiting. Who looks while blocked on ``relay`` looks without a name, takes no seat, and is called by a token if one
is free: a seat and the token that asks for somebody else must never lie in one hand (docs/decisions/0003-the-watch.md).

Nothing here talks or knows the time: a driver asks for the next step, performs it, and tells what came of it. Drivers are
in tarry.clients; the one for tests lets waiting make time pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol
from zlib import crc32

from tarry.errors import Unavailable
from tarry.words.keys import TopicKeys

MOST = 1000
"""No look asks for more jobs than this."""
FROZEN_S = 0.05
"""An answer that was read later than this came to a process that did not run."""


class Found(Protocol):
    """What a look answers, as far as the watch is concerned."""

    @property
    def jobs(self) -> Sequence[tuple[bytes, bytes, int, int, int]]: ...
    @property
    def receipt(self) -> int: ...
    @property
    def wait(self) -> int: ...
    @property
    def seat(self) -> int: ...
    @property
    def ask_again(self) -> bool: ...


class Caller:
    """Somebody who waits for ``want`` jobs of the first of some posts that has any. ``served`` is called at the end."""

    __slots__ = ("deadline", "done", "fault", "found", "last_looks", "posts", "served", "want")

    def __init__(self, want: int, deadline: float, served: Callable[[], None]) -> None:
        self.want = want
        self.deadline = deadline
        self.served = served
        self.posts: list[Post] = []
        self.last_looks: set[Post] | None = None
        self.done = False
        self.fault: BaseException | None = None
        #: the post it was served from, the look, and its share of the jobs
        self.found: tuple[Post, Found, list[tuple[bytes, bytes, int, int, int]]] | None = None


class Post:
    """The place where callers wait for one topic, with one TTR, for one holder."""

    __slots__ = ("alarm", "callers", "holder", "keys", "me", "seat", "ttr", "unsure")

    def __init__(self, keys: TopicKeys, ttr: bytes, holder: bytes, me: bytes) -> None:
        self.keys = keys
        self.ttr = ttr
        self.holder = holder
        self.me = me
        self.callers: list[Caller] = []
        self.alarm: float | None = None
        self.seat = 0
        #: a look or a wait was broken off, or a token not yet answered: perhaps there is a seat, or a token to hand back
        self.unsure = False


@dataclass(frozen=True, slots=True)
class Look:
    """Pop up to ``want`` jobs, for ``need`` callers who wait; ``named``: stay, and take a seat, if fewer come."""

    post: Post
    want: int
    need: int
    named: bool


@dataclass(frozen=True, slots=True)
class Leave:
    """Hand back a seat, or a token that nobody here will answer."""

    keys: TopicKeys
    me: bytes


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Release, uncounted, what nobody here waits for any more."""

    post: Post
    found: Found
    jobs: list[tuple[bytes, bytes, int, int, int]]


@dataclass(frozen=True, slots=True)
class Block:
    """Wait for a token in one of the keys, until the moment; without keys: stop waiting. ``hang_up``: without a word, to a
    server that does not answer."""

    keys: tuple[bytes, ...]
    until: float
    hang_up: bool = False


Step = Look | Leave | GiveBack | Block


class Watch:
    """The waiter of one client (of one slot in a Cluster). Not thread-safe: its driver guards it."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._numbers = count()
        self._posts: dict[tuple[bytes, bytes, bytes], Post] = {}
        self._callers: dict[Caller, None] = {}
        self._errands: list[Leave | GiveBack] = []
        self._blocked: tuple[bytes, ...] = ()
        self._silent = False

    # ── callers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def enter(self, caller: Caller, wanted: Sequence[tuple[TopicKeys, bytes, bytes]]) -> bool:
        """A caller queues at its posts (keys, ttr, holder), in its order. True when there is something to do at once."""
        fresh = False
        self._callers[caller] = None  # first: an interrupted entry can be undone
        for keys, ttr, holder in wanted:
            post = self._posts.get((keys.wake, ttr, holder))
            if post is None:
                me = self._name + b":%d" % next(self._numbers)
                post = self._posts[keys.wake, ttr, holder] = Post(keys, ttr, holder, me)
            if post in caller.posts:  # a topic named twice: one place in its queue
                continue
            fresh = fresh or post.alarm is None
            caller.posts.append(post)
            post.callers.append(caller)
        return fresh

    def leave(self, caller: Caller) -> None:
        """A caller goes, served or not."""
        if caller in self._callers:
            del self._callers[caller]
            for post in caller.posts:
                if caller in post.callers:
                    post.callers.remove(caller)

    @property
    def waiting(self) -> bool:
        return bool(self._callers)

    def __iter__(self) -> Iterator[Caller]:
        return iter(self._callers)

    # ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def next_step(self, now: float) -> Step | None:
        """What to do now; ``None`` when nobody waits and nothing is left behind."""
        if self._silent and not self._callers:  # what would be handed back is missed by others at their look-around
            self._errands.clear()
            self._posts.clear()
            return Block((), now, hang_up=True) if self._blocked else None
        if self._errands:
            return self._errands.pop()
        for caller in self._callers:
            if caller.deadline <= now and caller.last_looks is None:
                caller.last_looks = set(caller.posts)
        for caller in self._callers:
            for post in caller.posts:
                if _wants_look(caller, post, now):
                    return self._look(post)
        for key, post in list(self._posts.items()):
            if not post.callers:
                del self._posts[key]
                if post.seat or post.unsure:
                    return Leave(post.keys, post.me)
        if not self._posts:
            return Block((), now) if self._blocked else None
        self._blocked = tuple(dict.fromkeys(key for post in self._posts.values() for key in _tokens_of(post)))
        return Block(self._blocked, min(self._moments()))

    def _moments(self) -> Iterator[float]:
        for post in self._posts.values():
            yield math.inf if post.alarm is None else post.alarm
        for caller in self._callers:
            yield caller.deadline

    def _look(self, post: Post) -> Look:
        post.unsure = True
        stay = sum(1 for caller in post.callers if caller.last_looks is None)
        named = post.keys.relay not in self._blocked
        return Look(post, min(sum(caller.want for caller in post.callers), MOST), min(stay, MOST), named)

    # ── what came of it ──────────────────────────────────────────────────────────────────────────────────────────────

    def looked(self, look: Look, found: Found, sent: float, now: float) -> None:
        """Hands out: one job to each caller in order, then what is left, in order.

        A promise counts from when the question was ``sent``, but for a moment: a process that froze before it read the
        answer must not look later than it promised.
        """
        post, jobs, self._silent = look.post, list(found.jobs), False
        stays = len(jobs) < look.need and not found.ask_again
        post.unsure = False
        post.seat = found.seat  # who only asks again has none, but for one who attends to a schedule first
        wait = found.wait / 1e6 * (1 if post.seat else 1 + crc32(post.me) % 50 / 1000)  # look-arounds fall apart
        post.alarm = min(now, sent + FROZEN_S) + wait if stays else None
        served = [caller for caller in post.callers if not caller.done][: len(jobs)]
        spare = len(jobs) - len(served)
        for caller in served:
            extra = min(caller.want - 1, spare)
            spare -= extra
            share, jobs = jobs[: 1 + extra], jobs[1 + extra :]
            caller.found = (post, found, share)
            self._serve(caller)
        if jobs:
            self._errands.append(GiveBack(post, found, jobs))
        if not found.ask_again:
            for caller in list(post.callers):
                if caller.last_looks is not None:
                    caller.last_looks.discard(post)
                    if not caller.last_looks:
                        self._serve(caller)

    def failed(self, look: Look, fault: BaseException) -> None:
        """A look could not be had: its callers learn why."""
        self._silent = isinstance(fault, Unavailable)
        look.post.alarm, look.post.seat, look.post.unsure = None, 0, False
        for caller in list(look.post.callers):
            caller.fault = fault
            self._serve(caller)

    def woken(self, key: bytes | None) -> None:
        """The waiting is over. If a token came, somebody here answers it by a look, or it is handed back."""
        self._blocked = ()
        if key is None:
            return
        mine = [post for post in self._posts.values() if key in (post.keys.wake, post.keys.relay)]
        for post in mine:
            if post.callers:
                post.alarm, post.unsure = None, True  # whoever goes before it has looked leaves
                return
        if mine:
            self._errands.append(Leave(mine[0].keys, mine[0].me))
        else:
            self._errands.append(Leave(_keys_of(key), b""))

    def lost(self) -> None:
        """The waiting connection is gone, and perhaps a token with it: no answer is in hand any more."""
        self._blocked = ()
        for post in self._posts.values():
            post.alarm, post.unsure = None, True

    def dismiss(self, fault: BaseException) -> None:
        """Nobody can be served here any more: all who wait learn why."""
        for caller in list(self._callers):
            caller.fault = fault
            self._serve(caller)

    def _serve(self, caller: Caller) -> None:
        caller.done = True  # in this order: wherever it is interrupted, the caller can tell, and leaves
        caller.served()
        self.leave(caller)


def _wants_look(caller: Caller, post: Post, now: float) -> bool:
    if caller.last_looks is not None:  # its time is up: one last look at each of its posts
        return post in caller.last_looks
    return post.alarm is None or post.alarm <= now


def _tokens_of(post: Post) -> tuple[bytes, ...]:
    return (post.keys.wake,) if post.seat else (post.keys.wake, post.keys.relay)


def _keys_of(token: bytes) -> TopicKeys:
    """The topic of a token whose post is gone."""
    stem = token.rpartition(b":")[0]
    return TopicKeys(*[stem + b":" + part.encode() for part in TopicKeys._fields])


__all__ = ["Block", "Caller", "GiveBack", "Leave", "Look", "Post", "Step", "Watch"]
