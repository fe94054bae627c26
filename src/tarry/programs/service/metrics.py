"""The metrics of a service, for Prometheus: counted requests, and the state of the topics at the time of the scrape."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as EventCounter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from tarry import Stats
from tarry.errors import TarryError, Unavailable
from tarry.internal import NodeReader, ask_servers, failures, perform, server_verbs
from tarry.programs.service.skipped_topics import SkippedTopics
from tarry.programs.service.topic_verdicts import LastVerdicts, look_at_topics
from tarry.programs.serving.conditions import (
    LEVELS,
    UNKNOWN_SERVER,
    Condition,
    ServerFacts,
    facts_of,
)
from tarry.programs.serving.processes import SHARED_FOLDER

if TYPE_CHECKING:
    from tarry.programs.serving.authorization import Credential
    from tarry.programs.serving.namespace_clients import NamespaceClients

T = TypeVar("T")

logger = logging.getLogger("tarry")
MEDIA = "text/plain; version=0.0.4; charset=utf-8"
READINESS_TIMEOUT_S = 2.0
"""How long a readiness check waits for the servers."""
SCRAPE_TIMEOUT_S = 5.0
"""How long a scrape waits for the servers: half of what Prometheus waits for it."""
LOOK_EVERY_S = 30.0
"""How often it looks at the servers by itself."""
DURATION_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)
LATENESS_POWERS = range(6, 38, 2)
"""Lateness in buckets of 64 µs, 256 µs, … up to 19 h; the topic's own finer buckets end at the same values."""
STATES = ("delayed", "ready", "reserved", "dead")
SOON = ("1m", "5m", "15m")
"""How far ahead the due jobs are counted."""
TOTALS = {
    "added": "Jobs that were added.",
    "popped": "Jobs that were handed out.",
    "finished": "Jobs that were finished.",
    "released": "Jobs that were released.",
    "timed_out": "Reservations that ended because their time to run was over.",
    "died": "Jobs that became dead.",
    "too_late": "Jobs that became dead because they were later than their max_lateness.",
    "kicked": "Dead jobs that were made ready again.",
    "deleted": "Jobs that were deleted.",
    "replaced": "Jobs that were replaced by a new job with the same id.",
    "refused": "Receipts that were refused.",
    "repeated": "Jobs of a repeated add that the server recognized, and so did not add again.",
    "lost": "Jobs that were removed because their record was missing.",
    "swept": "Dead jobs that were deleted because they had been kept for long enough.",
    "not_added": "Jobs that were refused because the topic was full.",
    "held": "How often a schedule was due but had to wait, because the topic was full.",
    "finished_lost": "Finished jobs whose ids could not be kept, although their topic or their handler keeps finished jobs.",
}
PRODUCERS = {
    "max_pending": "How many jobs may wait, delayed and ready. Topics without such a limit have no value.",
    "max_pending_bytes": "How many bytes the bodies of waiting jobs may have. Topics without such a limit have no value.",
    "pending_bytes": "The bytes of the bodies of waiting jobs, where they are limited.",
}


class Metrics:
    """The metrics of one service process."""

    def __init__(self) -> None:
        self.skipped = SkippedTopics()
        self.verdicts = LastVerdicts(self.skipped)
        self.registry = CollectorRegistry()
        """The registry for the metrics that parts of the service count themselves."""
        self._requests = Histogram(
            "tarry_http_request_seconds",
            "Requests by route and status, and how long they took, waits included.",
            ("route", "status"),
            buckets=DURATION_BUCKETS,
            registry=self.registry,
        )
        self._round_trips = Histogram(
            "tarry_server_round_trip_seconds",
            "How long the Redis or Valkey servers took to answer a PING of this service.",
            buckets=DURATION_BUCKETS,
            registry=self.registry,
        )
        self._up = Gauge(
            "tarry_server_up",
            "1 if the Redis or Valkey servers answer; 0 if not: then nothing is told of topics.",
            registry=self.registry,
            multiprocess_mode="mostrecent",
        )
        self._memory = Gauge(
            "tarry_server_memory_used_ratio",
            "Memory in use as a part of maxmemory, of the fullest of the Redis or Valkey servers; 0 without a limit.",
            registry=self.registry,
            multiprocess_mode="mostrecent",
        )
        self.held = Gauge(
            "tarry_http_requests_held",
            "Pops that wait and streams that are open, now.",
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self._restarts = EventCounter(
            "tarry_background_restarts",
            "Failures of work in the background of this service; it was started again.",
            ("work",),
            registry=self.registry,
        )
        self.close = failures.listen(self._count_restart)
        """Ends the counting of failures."""
        self._observers: dict[tuple[str, int], Any] = {}
        self._reader = NodeReader(cluster=True)

    def _count_restart(self, work: str, _unfit: str) -> None:
        self._restarts.labels(work).inc()

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Adds a request to the counters and times of its route."""
        place = (route, status)
        if place not in self._observers:
            self._observers[place] = self._requests.labels(route, str(status))
        self._observers[place].observe(seconds)

    async def round_trip(self, clients: NamespaceClients) -> None:
        """Pings every server, on a Cluster every node with slots. Raises a ``TarryError`` when one cannot be used."""
        began = time.perf_counter()
        await asyncio.gather(*[ask_servers(client, self._reader.ping) for _, client in clients])
        self._round_trips.observe(time.perf_counter() - began)
        self._up.set(1)

    async def _assess_servers(self, clients: NamespaceClients) -> ServerFacts:
        """Judges every server, logs what has changed, and measures how full the fullest is."""
        found = await asyncio.gather(*[ask_servers(client, self._reader.read_info) for _, client in clients])
        nodes = [node for servers in found for node in servers.values()]
        for shown, node in (one for servers in found for one in servers.items()):
            self._reader.changes.note(shown, node.info)
        self._memory.set(max((node.memory or 0) / node.max_memory if node.max_memory else 0.0 for node in nodes))
        facts = facts_of(nodes)
        return replace(facts, unfit=(*facts.unfit, *self._reader.changes.problems))

    async def keep_looking(self, clients: NamespaceClients) -> None:
        """Looks at the servers and the topics every 30 s, also where nobody scrapes, and logs what has changed."""
        while True:
            with suppress(TarryError):  # the next look may succeed
                await self.verdicts.look_now(clients, await self._assess_servers(clients))
            await asyncio.sleep(LOOK_EVERY_S)

    async def check_usable(self, clients: NamespaceClients) -> ServerFacts:
        """Runs a read-only script on every server; returns what is known of the servers. Raises a ``TarryError`` soon when one
        cannot be used."""
        try:
            async with asyncio.timeout(READINESS_TIMEOUT_S):
                await self.round_trip(clients)
                await asyncio.gather(
                    *[perform(client, server_verbs(client.topic("readyz")).stats()) for _, client in clients]
                )
                facts = await self.skipped.or_none("state of the server", self._assess_servers(clients))
                return facts or UNKNOWN_SERVER
        except TimeoutError:
            raise Unavailable(f"The server has not answered for {READINESS_TIMEOUT_S:g} s.") from None

    async def exposition(self, clients: NamespaceClients, credential: Credential | None) -> tuple[bytes, str]:
        """The metrics as text, and their media type; of one namespace only if the token is of one. Raises ``Unavailable`` soon when the
        server does not answer."""
        try:
            async with asyncio.timeout(SCRAPE_TIMEOUT_S):
                await self.round_trip(clients)
        except TimeoutError:
            raise Unavailable(f"The server has not answered for {SCRAPE_TIMEOUT_S:g} s.") from None
        server = await self.skipped.or_none("state of the server", self._assess_servers(clients)) or UNKNOWN_SERVER
        seen: list[tuple[str, Stats]] = []
        conditions: dict[tuple[str, str], tuple[Condition, ...]] = {}
        overruns: Counter[tuple[str, str]] = Counter()
        restarts: Counter[tuple[str, str]] = Counter()
        for namespace, client in clients:
            if credential is None or credential.namespace == namespace:
                found = await look_at_topics(namespace, client, server, self.skipped)
                seen += [(namespace, stats) for stats in found.stats]
                conditions |= {(namespace, topic): told for topic, told in found.conditions.items()}
                for worker in found.workers:
                    overruns.update({(namespace, topic.name): topic.overrun for topic in worker.topics})
                    restarts.update({(namespace, work): count for work, count in worker.restarts.items()})
        return self._counted() + generate_latest(_TopicCollector(seen, overruns, restarts, conditions)), MEDIA

    def without_server(self) -> tuple[bytes, str]:
        """The metrics while the server does not answer, those that this service counts itself; and their media type."""
        self._up.set(0)
        return self._counted(), MEDIA

    def _counted(self) -> bytes:
        """The metrics that this service counts itself, as text."""
        return generate_latest(_all_processes() if SHARED_FOLDER in os.environ else self.registry)


def _all_processes() -> CollectorRegistry:
    """The sums over all processes of this service."""
    from prometheus_client.multiprocess import MultiProcessCollector

    found = CollectorRegistry()
    MultiProcessCollector(found)  # type: ignore[no-untyped-call]  # it has no types
    return found


class _TopicCollector(CollectorRegistry):
    """The topics at one moment, as a registry that is collected once."""

    def __init__(
        self,
        stats: list[tuple[str, Stats]],
        overruns: Counter[tuple[str, str]],
        restarts: Counter[tuple[str, str]],
        conditions: dict[tuple[str, str], tuple[Condition, ...]],
    ) -> None:
        super().__init__(auto_describe=False)
        self._stats = stats
        self._overruns = overruns
        self._restarts = restarts
        self._conditions = conditions

    def collect(self) -> Iterator[Metric]:
        labels = ("namespace", "topic")
        jobs = GaugeMetricFamily("tarry_jobs", "Jobs by their state.", labels=(*labels, "state"))
        retrying = GaugeMetricFamily("tarry_retrying_jobs", "Delayed jobs that have failed before.", labels=labels)
        held_back = GaugeMetricFamily(
            "tarry_held_back_jobs",
            "Ready jobs that cannot go now, because of the limit, the rate or the pause of their key.",
            labels=labels,
        )
        soon = GaugeMetricFamily(
            "tarry_jobs_due",
            "Delayed jobs that fall due within this time; those that are ready already are not among them.",
            labels=(*labels, "within"),
        )
        overdue = GaugeMetricFamily(
            "tarry_oldest_overdue_seconds",
            "For how long the oldest ready job has been due; 0 without one.",
            labels=labels,
        )
        due = GaugeMetricFamily("tarry_next_due_seconds", "Until the next delayed job is due.", labels=labels)
        paused = GaugeMetricFamily("tarry_paused", "1 while the topic is paused.", labels=labels)
        watching = GaugeMetricFamily("tarry_watching", "Consumers that keep the watch (two at most).", labels=labels)
        overrun = GaugeMetricFamily(
            "tarry_overrun_jobs",
            "Running jobs that have taken longer than their timeout and cannot be stopped, as their workers reported.",
            labels=labels,
        )
        condition = GaugeMetricFamily(
            "tarry_condition",
            "The conditions that a topic has now: 2 where somebody has to act, 1 where it only explains, 0 on time or empty.",
            labels=(*labels, "kind"),
        )
        for place, found in self._conditions.items():
            for one in found:
                condition.add_metric(
                    (*place, one.kind), 0 if one.kind in ("empty", "on_time") else 2 - LEVELS.index(one.level)
                )
        restarts = GaugeMetricFamily(
            "tarry_worker_restarts",
            "Failures of work in the background of live workers, as they reported; it was started again.",
            labels=("namespace", "work"),
        )
        for labelled, count in self._restarts.items():
            restarts.add_metric(labelled, count)
        late = HistogramMetricFamily(
            "tarry_lateness_seconds",
            "Handed out minus due. The sum is right to within a fifth.",
            labels=labels,
        )
        totals = {name: CounterMetricFamily(f"tarry_{name}", words, labels=labels) for name, words in TOTALS.items()}
        producers = {
            name: GaugeMetricFamily(f"tarry_{name}", words, labels=labels) for name, words in PRODUCERS.items()
        }
        for namespace, now in self._stats:
            place = (namespace, now.topic)
            for name, limits in producers.items():
                if (known := getattr(now, name)) is not None:
                    limits.add_metric(place, known)
            for state in STATES:
                jobs.add_metric((*place, state), getattr(now, state))
            for within in SOON:
                soon.add_metric((*place, within), getattr(now, f"due_in_{within}"))
            retrying.add_metric(place, now.retrying)
            held_back.add_metric(place, now.held_back)
            overdue.add_metric(place, _seconds(now.oldest_ready, now.now))
            if now.next_due is not None:
                due.add_metric(place, _seconds(now.now, now.next_due))
            paused.add_metric(place, now.paused_until is not None)
            watching.add_metric(place, now.watching)
            overrun.add_metric(place, self._overruns[place])
            late.add_metric(place, *_buckets(now.lateness.buckets.items()))
            for name, family in totals.items():
                family.add_metric(place, getattr(now, name))
        yield from (
            jobs,
            soon,
            retrying,
            held_back,
            overdue,
            due,
            paused,
            watching,
            overrun,
            condition,
            restarts,
            late,
            *producers.values(),
            *totals.values(),
        )


def _seconds(since: datetime | None, until: datetime) -> float:
    return 0.0 if since is None else max((until - since).total_seconds(), 0.0)


def _buckets(fine: Iterable[tuple[int, int]]) -> tuple[list[tuple[str, float]], float]:
    """The topic's buckets (quarter powers of two) summed up to powers of four; and the sum, by the middle of each bucket."""
    found = sorted(fine)
    edges = [
        (f"{2**power / 1e6:g}", float(sum(n for bucket, n in found if (bucket + 1) / 4 <= power)))
        for power in LATENESS_POWERS
    ]
    middle = sum(n * 2 ** ((bucket + 0.5) / 4) / 1e6 for bucket, n in found)
    return [*edges, ("+Inf", float(sum(n for _, n in found)))], middle
