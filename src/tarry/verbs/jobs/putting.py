"""Putting jobs in: ``add`` and ``add_many``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar, cast

from tarry.errors import BadInput, JobExists, Unavailable
from tarry.idea.calls import Call, Flow, Reply, ask
from tarry.idea.scripts import Script
from tarry.verbs.jobs import stored
from tarry.verbs.jobs.shapes import Added, IfExists, NewJob, State
from tarry.verbs.jobs.topic import TopicDesk
from tarry.words import names
from tarry.words.durations import MILLISECOND, Duration, as_datetime, microseconds, moment

T = TypeVar("T")

ADD = Script("topic/add", args=("mode",), item=("id", "when", "if_exists", "head", "body"))
EACH, ALL = (b"each",), (b"all",)
MOST_JOBS, MOST_BYTES = 1000, 1_000_000
"""One script takes no more: it must not hold the server up."""
TOPICS_OWN = -1
"""``max_attempts`` as the topic has it; ``None`` means without limit."""
_IF_EXISTS: dict[str, bytes] = {"error": b"error", "keep": b"keep", "replace": b"replace"}
_NOW = b"0"


@dataclass(frozen=True, slots=True)
class Options:
    """What a call says of every job in it; checked once."""

    when: bytes
    if_exists: bytes
    ttr_ms: int
    max_attempts: int
    headers: bytes


def options(
    delay: Duration = 0,
    at: datetime | None = None,
    if_exists: IfExists = "error",
    ttr: Duration | None = None,
    max_attempts: int | None = TOPICS_OWN,
    headers: Mapping[str, str] | None = None,
) -> Options:
    mode = _IF_EXISTS.get(if_exists)
    if mode is None:
        raise BadInput(f'if_exists: {if_exists!r} is unknown; it is "error", "keep" or "replace".')
    return Options(
        when_of(delay, at), mode, ttr_ms_of(ttr), max_attempts_of(max_attempts), stored.pack_headers(_plain(headers))
    )


def when_of(delay: Duration | None, at: datetime | None) -> bytes:
    """A delay in microseconds, or ``@`` and a moment: as the scripts read it."""
    if at is not None:
        if delay:
            raise BadInput("delay and at: give one of the two.")
        return b"@%d" % moment(at)
    return b"%d" % microseconds(delay) if delay else _zero(delay)


def _zero(delay: Duration | None) -> bytes:
    if delay is not None:
        microseconds(delay)  # False and "" are no durations
    return _NOW


def ttr_ms_of(ttr: Duration | None) -> int:
    """Whole milliseconds, rounded up; 0 when none is given."""
    if ttr is None:
        return 0
    ms = -(-microseconds(ttr, "ttr", least=MILLISECOND) // MILLISECOND)
    if ms > stored.LONGEST_TTR_MS:
        raise BadInput("ttr: longer than 49 days; touch the job from time to time instead.")
    return ms


def max_attempts_of(value: int | None) -> int:
    if value is None:
        return stored.NO_LIMIT
    if value == TOPICS_OWN:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 1_000_000:
        raise BadInput(f"max_attempts: {value!r}; it is a whole number from 1 to 999,999, or None for no limit.")
    return value


def _plain(headers: Mapping[str, str] | None) -> dict[str, str] | None:
    if headers is None or isinstance(headers, dict):
        return headers
    if not isinstance(headers, Mapping):
        raise BadInput(f"headers: {type(headers).__name__} given; they are a map from text to text.")
    return dict(headers)


PLAIN = options()


def add(desk: TopicDesk[T], body: T, opts: Options = PLAIN, id: str | None = None, nonce: bytes = b"") -> Call[Added]:
    raw, flags = desk.bodies.encode(body)
    if id is None:
        key = desk.ids.new()
        nonce = nonce or stored.NO_NONCE
    else:
        key = names.name(id, "id")
        nonce = nonce or desk.ids.nonce()
    head = stored.pack_head(flags, opts.ttr_ms, opts.max_attempts, nonce, opts.headers)

    def decode(reply: Reply) -> Added:
        return _added(key, reply[0], reply[1])

    return Call(ADD, desk.keys, EACH, decode, items=(key, opts.when, opts.if_exists, head, raw), lead=1)


def _added(id: bytes, now: int, answer: int | bytes) -> Added:
    text = id.decode()
    if isinstance(answer, int):
        return Added(text, True, "delayed" if answer > now else "ready", as_datetime(answer))
    if answer == b"9999":
        raise BadInput("delay: the job would be due beyond the year 9999.")
    state, _, since = answer[1:].decode().partition(" ")
    if answer[:1] == b"=":
        return Added(text, False, cast("State", state), as_datetime(int(since)))
    raise _exists(text, state)


def _exists(id: str, state: str, done: int = 0) -> JobExists:
    return JobExists(
        f'Job {id} is there already ({state}); give another id, or if_exists="keep" or "replace".',
        id=id,
        state=state,
        done=done,
    )


@dataclass(slots=True)
class _Chunk(Generic[T]):
    ids: list[bytes]
    items: list[bytes]
    size: int = 0


def add_many(
    desk: TopicDesk[T], bodies: Iterable[T | NewJob[T]], opts: Options = PLAIN, *, atomic: bool = False
) -> Flow[list[Added]]:
    """Everything is checked before the first script goes; then one script for each 1,000 jobs or 1 MB."""
    chunks = _chunks(desk, list(bodies), opts)
    if atomic and len(chunks) > 1:
        raise BadInput(f"atomic: too much for one script; at most {MOST_JOBS} jobs and {MOST_BYTES} bytes.")
    done: list[Added] = []
    for chunk in chunks:
        try:
            done += yield from ask(_add_chunk(desk, chunk))
        except (Unavailable, JobExists) as fault:
            fault.done += len(done)
            raise
    return done


def _add_chunk(desk: TopicDesk[T], chunk: _Chunk[T]) -> Call[list[Added]]:
    ids = chunk.ids

    def decode(reply: Reply) -> list[Added]:
        if isinstance(reply, bytes):  # "EXISTS 3 dead"
            _, index, state = reply.decode().split(" ")
            raise _exists(ids[int(index)].decode(), state)
        now = reply[0]
        return [_added(id, now, answer) for id, answer in zip(ids, reply[1:], strict=True)]

    return Call(ADD, desk.keys, ALL, decode, items=chunk.items, lead=1, alone=True)


def _chunks(desk: TopicDesk[T], bodies: Sequence[T | NewJob[T]], opts: Options) -> list[_Chunk[T]]:
    fresh = iter(desk.ids.many(len(bodies)))
    given: set[bytes] = set()
    chunks: list[_Chunk[T]] = []
    chunk: _Chunk[T] = _Chunk([], [])
    encode, plain = desk.bodies.encode, opts.ttr_ms == opts.max_attempts == 0 and not opts.headers
    for number, entry in enumerate(bodies):
        try:
            if type(entry) is NewJob:
                item = _item(desk, cast("NewJob[T]", entry), opts, next(fresh))
                if item[0] in given and opts.if_exists == b"error":
                    raise BadInput(f"id: {item[0].decode()!r} is given twice.")
                given.add(item[0])
            elif plain:
                raw, flags = encode(cast("T", entry))
                head = stored.PLAIN_HEAD if not flags else stored.pack_head(flags, 0, 0, stored.NO_NONCE, b"")
                item = (next(fresh), opts.when, opts.if_exists, head, raw)
            else:
                raw, flags = encode(cast("T", entry))
                head = stored.pack_head(flags, opts.ttr_ms, opts.max_attempts, stored.NO_NONCE, opts.headers)
                item = (next(fresh), opts.when, opts.if_exists, head, raw)
        except BadInput as fault:
            raise BadInput(f"job {number}: {fault}") from fault
        size = len(item[4]) + len(item[3])
        if not chunks or len(chunk.ids) == MOST_JOBS or chunk.size + size > MOST_BYTES:
            chunk = _Chunk([], [])
            chunks.append(chunk)
        chunk.ids.append(item[0])
        chunk.items += item
        chunk.size += size
    return chunks


def _item(desk: TopicDesk[T], job: NewJob[T], opts: Options, fresh: bytes) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    raw, flags = desk.bodies.encode(job.body)
    when = opts.when if job.delay is None and job.at is None else when_of(job.delay, job.at)
    ttr_ms = opts.ttr_ms if job.ttr is None else ttr_ms_of(job.ttr)
    limit = opts.max_attempts if job.max_attempts == TOPICS_OWN else max_attempts_of(job.max_attempts)
    headers = opts.headers if job.headers is None else stored.pack_headers(_plain(job.headers))
    id, nonce = (fresh, stored.NO_NONCE) if job.id is None else (names.name(job.id, "id"), desk.ids.nonce())
    return id, when, opts.if_exists, stored.pack_head(flags, ttr_ms, limit, nonce, headers), raw
