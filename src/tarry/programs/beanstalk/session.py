"""The rules of one connection: what each command does, by tarry's verbs.

    put            add, without a limit of attempts       reserve       pop, waiting in the watch
    release, bury  set_headers, then release or bury      reserve-job   pop_by_id
    delete, kick   finish or release what is reserved here; a ready or kicked job is popped by its id first

The headers of a job keep what beanstalkd knows of it and tarry does not, or not so exactly: ``pri``, ``delay``, ``releases``, ``buries``, ``kicks``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from tarry.errors import BadInput, BodyError, JobExists, StaleReceipt, TopicFull, Unavailable
from tarry.internal import LONGEST_TTR_MS, RAW, head_of, perform, server_verbs
from tarry.internal import moment_us as us_of
from tarry.programs.beanstalk import reports
from tarry.programs.beanstalk.commands import BAD_FORMAT, LEAST_URGENT, BeanstalkCommand, priority_of
from tarry.programs.beanstalk.reserved_jobs import ReservedJobs, TubeJob
from tarry.programs.beanstalk.tubes import DEFAULT, is_tube
from tarry.types import BaseJob

if TYPE_CHECKING:
    from tarry import AsyncJob, JobInfo, Stats
    from tarry.internal import StoredJob
    from tarry.programs.beanstalk.server_state import ServerState
    from tarry.programs.beanstalk.tubes import Tube, Tubes
    from tarry.types import State
    from tarry.wire.bodies import Body

SECOND = timedelta(seconds=1)
MARGIN_S = 1.0
"""The last part of a TTR, in which no other job is waited for."""
MOST_WATCHED = 1000
"""Tubes that one connection may watch."""
KICKED_AT_ONCE = 100
RETRY_S = 1.0
"""How long a consumer that waits without a timeout lets pass before it tries a server again that does not answer."""
LONGEST_WAIT_S = 10**9
LONGEST_TTR_S = LONGEST_TTR_MS // 1000
ANY_STATE: tuple[State, ...] = ("delayed", "ready", "dead")
NOT_FOUND, TIMED_OUT, DEADLINE_SOON, DRAINING = (
    b"NOT_FOUND\r\n",
    b"TIMED_OUT\r\n",
    b"DEADLINE_SOON\r\n",
    b"DRAINING\r\n",
)
OUT_OF_MEMORY = b"OUT_OF_MEMORY\r\n"
CLOSE = b""
"""The answer that closes the connection."""


class Session:
    """The state of one connection, and its commands."""

    def __init__(self, server: ServerState, tubes: Tubes) -> None:
        self.used = DEFAULT
        self.watched: dict[str, None] = {DEFAULT: None}
        self.reserved = ReservedJobs()
        self.waiting = self.is_producer = self.is_worker = False
        self.half_closed = False
        """The client sends no more, so it waits for nothing."""
        self._server = server
        self._tubes = tubes
        for name in (self.used, *self.watched):
            tubes.order.refer(name)
        self._loop = asyncio.get_running_loop()
        self._pop: asyncio.Future[list[AsyncJob[Body]]] | None = None
        self._interrupted: bytes | None = None

    @property
    def tubes(self) -> Tubes:
        """The tubes of its namespace."""
        return self._tubes

    async def perform(self, command: BeanstalkCommand, body: bytes) -> bytes:
        """The answer to a command."""
        handler: Callable[..., Awaitable[bytes]] = getattr(self, "_" + command.name.replace("-", "_"))
        args = (*command.args[:3], body) if command.name == "put" else command.args
        return await handler(*args)

    # ── producers ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _put(self, pri: int, delay: float, ttr: int, body: bytes) -> bytes:
        self.is_producer = True
        if self._server.draining:
            return DRAINING
        headers = {"pri": str(pri), **({"delay": _text(delay)} if delay else {})}
        seconds = min(max(ttr, 1), LONGEST_TTR_S)
        if ttr > seconds:
            headers["ttr"] = str(ttr)
        tube = self._tubes.tube(self.used)
        self._tubes.order.fill(self.used)
        while True:
            number = await self._tubes.new_number(self.used)
            try:
                await tube.add(
                    (body, RAW),
                    id=str(number),
                    delay=delay,
                    ttr=seconds,
                    headers=headers,
                    max_attempts=None,
                    priority=priority_of(pri),
                )
                return b"INSERTED %d\r\n" % number
            except TopicFull:
                return OUT_OF_MEMORY
            except JobExists:
                self._tubes.forget_numbers()

    async def _use(self, tube: str) -> bytes:
        if not is_tube(tube):
            return BAD_FORMAT
        self._tubes.order.refer(tube)
        self._tubes.order.leave(self.used)
        self.used = tube
        return b"USING %s\r\n" % tube.encode()

    # ── consumers ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _watch(self, tube: str) -> bytes:
        if not is_tube(tube):
            return BAD_FORMAT
        if len(self.watched) >= MOST_WATCHED:
            return OUT_OF_MEMORY
        if tube not in self.watched:
            self.watched[tube] = None
            self._tubes.order.refer(tube)
        return b"WATCHING %d\r\n" % len(self.watched)

    async def _ignore(self, tube: str) -> bytes:
        if tube in self.watched and len(self.watched) == 1:
            return b"NOT_IGNORED\r\n"
        if tube in self.watched:
            del self.watched[tube]
            self._tubes.order.leave(tube)
        return b"WATCHING %d\r\n" % len(self.watched)

    async def _reserve(self) -> bytes:
        return await self._reserve_with_timeout(None)

    async def _reserve_with_timeout(self, seconds: int | None) -> bytes:
        self.is_worker = True
        if self._server.draining:
            return CLOSE if seconds is None else TIMED_OUT
        if self.half_closed:
            seconds = 0
        until = None if seconds is None else self._loop.time() + min(seconds, LONGEST_WAIT_S)
        margin = self.reserved.first_deadline(self._loop.time()) - MARGIN_S
        while True:
            ends = margin if until is None else min(until, margin)
            wait = max(ends - self._loop.time(), 0.0)
            try:
                jobs = await self._take(None if wait == float("inf") else wait)
            except Unavailable:
                if until is not None:
                    raise
                await asyncio.sleep(RETRY_S)
                continue
            except asyncio.CancelledError:
                if self._interrupted is None:
                    raise
                answer, self._interrupted = self._interrupted, None
                return answer if answer != DRAINING else CLOSE if seconds is None else TIMED_OUT
            if jobs:
                return await self._reserved(jobs[0], self._tubes.tube(jobs[0].topic))
            if self._loop.time() >= margin:
                return DEADLINE_SOON
            if until is not None and self._loop.time() >= until:
                return TIMED_OUT

    async def _take(self, wait: float | None) -> list[AsyncJob[Body]]:
        """Waits for a job of the watched tubes. ``interrupt`` ends it; a job that comes meanwhile is released."""
        self._pop = asyncio.ensure_future(self._tubes.pop(list(self.watched), wait))
        self.waiting, self._interrupted = wait != 0, None
        try:
            return await self._pop
        except asyncio.CancelledError:
            if self._pop.done() and not self._pop.cancelled() and not self._pop.exception():
                for job in self._pop.result():  # the connection closed in the very moment: to be released
                    self._hold(job, self._tubes.tube(job.topic))
            raise
        finally:
            self.waiting, self._pop = False, None

    def interrupt(self, reason: bytes) -> None:
        """Ends a wait: the client sends no more (``TIMED_OUT``), the server drains (``DRAINING``), or the token was revoked
        (``UNAUTHORIZED``)."""
        self.half_closed = self.half_closed or reason == TIMED_OUT
        if self._pop is not None and self.waiting and self._interrupted is None:
            self._interrupted = reason
            if not self._pop.cancel():
                self._interrupted = None

    async def _reserve_job(self, number: int) -> bytes:
        self.is_worker = True
        found = await self._tubes.by_number(number, self._pop_by_id)
        return NOT_FOUND if found is None else await self._reserved(*found)

    async def _reserved(self, job: BaseJob[Body], tube: Tube) -> bytes:
        unnumbered = self._hold(job, tube)
        number = await self._tubes.number_of(job.topic, job.id)
        self.reserved.rename(unnumbered, number)
        return _with_body(b"RESERVED", number, job)

    def _hold(self, job: BaseJob[Body], tube: Tube) -> int:
        """Notes a reserved job whose number is not known yet, under a key that is no number of a job."""
        key = -id(job)
        self.reserved[key] = TubeJob(job, tube, self._loop.time() + job.ttr / SECOND)
        return key

    async def _delete(self, number: int) -> bytes:
        """Deletes a job that is reserved here, or that nobody has reserved.

        A ready job is popped, so that no other consumer gets it meanwhile. A delayed or buried one is not: a crash in between
        would hand it out.
        """
        mine = self.reserved.pop(number)
        if mine is not None:
            with suppress(StaleReceipt):
                await _finish(mine.job, mine.tube)
                return b"DELETED\r\n"
        return b"DELETED\r\n" if await self._tubes.by_number(number, self._delete_by_id) else NOT_FOUND

    async def _delete_by_id(self, tube: Tube, id: str) -> bool | None:
        job = await _get(tube, id)
        if job is not None and job.state in ("delayed", "dead"):
            return await perform(tube, server_verbs(tube).delete_exactly(id, head_of(job).nonce)) is not None or None
        found = await self._pop_by_id(tube, id)
        if found is not None:
            with suppress(StaleReceipt):
                await _finish(*found)
                return True
        return None

    async def _release(self, number: int, pri: int, delay: float) -> bytes:
        async def release(job: BaseJob[Body], tube: Tube) -> bytes:
            await _count(job, tube, "releases", priority_of(pri), pri=str(pri), delay=_text(delay))
            when = b"%d" % round(delay * 1e6) if delay else b"@%d" % _place_us(job)
            dead = await perform(tube, server_verbs(tube).fail(job, when, "released", True))
            return b"BURIED\r\n" if dead else b"RELEASED\r\n"

        return await self._on_mine(number, release)

    async def _bury(self, number: int, pri: int) -> bytes:
        async def bury(job: BaseJob[Body], tube: Tube) -> bytes:
            await _count(job, tube, "buries", priority_of(pri), pri=str(pri))
            await tube.bury(job, reason="buried")
            return b"BURIED\r\n"

        return await self._on_mine(number, bury)

    async def _touch(self, number: int) -> bytes:
        mine = self.reserved.get(number)
        if mine is None:
            return NOT_FOUND
        try:
            await mine.tube.touch(mine.job)
        except StaleReceipt:
            self.reserved.pop(number)
            return NOT_FOUND
        self.reserved.renew(number, self._loop.time() + mine.job.ttr / SECOND)
        return b"TOUCHED\r\n"

    async def _on_mine(self, number: int, act: Callable[[BaseJob[Body], Tube], Awaitable[bytes]]) -> bytes:
        """Settles a job that is reserved here."""
        mine = self.reserved.get(number)
        if mine is None:
            return NOT_FOUND
        try:
            answer = await act(mine.job, mine.tube)
        except StaleReceipt:
            answer = NOT_FOUND
        self.reserved.pop(number)
        return answer

    async def _pop_by_id(
        self, tube: Tube, id: str, states: Sequence[State] = ANY_STATE
    ) -> tuple[BaseJob[Body], Tube] | None:
        taken = await perform(tube, server_verbs(tube).pop_by_id(id, states))
        if not taken:
            return None
        codec = server_verbs(tube).context.codec
        return BaseJob(tube.name, codec, taken.receipt, taken.now, taken.jobs[0]), tube

    async def give_back(self) -> None:
        """Releases all reserved jobs, as if they had not been handed out; delayed ones are ready, as in beanstalkd."""
        mine = self.reserved.take_all()
        for name in {one.tube.name for one in mine}:
            held = [one for one in mine if one.tube.name == name]
            jobs = [one.job for one in held]
            await perform(held[0].tube, server_verbs(held[0].tube).give_back(jobs, [_place_us(job) for job in jobs]))

    def end(self) -> None:
        """Leaves its tubes: the connection is closed, and no command runs."""
        for name in (self.used, *self.watched):
            self._tubes.order.leave(name)

    # ── views ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _peek(self, number: int) -> bytes:
        job = await self._tubes.by_number(number, _get)
        return NOT_FOUND if job is None else _with_body(b"FOUND", number, job)

    async def _peek_first(self, state: State) -> bytes:
        tube = self._tubes.tube(self.used)
        for job in await tube.list(state, limit=1):
            return _with_body(b"FOUND", await self._tubes.number_of(job.topic, job.id), job)
        return NOT_FOUND

    async def _peek_ready(self) -> bytes:
        return await self._peek_first("ready")

    async def _peek_delayed(self) -> bytes:
        return await self._peek_first("delayed")

    async def _peek_buried(self) -> bytes:
        return await self._peek_first("dead")

    async def _stats_job(self, number: int) -> bytes:
        job = await self._tubes.by_number(number, _get)
        if job is None:
            return NOT_FOUND
        stats = await self._tubes.tube(job.topic).stats()
        return reports.of_job(number, job, _headers_of(job), stats.now)

    async def _stats_tube(self, name: str) -> bytes:
        stats = await self._tubes.tube(name).stats()
        if not self._is_tube_there(name, stats):
            return NOT_FOUND
        return reports.of_tube(self._server, self._tubes, stats, await self._urgent(stats))

    async def _stats(self) -> bytes:
        stats = await self._all_tubes()
        urgent = sum(await asyncio.gather(*[self._urgent(one) for one in stats]))
        return reports.of_server(self._server, stats, urgent)

    async def _urgent(self, stats: Stats) -> int:
        """How many jobs of a tube are ready and urgent."""
        tube = self._tubes.tube(stats.topic)
        return await perform(tube, server_verbs(tube).count_ready_of_priority(stats.now, LEAST_URGENT))

    async def _list_tubes(self) -> bytes:
        return reports.of_names(self._tubes.order.sort(stats.topic for stats in await self._all_tubes()))

    async def _all_tubes(self) -> list[Any]:
        """The stats of all tubes that have jobs, or that a connection uses or watches."""
        names = dict.fromkeys((*await self._tubes.names(), *self._tubes.order.referred))
        found = await asyncio.gather(*[self._tubes.tube(name).stats() for name in names])
        return [stats for stats in found if self._is_tube_there(stats.topic, stats)]

    def _is_tube_there(self, name: str, stats: Any) -> bool:
        return stats.delayed + stats.ready + stats.reserved + stats.dead > 0 or (self._tubes.order.refers(name))

    async def _list_tube_used(self) -> bytes:
        return b"USING %s\r\n" % self.used.encode()

    async def _list_tubes_watched(self) -> bytes:
        return reports.of_names(list(self.watched))

    # ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _kick(self, bound: int) -> bytes:
        for state in ("dead", "delayed"):
            kicked = await self._kick_all(state, bound)
            if kicked:
                return b"KICKED %d\r\n" % kicked
        return b"KICKED 0\r\n"

    async def _kick_all(self, state: State, bound: int) -> int:
        tube, kicked = self._tubes.tube(self.used), 0
        while kicked < bound:
            page = await tube.list(state, limit=min(bound - kicked, KICKED_AT_ONCE))
            done = sum([await self._kick_one(tube, job.id, (state,)) is not None for job in page])
            kicked += done
            if not done:
                break
        return kicked

    async def _kick_job(self, number: int) -> bytes:
        kick = partial(self._kick_one, states=("dead", "delayed"))
        return b"KICKED\r\n" if await self._tubes.by_number(number, kick) else NOT_FOUND

    async def _kick_one(self, tube: Tube, id: str, states: Sequence[State]) -> bool | None:
        found = await self._pop_by_id(tube, id, states)
        if found is None:
            return None
        await _count(found[0], tube, "kicks")
        await perform(tube, server_verbs(tube).fail(found[0], b"0", "kicked", False))
        return True

    async def _pause_tube(self, name: str, delay: float) -> bytes:
        tube = self._tubes.tube(name)
        if not self._is_tube_there(name, await tube.stats()):
            return NOT_FOUND
        await (tube.pause(delay) if delay else tube.resume())
        self._server.pauses[self._tubes.namespace, name] += 1
        return b"PAUSED\r\n"


async def _finish(job: BaseJob[Body], tube: Tube) -> None:
    await tube.finish(job)


async def _get(tube: Tube, id: str) -> JobInfo[Body] | None:
    try:
        return await tube.get(id)
    except BadInput:
        return None


async def _count(job: BaseJob[Body], tube: Tube, what: str, priority: int | None = None, **changed: str) -> None:
    """Counts in the headers of a reserved job, and changes others, and its priority if one is given. Raises ``StaleReceipt``."""
    headers = _headers_of(job)
    headers.update(changed, **{what: str(reports.number_in(headers, what) + 1)})
    if not await perform(tube, server_verbs(tube).set_headers(job, headers, priority)):
        raise StaleReceipt(f"Job {job.id} is not reserved any more.", id=job.id, reason="timed out", attempt=None)


def _headers_of(job: StoredJob[Body]) -> dict[str, str]:
    try:
        return dict(job.headers)
    except BodyError:
        return {}


def _text(seconds: float) -> str:
    return str(seconds) if isinstance(seconds, int) else f"{seconds:.6f}".rstrip("0").rstrip(".")


def _place_us(job: BaseJob[Body]) -> int:
    """Where a job goes that is released without a delay: its old place; that of now if it was taken by its number before it was due."""
    return us_of(min(job.due, job.due + job.lateness))


def _with_body(word: bytes, number: int, job: StoredJob[Body]) -> bytes:
    raw = job.raw
    return b"%s %d %d\r\n%s\r\n" % (word, number, len(raw), raw)
