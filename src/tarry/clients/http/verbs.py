"""A topic's verbs as requests to a service: the names, options and checks of ``TopicVerbs``, which are asked first.

What the library refuses is so refused here, in the same words, before anything is sent.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote

import msgspec
from msgspec import UNSET

from tarry.clients.http import answers, models, topic_answers
from tarry.clients.http.asking import Ask, Asking, ask
from tarry.clients.http.reading import added, check, defaults, histogram, info, page, stats
from tarry.errors import JobExists, StaleReceipt, Unavailable
from tarry.verbs.codecs import JSON
from tarry.verbs.jobs import options, putting
from tarry.verbs.jobs.face import AS_IT_IS, TOPICS_OWN, TopicVerbs, refuse_one
from tarry.verbs.jobs.pictures import Check, Defaults, Histogram, Stats
from tarry.verbs.jobs.putting import MOST_BYTES, MOST_JOBS
from tarry.verbs.jobs.shapes import Added, Holding, IfExists, JobInfo, NewJob, Page, State
from tarry.verbs.jobs.taking import MOST
from tarry.words import rates
from tarry.words.durations import Duration, microseconds
from tarry.words.rates import RateLike

T = TypeVar("T")
S = TypeVar("S")


class HTTPVerbs(Generic[T]):
    """One topic's verbs. ``local`` are the same for a server that is not there: they check, and encode."""

    def __init__(self, local: TopicVerbs[T], random: Callable[[int], bytes]) -> None:
        self.local = local
        self.desk = local.desk
        self.keys = local.keys
        self.holder = local.holder
        self._random = random
        self._path = f"/v1/topics/{quote(local.desk.name, safe='')}"

    # ── putting in ───────────────────────────────────────────────────────────────────────────────────────────────────

    def add(
        self,
        body: T,
        delay: Duration,
        at: datetime | None,
        id: str | None,
        if_exists: IfExists,
        ttr: Duration | None,
        max_attempts: int | None,
        headers: Mapping[str, str] | None,
        max_lateness: Duration | None = None,
    ) -> Ask[Added]:
        opts = options.options(delay, at, if_exists, ttr, max_attempts, headers, max_lateness)
        putting.add(self.desk, body, opts, id)
        said = models.Add(
            **self._body(body),
            **_options(None if at is not None else delay, at, ttr, max_attempts, headers, max_lateness),
            id=self._new_id() if id is None else id,
            if_exists=if_exists,
        )
        return Ask("POST", self._path + "/jobs", _reader(answers.AddedJob, added), said, key=self._key())

    def add_many(
        self,
        bodies: Iterable[T | NewJob[T]],
        delay: Duration,
        at: datetime | None,
        if_exists: IfExists,
        ttr: Duration | None,
        max_attempts: int | None,
        headers: Mapping[str, str] | None,
        atomic: bool,
        max_lateness: Duration | None = None,
    ) -> Asking[list[Added]]:
        refuse_one(bodies, "bodies")
        entries = list(bodies)
        opts = options.options(delay, at, if_exists, ttr, max_attempts, headers, max_lateness)
        putting.add_many(self.desk, entries, opts, atomic=atomic)
        said_of_all = _options(None if at is not None else delay, at, ttr, max_attempts, headers, max_lateness)
        requests = []
        for part in self._parts([self._one(entry) for entry in entries]):
            said = models.AddMany(jobs=part, **said_of_all, if_exists=if_exists, atomic=atomic)
            read = _reader(answers.AddedJobs, lambda found: [added(job) for job in found.jobs])
            requests.append(Ask("POST", self._path + "/many/add", read, said, key=self._key()))
        return _one_after_the_other(requests)

    def _one(self, entry: T | NewJob[T]) -> models.OneOfMany:
        if not isinstance(entry, NewJob):
            return models.OneOfMany(**self._body(entry), id=self._new_id())
        own = _options(entry.delay, entry.at, entry.ttr, entry.max_attempts, entry.headers, entry.max_lateness)
        return models.OneOfMany(**self._body(entry.body), **own, id=self._new_id() if entry.id is None else entry.id)

    def _parts(self, jobs: list[models.OneOfMany]) -> list[list[models.OneOfMany]]:
        """As many as one script takes."""
        parts: list[list[models.OneOfMany]] = []
        size = 0
        for job in jobs:
            own = len(job.body_base64 or "") + (len(bytes(job.body)) if job.body is not UNSET else 0)
            if not parts or len(parts[-1]) == MOST_JOBS or size + own > MOST_BYTES:
                parts.append([])
                size = 0
            parts[-1].append(job)
            size += own
        return parts

    def _body(self, body: T) -> dict[str, Any]:
        from base64 import b64encode

        raw, flag = self.desk.bodies.encode(body)
        if flag == JSON:
            try:
                msgspec.json.decode(raw)
            except (msgspec.MsgspecError, UnicodeDecodeError):  # a codec of one's own
                return {"body_base64": b64encode(raw).decode(), "coded": True}
            return {"body": msgspec.Raw(raw)}
        return {"body_base64": b64encode(raw).decode()}

    def _new_id(self) -> str:
        return self.desk.ids.new().decode()

    def _key(self) -> str:
        return urlsafe_b64encode(self._random(18)).decode()

    # ── settling ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def finish(self, jobs: Sequence[Holding]) -> Asking[None]:
        self.local.finish(jobs)
        return self._settle("finish", models.FinishMany, jobs)

    def touch(self, jobs: Sequence[Holding], ttr: Duration | None) -> Asking[None]:
        self.local.touch(jobs, ttr)
        by_ttr: dict[str, list[Holding]] = {}
        for job in jobs:
            by_ttr.setdefault(cast("str", span_of(ttr if ttr is not None else cast("Any", job).ttr)), []).append(job)
        return _all_of([self._settle("touch", models.TouchMany, group, ttr=own) for own, group in by_ttr.items()])

    def release(self, jobs: Sequence[Holding], delay: Duration | None, count: bool, reason: str = "") -> Asking[None]:
        self.local.release(jobs, delay, count, reason)
        return self._settle("release", models.ReleaseMany, jobs, delay=span_of(delay), count=count, reason=reason)

    def bury(self, jobs: Sequence[Holding], reason: str, error: str = "") -> Asking[None]:
        self.local.bury(jobs, reason, error)
        return self._settle("bury", models.BuryMany, jobs, reason=reason)

    def _settle(self, verb: str, model: Any, jobs: Sequence[Holding], **said: Any) -> Asking[None]:
        held = [models.OneHeld(id=job.id, receipt=job.receipt, attempt=getattr(job, "attempt", None)) for job in jobs]
        path = f"{self._path}/many/{verb}"
        return _all_of([ask(Ask("POST", path, _nothing, model(jobs=part, **said))) for part in _cut(held)])

    def release_holder(self, holder: str, count: bool, limit: int | None = None) -> Ask[int]:
        next(self.local.release_holder(holder, count, limit))
        return self._counted(
            f"/holders/{quote(holder, safe='')}/release", models.HolderRelease(count=count, limit=limit)
        )

    def touch_holder(self, holder: str, ttr: Duration) -> Ask[int]:
        next(self.local.touch_holder(holder, ttr))
        return self._counted(f"/holders/{quote(holder, safe='')}/touch", models.HolderTouch(ttr=_given(ttr)))

    # ── by id ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def kick(self, ids: Sequence[str]) -> Asking[list[State | None]]:
        self.local.kick(ids)
        return self._were("kick", [models.Several(ids=list(part)) for part in _cut(ids)])

    def delete(self, ids: Sequence[str]) -> Asking[list[State | None]]:
        self.local.delete(ids)
        return self._were("delete", [models.Several(ids=list(part)) for part in _cut(ids)])

    def reschedule(self, ids: Sequence[str], delay: Duration | None, at: datetime | None) -> Asking[list[State | None]]:
        self.local.reschedule(ids, delay, at)
        said = [models.RescheduleMany(ids=list(part), delay=span_of(delay), at=at) for part in _cut(ids)]
        return self._were("reschedule", said)

    def _were(self, verb: str, said: Sequence[Any]) -> Asking[list[State | None]]:
        read = _reader(answers.WereMany, lambda found: found.was)
        return _one_after_the_other([Ask("POST", f"{self._path}/many/{verb}", read, part) for part in said])

    def get(self, ids: Sequence[str]) -> Asking[list[JobInfo[T] | None]]:
        self.local.get(ids)
        bodies = self.desk.bodies
        read = _reader(answers.JobsShown, lambda found: [job and info(job, bodies) for job in found.jobs])
        path = f"{self._path}/many/get"
        return _one_after_the_other([Ask("POST", path, read, models.Several(ids=list(part))) for part in _cut(ids)])

    # ── looking and ruling ───────────────────────────────────────────────────────────────────────────────────────────

    def list(
        self,
        state: State | None,
        due_after: datetime | None,
        due_before: datetime | None,
        limit: int,
        cursor: str | None,
    ) -> Ask[Page[T]]:
        next(self.local.list(state, due_after, due_before, limit, cursor))
        moments = {"due_after": due_after, "due_before": due_before}
        said = {name: at.isoformat() for name, at in moments.items() if at is not None}
        named = {name: text for name, text in (("state", state), ("cursor", cursor)) if text is not None}
        query = {**named, **said, "limit": str(limit)}
        bodies = self.desk.bodies
        read = _reader(answers.JobPage, lambda found: page(found, bodies))
        return Ask("GET", self._path + "/jobs", read, query=query)

    def stats(self) -> Ask[Stats]:
        return Ask("GET", self._path + "/stats", _reader(topic_answers.TopicStats, stats))

    def histogram(self, start: Duration | datetime, span: Duration, buckets: int, past: Duration) -> Ask[Histogram]:
        self.local.histogram(start, span, buckets, past)
        begin = start.isoformat() if isinstance(start, datetime) else _given(start)
        query = {"start": begin, "span": _given(span), "past": _given(past), "buckets": str(buckets)}
        return Ask("GET", self._path + "/histogram", _reader(topic_answers.TopicHistogram, histogram), query=query)

    def check(self) -> Ask[Check]:
        return Ask("GET", self._path + "/check", _reader(topic_answers.TopicCheck, check))

    def pause(self, for_: Duration | None) -> Ask[datetime | None]:
        self.local.pause(for_)
        read = _reader(topic_answers.Paused, lambda found: found.until)
        return Ask("POST", self._path + "/pause", read, models.Pause(for_=span_of(for_)))

    def resume(self) -> Ask[None]:
        return Ask("POST", self._path + "/resume", _nothing)

    def configure(
        self,
        ttr: Duration | None,
        max_attempts: int | None,
        keep: Duration | None,
        rate: RateLike | None = AS_IT_IS,
        burst: int | None = AS_IT_IS,
        concurrency: int | None = AS_IT_IS,
        max_lateness: Duration | None = AS_IT_IS,
    ) -> Ask[Defaults]:
        self.local.configure(ttr, max_attempts, keep, rate, burst, concurrency, max_lateness)
        spans = {"ttr": ttr, "keep": keep, "max_lateness": max_lateness}
        others: dict[str, Any] = {
            "max_attempts": max_attempts,
            "burst": burst,
            "concurrency": concurrency,
            "rate": rate,
        }
        if rate is not None and rate != AS_IT_IS:
            count, us = rates.rate(rate)
            others["rate"] = f"{count}/{us}us"
        said: dict[str, Any] = {name: span_of(span) for name, span in spans.items() if span != AS_IT_IS}
        said |= {name: value for name, value in others.items() if value != AS_IT_IS}
        model = models.Configure(**said)
        return Ask("PATCH", self._path + "/defaults", _reader(topic_answers.TopicDefaults, defaults), model)

    def purge(self, state: State | None) -> Ask[int]:
        self.local.purge(state)
        return self._counted("/purge", models.Purge(state=state))

    def _counted(self, path: str, said: Any) -> Ask[int]:
        return Ask("POST", self._path + path, _reader(answers.Count, lambda found: found.count), said)


# ── words ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _options(
    delay: Duration | None,
    at: datetime | None,
    ttr: Duration | None,
    max_attempts: int | None,
    headers: Mapping[str, str] | None,
    max_lateness: Duration | None,
) -> dict[str, Any]:
    attempts = UNSET if max_attempts == TOPICS_OWN else max_attempts
    spans = {"delay": span_of(delay), "ttr": span_of(ttr), "max_lateness": span_of(max_lateness)}
    return {**spans, "at": at, "max_attempts": attempts, "headers": headers}


def _given(span: Duration) -> str:
    return f"{microseconds(span)}us"


def span_of(span: Duration | None) -> str | None:
    """To the microsecond."""
    return None if span is None else _given(span)


def _nothing(_: bytes) -> None: ...


def _reader(model: type[S], make: Callable[[S], Any]) -> Callable[[bytes], Any]:
    decode = msgspec.json.Decoder(model).decode
    return lambda body: make(decode(body))


def _cut(whole: Sequence[S]) -> list[Sequence[S]]:
    return [whole[at : at + MOST] for at in range(0, len(whole), MOST)]


def _one_after_the_other(requests: Sequence[Ask[list[S]]]) -> Asking[list[S]]:
    """All answers as one; what fails says how much was done before."""
    done: list[S] = []
    for request in requests:
        try:
            done += yield from ask(request)
        except (Unavailable, JobExists) as fault:
            fault.done += len(done)
            raise
    return done


def _all_of(flows: Sequence[Asking[None]]) -> Asking[None]:
    """Every one is performed; then the first refusal is told, which names all."""
    stale: list[StaleReceipt] = []
    for flow in flows:
        try:
            yield from flow
        except StaleReceipt as fault:
            stale.append(fault)
    if stale:
        stale[0].ids = tuple(id for fault in stale for id in fault.ids)
        raise stale[0]
