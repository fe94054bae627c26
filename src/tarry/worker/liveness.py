"""A worker shows that it lives, and looks for others that do not. A killed worker's jobs go to another running worker within two seconds if
the server sees its connection end, otherwise after their time to run.

    start ──▶ subscribed, announce: idle, then it takes jobs
    first job ──▶ announce: busy ──── every 5 s ────▶ announce: idle     half a second after the last job
    others busy ──▶ find_absent, every 0.7 s ──▶ release what an absent one held     if it was called to look

A thread of its own keeps the process subscribed to its channel, and a handler that blocks the event loop does not hinder it. When the
subscription is lost, the thread makes it again, and meanwhile asks the server not to miss it. If neither works for half of the grace,
the worker takes no new jobs until one does. The jobs that it has in hand may then be handed out again, and its own finish be refused.
The thread also has a connection that is blocked: there it is asked when its subscription has ended without its notice. Both may have
ended so, as when a router forgets what is silent: as long as it holds jobs, it also looks itself whether it is asked.
tarry.verbs.liveness has the protocol.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from tarry.clients.awaited.client import AsyncClient
from tarry.clients.blocking.client import Client
from tarry.clients.blocking.pubsub import PubSub
from tarry.clients.channels import Subscriber
from tarry.clients.config import server_verbs
from tarry.connections.background import failures, supervise
from tarry.connections.blocking_blpop import BlpopConnection
from tarry.connections.faults import Fault, ServerRefused
from tarry.connections.wake_event import SocketWakeEvent
from tarry.core.flows import gather
from tarry.core.patience import RetryDelay
from tarry.core.requests import Batch, Command, Flow, Operation, ScriptCall, Step, flow_of
from tarry.errors import ServerUnfit, TarryError, Unavailable, Unconfirmed
from tarry.values.keys import holder_channel, holder_keys
from tarry.verbs import liveness, workers
from tarry.verbs.jobs.holders import LIVES, TOO_YOUNG, worst_of
from tarry.verbs.jobs.topic import TopicVerbs
from tarry.verbs.liveness import EVERY_S, GRACE_S, MissedHolder
from tarry.worker.outage import Outage, ServerHealth

T = TypeVar("T")
AbsenceVerb = Callable[[TopicVerbs[Any], str, bytes], Operation[int]]
logger = logging.getLogger("tarry.worker")
WORK = "tarry liveness"
LINGER_S = 0.5
"""So long after its last job a worker is idle. With jobs that come faster it says nothing between them."""
REPEAT_S = 5.0
"""A busy worker says so again, in case that the observers have died, or that the server has forgotten it."""
ASKED_EVERY_S = 0.2
"""How often a busy worker looks whether it is asked, unless it has just popped: twice between the question and the last look."""
RETRY_S = 0.1
OUTAGE_S = 1.0
"""An outage that is shorter is not logged."""
REFUSED_S, LONGEST_REFUSED_S = 1.0, 60.0
"""The pauses after the server has refused it: the password is being changed, or the permission is missing."""
LONGEST_RECONNECT_S = 0.2
MOST_AT_ONCE = 1000
"""So many topics of missed workers are asked in step: about sixteen pipelines."""
START_S = 2.0
"""Before it takes jobs, a worker that starts waits at most this time until others can see whether it lives."""


class Liveness:
    """One worker process, and those that it looks for. ``has_work`` tells whether it has reserved jobs."""

    def __init__(
        self,
        client: Client,
        awaited: AsyncClient,
        holder: bytes,
        topics: Sequence[str],
        has_work: Callable[[], bool],
        outage: Outage,
    ) -> None:
        self._client = client
        self._awaited = awaited
        self._namespace = client.namespace
        self._holder = holder
        self._topics = topics
        self._has_work = has_work
        self._health = ServerHealth(outage)
        self._loop = asyncio.get_running_loop()
        self._wake: SocketWakeEvent | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=WORK, daemon=True)
        self._subscriber: Subscriber | None = None
        self._subscribed = False
        self._outdated = False
        """Whether the subscription is half open, or on another server than the keys."""
        self._blocked = BlpopConnection()
        self._listen_at = self._listened_at = -math.inf
        self._listen_delay = RetryDelay(RETRY_S, REPEAT_S)
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._ready_by = time.monotonic() + START_S
        self._refusal: TarryError | None = None
        self._refused = RetryDelay(REFUSED_S, LONGEST_REFUSED_S)
        self._known = False
        """Whether the server may know it: then others may take it for dead when its subscription is lost."""
        self._certain = True
        """Whether nobody can take it for dead: it is subscribed, or the server does not know it."""
        self._uncertain_since = 0.0
        self._holding_back = False
        self._busy = False
        self._popped_at = -math.inf
        self._announce_at = math.inf
        self._look_at = math.inf
        self._asked_at = 0.0
        self.on_uncertain: Callable[[bool], None] = lambda uncertain: None
        """Called in the event loop: whether others may take it for dead. Then it must not take new jobs."""

    def start(self) -> None:
        self._wake = SocketWakeEvent()  # its thread closes it
        self._thread.start()

    async def wait_until_known(self) -> None:
        """Returns when others can see whether it lives, or when they cannot soon."""
        await asyncio.wait({self._ready}, timeout=max(self._ready_by - time.monotonic(), 0))

    async def stop(self) -> None:
        """Ends the subscription, after the server has forgotten it."""
        self._stopping.set()
        self._wake_up()
        await asyncio.to_thread(self._thread.join)

    # ── in the event loop ────────────────────────────────────────────────────────────────────────────────────────────

    def popped(self) -> None:
        """Notes that the worker has got jobs. The first ones for a while are reported before their handlers start, because one may kill it."""
        self._popped_at = time.monotonic()
        if not self._busy:
            self._busy = True
            if self._subscribed:
                self._known = True
                self._announce_at = self._popped_at + REPEAT_S
                call = liveness.announce(self._namespace, self._holder, self._topics, is_busy=True)
                self._awaited.engine.runner.perform_if_possible(call).add_done_callback(self._answered)
            self._wake_up()

    def _answered(self, sent: asyncio.Future[int]) -> None:
        if sent.cancelled() or sent.exception() is not None:
            self._announce_at = 0.0  # the thread tries it again
            self._wake_up()
        else:
            self._announced(sent.result())

    def _wake_up(self) -> None:
        if self._wake is not None:
            self._wake.set()

    def _is_ready(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    def _hold_back_if_uncertain(self) -> None:
        if not self._certain:
            self._holding_back = True
            self.on_uncertain(True)

    def _take_jobs_again(self) -> None:
        if self._certain and self._holding_back:
            self._holding_back = False
            self.on_uncertain(False)

    def topics_changed(self) -> None:
        """Says it again, with the topics that it has now: those that find it dead look there."""
        self._announce_at = 0.0
        self._wake_up()

    # ── by the thread of the subscription ────────────────────────────────────────────────────────────────────────────

    def _on_message(self, _channel: bytes, message: bytes) -> None:
        if message:
            self._look_at = min(self._look_at, time.monotonic() + EVERY_S * random.uniform(0.5, 1))
        else:
            self._subscribed, self._announce_at = True, 0.0
            self._become_certain()
        self._wake_up()

    def _on_lost(self, fault: Fault) -> None:
        if isinstance(fault, ServerRefused):
            self._refusal = fault.error
        if self._subscribed or self._refusal is not None:
            self._subscribed = False
            self._become_uncertain()
            self._wake_up()

    # ── the thread ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        supervise(WORK, self._keep_working, self._stopping.wait)
        with failures.noted(WORK), suppress(TarryError):
            self._withdraw()
        with failures.noted(WORK):
            self._unsubscribe()
        self._blocked.drop()
        assert self._wake is not None
        self._wake.close()

    def _keep_working(self) -> None:
        assert self._wake is not None
        while not self._stopping.is_set():
            try:
                pause = self._work()
            except Unavailable as fault:
                pause = RETRY_S
                if not self._certain and time.monotonic() > self._uncertain_since + OUTAGE_S:
                    self._health.failed(fault)  # the worker takes no jobs, so nothing else would log it
            except TarryError as refusal:
                self._refusal, pause = refusal, RETRY_S
            self._wake.wait(pause, [self._blocked.socket] if self._blocked.keys else [])

    def _work(self) -> float:
        """Does what is due. Returns in how many seconds there is more."""
        if self._refusal is not None:
            return self._give_up(self._refusal)
        if self._outdated:
            self._outdated = self._subscribed = False
            if self._subscriber is not None:
                self._client.engine.shared_part(PubSub).reconnect(self._subscriber)
        self._subscribe()
        if not self._subscribed and not self._certain:
            self._withdraw()
        if self._busy and not self._has_work() and time.monotonic() >= self._popped_at + LINGER_S:
            self._busy, self._announce_at = False, 0.0
        if self._subscribed and self._announce_at <= time.monotonic():
            self._announce()
        if self._look_at <= time.monotonic():
            self._look()
        if self._subscribed:
            self._listen()
            self._answer_if_asked()
        return max(self._due_at() - time.monotonic(), 0.0)

    def _due_at(self) -> float:
        due = [self._look_at]
        if self._subscribed:
            due.append(self._announce_at)
            if not self._blocked.keys:
                due.append(self._listen_at)
            if self._busy and self._known:
                due.append(self._asks_at)
        if self._busy:
            due.append(max(self._popped_at, time.monotonic()) + LINGER_S)
        return min(due)

    @property
    def _asks_at(self) -> float:
        return max(self._popped_at, self._asked_at) + ASKED_EVERY_S

    def _answer_if_asked(self) -> None:
        """Looks for the question itself, in case that the connection is gone over which it would come."""
        if self._busy and self._known and self._asks_at <= time.monotonic():
            self._asked_at = time.monotonic()
            if self._ask(liveness.is_asked(self._namespace, self._holder)):
                self._withdraw()
                self._outdated = True  # the server knows no subscription of it
                self._wake_up()

    def _listen(self) -> None:
        """Keeps a connection blocked, by which it is asked whether it lives."""
        channel = holder_channel(self._namespace, self._holder)
        try:
            while self._blocked.keys:
                over, token = self._blocked.wait(0)
                if token is not None:
                    self._outdated = True  # the server knows no subscription of it
                    self._wake_up()
                if not over:
                    return
            if self._listen_at <= time.monotonic():
                self._blocked.connect_to(self._client.engine.runner.server_of(channel))
                self._blocked.begin((channel,))
                self._listened_at = time.monotonic()
        except (Fault, TarryError) as fault:
            logger.debug("No connection over which to be asked: %s", fault)
            if time.monotonic() > self._listened_at + REPEAT_S:
                self._listen_delay.reset()
            self._listen_at = time.monotonic() + self._listen_delay.next_delay()

    def _subscribe(self) -> None:
        if self._subscriber is None:
            pubsub = self._client.engine.shared_part(PubSub)
            pubsub.longest_delay_s = LONGEST_RECONNECT_S
            self._subscriber = pubsub.subscribe(
                holder_keys(self._namespace).holders,
                (holder_channel(self._namespace, self._holder),),
                self._on_message,
                wait=False,
                on_lost=self._on_lost,
            )

    def _unsubscribe(self) -> None:
        subscriber, self._subscriber, self._subscribed = self._subscriber, None, False
        if subscriber is not None:
            self._client.engine.shared_part(PubSub).unsubscribe(subscriber)

    def _announce(self) -> None:
        is_busy = self._busy
        self._known = True
        self._announce_at = time.monotonic() + REPEAT_S if is_busy else math.inf
        try:
            call = liveness.announce(self._namespace, self._holder, self._topics, is_busy=is_busy)
            self._announced(self._ask(call))
        except TarryError:
            self._announce_at = 0.0
            raise
        if self._busy != is_busy:  # it got a job meanwhile: the server may have got that message first
            self._announce_at = 0.0

    def _announced(self, answer: int) -> None:
        if answer in (liveness.KNOWN, liveness.LOOKS):
            self._health.succeeded()
            self._refused.reset()
            self._call_in_loop(self._is_ready)
            if answer == liveness.LOOKS and self._look_at == math.inf:
                self._look_at = 0.0
                self._wake_up()
            return
        if answer == liveness.NOT_PERMITTED:
            self._known = False
            self._become_certain()
            self._refusal = ServerUnfit("The server's ACL forbids PUBSUB NUMSUB.")
        else:
            self._become_uncertain()
        self._outdated = True
        self._wake_up()

    def _withdraw(self) -> None:
        if self._known:
            self._ask(liveness.withdraw(self._namespace, self._holder))
            self._known = False
        self._look_at = math.inf
        self._become_certain()

    def _become_uncertain(self) -> None:
        if self._known and self._certain:
            self._certain, self._uncertain_since = False, time.monotonic()
            self._call_in_loop(self._loop.call_later, GRACE_S / 2, self._hold_back_if_uncertain)

    def _become_certain(self) -> None:
        self._certain = True
        self._health.recovered()
        if self._holding_back:
            self._call_in_loop(self._take_jobs_again)

    def _give_up(self, refusal: TarryError) -> float:
        """The server refuses it. For a while its jobs would come back after their TTR only."""
        self._unsubscribe()
        try:
            self._withdraw()
        except Unavailable:
            return RETRY_S
        except TarryError:
            self._become_certain()
        self._refusal = None
        self._call_in_loop(self._is_ready)
        if not self._refused.failures:
            logger.info("If this worker is killed its jobs come back after their TTR, not at once: %s", refusal)
        return self._refused.next_delay()

    # ── as an observer ───────────────────────────────────────────────────────────────────────────────────────────────

    def _look(self) -> None:
        self._look_at = time.monotonic() + EVERY_S  # if it fails
        asked_at = time.monotonic()
        answer = self._ask(liveness.find_absent(self._namespace, self._holder))
        self._look_at = math.inf if answer.again_s is None else asked_at + answer.again_s
        self._release(answer.missed)

    def _release(self, missed: Sequence[MissedHolder]) -> None:
        """Releases the jobs of those that are absent, if no topic has seen them alive since they are missed. Before, the topics begin to
        watch. All topics of all of them are asked together: pipelines, not a round trip for each."""
        answers = self._in_each(missed, TopicVerbs.ask_absent)
        absent = [one for one in missed if answers[one] == 0 and one.is_absent]
        answers |= self._in_each(absent, TopicVerbs.release_absent)
        alive = [one.name.encode() for one in missed if answers[one] == LIVES]
        released = [one for one in absent if answers[one] >= 0]
        calls = [liveness.withdraw(self._namespace, name) for name in alive]  # they say again that they are there
        calls += [liveness.withdraw(self._namespace, one.name.encode(), only_absent=True) for one in released]
        withdrawn = self._ask_all(calls)[len(alive) :]
        gone = [one for one, was_absent in zip(released, withdrawn, strict=True) if was_absent]
        self._ask_all([workers.forget_worker(self._namespace, one.name.encode()) for one in gone])
        for one in gone:
            logger.warning("✗ worker %s is gone; %d of its jobs released", one.name, answers[one])

    def _in_each(self, missed: Sequence[MissedHolder], verb: AbsenceVerb) -> dict[MissedHolder, int]:
        """The answer of all topics of each."""
        pairs = [(one, topic) for one in missed for topic in one.topics]
        answers: dict[MissedHolder, list[int]] = {one: [] for one in missed}
        for at in range(0, len(pairs), MOST_AT_ONCE):
            some = pairs[at : at + MOST_AT_ONCE]
            asked = gather(self._in_topic(one, topic, verb) for one, topic in some)
            for (one, _), answer in zip(some, self._client.engine.runner.run(asked, self._send_once), strict=True):
                answers[one].append(answer)
        return {one: worst_of(found) for one, found in answers.items()}

    def _in_topic(self, missed: MissedHolder, topic: str, verb: AbsenceVerb) -> Flow[int]:
        """An error is this topic's alone."""
        try:
            asked: Any = verb(server_verbs(self._client.topic(topic)), missed.name, missed.since)
            answer: int = yield from flow_of(asked)
            return answer
        except (Unavailable, Unconfirmed):
            return TOO_YOUNG  # the next look finds it again
        except TarryError as refusal:
            logger.warning("✗ The jobs of %s in %s come back after their TTR: %s", missed.name, topic, refusal)
            return 0

    def _send_once(self, step: Step) -> Any:
        if isinstance(step, Batch):
            return self._client.engine.runner.send_batch(step.requests)
        return self._ask(step)

    def _ask_all(self, calls: Sequence[ScriptCall[bool]]) -> list[bool]:
        return [_value_of(answer) for answer in self._client.engine.runner.send_batch(calls)] if calls else []

    def _ask(self, call: ScriptCall[T] | Command[T]) -> T:
        """Sends a call once. An outage is for others to log, and a later try is this thread's."""
        return _value_of(*self._client.engine.runner.send_batch([call]))

    def _call_in_loop(self, what: Callable[..., object], *given: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: there is nothing left to call
            self._loop.call_soon_threadsafe(what, *given)


def _value_of(answer: T | TarryError) -> T:
    if isinstance(answer, TarryError):
        raise answer
    return answer
