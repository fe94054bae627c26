"""A topic's verbs as requests to a service: the names and options of ``TopicVerbs``.

Arguments are checked by the library's own functions: what it refuses is refused here with the same errors, before anything is
sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Generic, ParamSpec, TypeVar

from msgspec import Raw

from tarry.clients.http.requests import HTTPFlow, HTTPRequest, ask, request_to
from tarry.clients.http.verbs.request_fields import (
    body_fields,
    encoded_body_fields,
    gather_requests,
    new_idempotency_key,
    optional_span,
    run_in_order,
    span_text,
    spans_as_text,
    split,
)
from tarry.core.requests import MOST_BYTES, MOST_ITEMS
from tarry.errors import BadInput
from tarry.values import names, rates
from tarry.values.durations import Duration
from tarry.verbs.codecs import BodyCodec
from tarry.verbs.jobs import add, by_key, holders, settings, steps, throughput, views
from tarry.verbs.jobs.by_id import ByIdVerb
from tarry.verbs.jobs.dead_groups import DeadGroups, JobSearch
from tarry.verbs.jobs.durability import WITHIN_MS, confirmation_for
from tarry.verbs.jobs.job_values import Added, HasReceipt, JobInfo, JobPage, State, StateFilter, ranges_of
from tarry.verbs.jobs.options import JobOptions, NewJob, check_new_job, key_of
from tarry.verbs.jobs.partitions import check_count
from tarry.verbs.jobs.settings import SettingsChange
from tarry.verbs.jobs.settle import SettleVerb
from tarry.verbs.jobs.stats import CheckReport, Histogram, KeyStats, MinuteCounts, Stats, TopicSettings
from tarry.verbs.jobs.topic_context import TopicContext, require_several
from tarry.wire import job_models as models
from tarry.wire import topic_models
from tarry.wire.endpoint import Endpoint
from tarry.wire.endpoints import by_id_endpoints, settle_endpoints
from tarry.wire.endpoints import job_endpoints as jobs
from tarry.wire.endpoints import topic_endpoints as topics

T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")
P = ParamSpec("P")


class HTTPTopicVerbs(Generic[T]):
    """One topic's verbs. ``holder`` pops its jobs; ``partition_counts`` are the numbers of partitions that this client's handles
    were given."""

    def __init__(
        self,
        context: TopicContext[T],
        holder: bytes,
        random: Callable[[int], bytes],
        partition_counts: dict[str, int],
        partitions: int | None,
    ) -> None:
        self.context = context
        self.holder = holder
        self._random = random
        self._partition_counts = partition_counts
        self._wanted = check_count(partitions)
        if partitions is not None:
            partition_counts[self.context.name] = partitions

    @property
    def first(self) -> HTTPRequest[int] | None:
        """Declares the number of partitions first; without it the topic might be created without partitions.

        Another handle of this client may have given the number; then an error of this request is ignored, because the
        topic may have been changed since."""
        number = self._wanted or self._partition_counts.get(self.context.name)
        if number is None:
            return None
        otherwise = ("", None) if self._wanted else (BadInput.code, None)
        body = topic_models.PutPartitions(number)
        return request_to(topics.PUT_PARTITIONS, self.context.name, body=body, absent=otherwise)

    def request(self, endpoint: Endpoint[S], *names: str, body: Any = None, **options: Any) -> HTTPRequest[S]:
        """A request about this topic, with the request that must come first. ``names``: further ones of the path."""
        return request_to(endpoint, self.context.name, *names, body=body, **options, first=self.first)

    def codec_of(self, _: str) -> BodyCodec[T]:
        """The codec of the topic's schedules."""
        return self.context.codec

    # ── adding ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, body: T, options: JobOptions, id: str | None) -> HTTPRequest[Added]:
        add.refuse_without_id(options.encode(), id)
        model = models.Add(**body_fields(self.context.codec, body), **models.option_fields(options), id=self._id_of(id))
        return self._add_request(jobs.ADD, model)

    def add_many(self, bodies: Iterable[T | NewJob[T]], options: JobOptions, *, atomic: bool) -> HTTPFlow[list[Added]]:
        require_several(bodies, "bodies")
        entries = list(bodies)
        parts = self._chunks(entries, options)
        add.check_atomic(len(parts), atomic=atomic)
        given = models.option_fields(options)
        return run_in_order(
            [self._add_request(jobs.ADD_MANY, models.AddMany(jobs=part, **given, atomic=atomic)) for part in parts]
        )

    def _add_request(self, endpoint: Endpoint[S], body: models.Add | models.AddMany) -> HTTPRequest[S]:
        """A request to add jobs, which the service answers when their durability is met."""
        wait = 0.0
        if body.durability is not None:
            confirmation_for(body.durability)
            wait = WITHIN_MS / 1000
        return self.request(endpoint, body=body, key=new_idempotency_key(self._random), wait=wait)

    def _chunks(self, entries: Sequence[T | NewJob[T]], options: JobOptions) -> list[list[models.OneOfMany]]:
        """The jobs of each request: about as many as one script takes. All are checked."""
        parts: list[list[models.OneOfMany]] = []
        given: set[bytes] = set()
        codec, size = self.context.codec, 0
        encoded = options.encode()
        for number, entry in enumerate(entries):
            try:
                body: Any = entry.body if isinstance(entry, NewJob) else entry
                raw, flag = codec.encode(body)
                own: dict[str, Any] = {}
                if isinstance(entry, NewJob):
                    check_new_job(entry)
                    own = models.option_fields(entry)
                given_id = entry.id if isinstance(entry, NewJob) else None
                add.refuse_without_id(encoded, given_id)
                id = self._id_of(given_id)
                if options.if_exists == "error":
                    add.refuse_repeated(id.encode(), given)
            except BadInput as fault:
                raise BadInput(f"job {number}: {fault}") from fault
            if not parts or len(parts[-1]) == MOST_ITEMS or size + len(raw) > MOST_BYTES:
                parts.append([])
                size = 0
            parts[-1].append(models.OneOfMany(**encoded_body_fields(codec, raw, flag), **own, id=id))
            size += len(raw)
        return parts

    def _id_of(self, id: str | None) -> str:
        return self.context.ids.new().decode() if id is None else names.check_name(id, "id").decode()

    # ── settling ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def settle(
        self, verb: SettleVerb[P], jobs: Sequence[HasReceipt], *args: P.args, **options: P.kwargs
    ) -> HTTPFlow[None]:
        verb.encode(jobs, *args, **options)
        endpoints = settle_endpoints.ENDPOINTS[verb]
        model, groups = endpoints.many.body_model, endpoints.groups_of(jobs, options)
        bodies = [model(jobs=part, **spans_as_text(fields)) for held, fields in groups for part in split(held)]
        return gather_requests([ask(self.request(endpoints.many, body=body)) for body in bodies])

    def keep_step(self, job: HasReceipt, name: str, result: bytes) -> HTTPRequest[bytes]:
        steps.keep_step(self.context.keys, job, name, result)  # checks the arguments
        body = settle_endpoints.Step(job.receipt, name, Raw(result))
        return self.request(settle_endpoints.KEEP_STEP, job.id, body=body).then(bytes)

    def release_holder(self, holder: str, counted: bool, limit: int | None = None) -> HTTPRequest[int]:
        holders.encode_holder(holder)
        holders.check_limit(limit)
        return self.request(
            settle_endpoints.RELEASE_HOLDER, holder, body=settle_endpoints.HolderRelease(counted=counted, limit=limit)
        )

    def touch_holder(self, holder: str, ttr: Duration) -> HTTPRequest[int]:
        holders.encode_holder(holder)
        holders.ttr_us(ttr)
        return self.request(
            settle_endpoints.TOUCH_HOLDER, holder, body=settle_endpoints.HolderTouch(ttr=span_text(ttr))
        )

    # ── by id ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def by_id(
        self, verb: ByIdVerb[P], ids: Sequence[str], *args: P.args, **options: P.kwargs
    ) -> HTTPFlow[list[State | None]]:
        verb.encode(*args, **options)
        endpoint, fields = by_id_endpoints.MANY[verb], spans_as_text(options)
        bodies = [endpoint.body_model(ids=part, **fields) for part in _several(ids)]
        return run_in_order([self.request(endpoint, body=body) for body in bodies])

    def get(self, ids: Sequence[str], history: bool = False) -> HTTPFlow[list[JobInfo[T] | None]]:  # noqa: ARG002  # a service answers finished jobs, too
        known = (self.context.codec,)
        return run_in_order(
            [
                self.request(by_id_endpoints.GET_MANY, body=by_id_endpoints.Several(part), known=known)
                for part in _several(ids)
            ]
        )

    def wait_until_ended(self, id: str, seconds: float) -> HTTPRequest[Any]:
        """The job when it is finished or dead, or as it is at the end of the time; ``None`` if it is unknown."""
        names.check_name(id, "id")
        return self.request(
            by_id_endpoints.GET,
            id,
            known=(self.context.codec,),
            query={"wait": f"{int(seconds * 1000)}ms" if seconds < 10 else f"{int(seconds)}s"},
            wait=seconds,
            absent=("unknown_job", None),
        )

    # ── views and settings ───────────────────────────────────────────────────────────────────────────────────────────

    def list(
        self,
        state: StateFilter | None,
        due_after: datetime | None,
        due_before: datetime | None,
        limit: int,
        cursor: str | None,
        search: JobSearch | None = None,
    ) -> HTTPRequest[JobPage[T]]:
        views.page_args(state, due_after, due_before, limit, cursor)
        moments = {"due_after": due_after, "due_before": due_before}
        bounds = {name: at.isoformat() for name, at in moments.items() if at is not None}
        named = {name: text for name, text in (("state", state), ("cursor", cursor)) if text is not None}
        query = {**named, **bounds, **(search.given() if search else {}), "limit": str(limit)}
        return self.request(topics.LIST_JOBS, known=(self.context.codec,), query=query)

    def dead_groups(self, search: JobSearch | None, limit: int, cursor: str | None) -> HTTPRequest[DeadGroups]:
        views.page_args("dead", None, None, limit, cursor)
        where = {} if cursor is None else {"cursor": cursor}
        query = {**where, **(search.given() if search else {}), "limit": str(limit)}
        return self.request(topics.DEAD_GROUPS, query=query)

    def stats(self) -> HTTPRequest[Stats]:
        return self.request(topics.STATS)

    def key_stats(self, key: str) -> HTTPRequest[KeyStats]:
        by_key.raw_key(key)
        return self.request(topics.KEY_STATS, key)

    def busiest_keys(self, limit: int) -> HTTPRequest[tuple[KeyStats, ...]]:
        return self.request(topics.BUSIEST_KEYS, query={"limit": str(by_key.checked_limit(limit))})

    def histogram(
        self, start: Duration | datetime, span: Duration, buckets: int, past: Duration
    ) -> HTTPRequest[Histogram]:
        views.histogram_args(start, span, buckets, past)
        begin = start.isoformat() if isinstance(start, datetime) else span_text(start)
        query = {"start": begin, "span": span_text(span), "past": span_text(past), "buckets": str(buckets)}
        return self.request(topics.HISTOGRAM, query=query)

    def throughput(self, span: Duration) -> HTTPRequest[tuple[MinuteCounts, ...]]:
        throughput.minutes_of(span)
        return self.request(topics.THROUGHPUT, query={"span": span_text(span)})

    def check(self) -> HTTPRequest[CheckReport]:
        return self.request(topics.CHECK)

    def pause(self, duration: Duration | None, key: str | None = None) -> HTTPRequest[datetime | None]:
        settings.pause_us(duration)
        return self.request(topics.PAUSE, body=topic_models.Pause(optional_span(duration), key_of(key)))

    def resume(self, key: str | None = None) -> HTTPRequest[None]:
        query = {"key": given} if (given := key_of(key)) else {}
        return self.request(topics.RESUME, query=query)

    def configure(self, given: SettingsChange) -> HTTPRequest[TopicSettings]:
        given.encode(1)
        fields = given.changes()
        for name in {"ttr", "keep_dead", "max_lateness", "keep_finished"} & fields.keys():
            fields[name] = optional_span(fields[name])
        for name in {"rate", "key_rate"} & fields.keys():
            if fields[name] is not None:
                count, us = rates.parse_rate(fields[name], name)
                fields[name] = f"{count}/{us}us"
        return self.request(topics.CONFIGURE, body=topic_models.Configure(**fields))

    def purge(self, state: StateFilter | None, key: str | None = None) -> HTTPRequest[int]:
        if key_of(key) is None:
            ranges_of(state)
        else:
            by_key.place_of(state)
        return self.request(topics.PURGE, body=topic_models.Purge(state=state, key=key))


def _several(ids: Sequence[str]) -> list[list[str]]:
    """As many as one request takes. Raises ``BadInput``."""
    require_several(ids, "ids")
    for id in ids:
        names.check_name(id, "id")
    return [list(part) for part in split(ids)]
