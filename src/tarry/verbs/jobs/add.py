"""Adding jobs: ``add_job`` and ``add_jobs``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from shlex import quote
from typing import Any, NoReturn, TypeVar, cast

from tarry.core.requests import FIRST_TIME, MOST_BYTES, MOST_ITEMS, Flow, Reply, ScriptCall, ask_in_turn
from tarry.core.scripts import Script
from tarry.errors import BadInput, JobExists, NotKept, TopicFull
from tarry.values import names
from tarry.values.durations import as_datetime, as_timedelta
from tarry.verbs.codecs import JSON, RAW
from tarry.verbs.jobs.job_fields import NO_NONCE
from tarry.verbs.jobs.job_values import Added, JobState
from tarry.verbs.jobs.options import ENCODED_DEFAULTS, LARGE, NEW_MARK, ONCE, EncodedOptions, NewJob
from tarry.verbs.jobs.topic_context import ADD, ADD_ONCE, TopicContext, calls_without

T = TypeVar("T")

_MICROSECOND = as_timedelta(1)
MOST_WITH_KEYS = 250
ALL, FULL, MOVED = b"all", b"full", b"moved"


def add_job(
    context: TopicContext[T],
    body: T,
    options: EncodedOptions = ENCODED_DEFAULTS,
    id: str | None = None,
) -> ScriptCall[Added]:
    """Adds one job."""
    raw, flags = context.codec.encode(body)
    if id is None:
        mark_and_due, head, scripts, why_not = options.of_new
        if why_not:
            refuse_without_id(options, id)
        key = context.ids.new()
        if flags:
            head = options.head(flags, NO_NONCE)
    else:
        key, mark_and_due, scripts = names.check_name(id, "id"), options.mark + options.due_time, options.scripts
        head = options.head(flags, context.ids.nonce())
    ends, calls, _ = context.leases.known[context.keys.due]
    if not calls or context.leases.seconds() >= ends:
        calls = calls_without(context.keys)
    script, keys, args, small = calls[scripts]
    items = (key, mark_and_due, head + raw)
    return ScriptCall(script, keys, args, partial(_decode, context, key), items, 1, small=small)


def _decode(context: TopicContext[Any], id: bytes, reply: Reply) -> Added:
    """Reads the answer to one add, and learns from it whether the topic has limits for producers."""
    if type(reply) is not int:
        context.leases.learn(context.keys, reply[0])
        return _added_of(id.decode(), context.name, abs(reply[0]), reply[1])
    if reply > 0:  # of a small script
        return Added(id.decode(), True, "delayed", as_datetime(reply))
    return Added(id.decode(), True, "ready", as_datetime(-reply))


def move_call(call: ScriptCall[Added], context: TopicContext[Any], options: EncodedOptions | None) -> None:
    """Lets the call of ``add_job`` add to the partition of another context; without its options by the large script."""
    if options is None:
        scripts = ONCE if call.script is ADD_ONCE else LARGE
    else:
        scripts = options.of_new[2] if call.items[1][:1] == NEW_MARK else options.scripts
    _, call.keys, call.args, call.small = context.leases.calls(context.keys)[scripts]
    call.decode = partial(_decode, context, call.items[0])


def _added_of(text: str, topic: str, now: int, answer: int | bytes) -> Added:
    if isinstance(answer, int):
        return Added(text, True, "delayed" if answer > now else "ready", as_datetime(answer))
    if answer == FULL:
        raise TopicFull(topic=topic)
    if answer == b"9999":
        raise BadInput("delay: the job would be due beyond the year 9999.")
    if answer == b"unkept":
        raise NotKept(
            f'if_exists: "once" also finds a job that is finished, and {topic} keeps none by its own setting. Write '
            f'topic({topic!r}).configure(keep_finished="1d"), or `tarry configure {quote(topic)} --keep-finished 1d`; '
            "what a job, a task or a handler says of its own jobs does not count.",
            topic=topic,
        )
    state, _, since = answer[1:].decode().partition(" ")
    if answer[:1] == b"=":
        return Added(text, False, cast("JobState", state), as_datetime(int(since)))
    raise _job_exists(text, state, since)


def _job_exists(id: str, state: str, since: str) -> JobExists:
    if state == "dead":
        moment = as_datetime(int(since)).isoformat(" ", "seconds").removesuffix("+00:00")
        message = (
            f'Job {id} is dead since {moment} UTC; if_exists="replace" revives it with this body, kick with its own.'
        )
    else:
        message = (
            f'Job {id} already exists ({state}); give another id, or if_exists="keep", "once", "replace" or "update".'
        )
    return JobExists(message, id=id, state=state)


def add_jobs(
    context: TopicContext[T],
    bodies: Iterable[T | NewJob[T]],
    options: EncodedOptions,
    *,
    atomic: bool = False,
    new_ids: Sequence[bytes] | None = None,
    done: list[Added] | None = None,
    moves: bool = False,
) -> Flow[list[Added]]:
    """Adds many jobs: all are checked before the first script is sent; then one script for each 1,000 jobs or 1 MB, or 250 jobs where
    some have keys. ``done`` collects what was added, for callers that need it when the rest fails. ``moves``: they come from another topic,
    and no limit refuses them."""
    entries = list(bodies)
    if options.needs_id:
        for number, entry in enumerate(entries):
            refuse_without_id(options, entry.id if isinstance(entry, NewJob) else None, f"job {number}: ")
    chunks = _chunks(context, entries, options, new_ids)
    check_atomic(len(chunks), atomic=atomic)
    script = ADD_ONCE if options.scripts == ONCE else ADD
    if not atomic and len(entries) > MOST_WITH_KEYS and _has_keys(options, entries):
        chunks = [portion for chunk in chunks for portion in _portions(chunk, len(options.mark))]
    return ask_in_turn((_add_call(context, script, chunk, moves=moves) for chunk in chunks), done)


def refuse_without_id(options: EncodedOptions, id: str | None, where: str = "") -> None:
    """Raises ``BadInput`` for a job without an id whose options need one."""
    if options.needs_id and id is None:
        raise BadInput(where + options.needs_id)


def check_atomic(scripts: int, *, atomic: bool) -> None:
    """Raises ``BadInput`` for jobs that need more than one script."""
    if atomic and scripts > 1:
        raise BadInput(f"atomic: too much for one script; at most {MOST_ITEMS} jobs and {MOST_BYTES} bytes.")


def _add_call(context: TopicContext[T], script: Script, items: list[bytes], *, moves: bool) -> ScriptCall[list[Added]]:
    ids, keys, leases = items[:: ADD.stride], context.keys, context.leases
    lease = MOVED if moves else leases.of(keys)

    def decode(reply: Reply) -> list[Added]:
        if reply == b"FULL":
            raise TopicFull(topic=context.name)
        if isinstance(reply, bytes):  # "EXISTS 3 dead 1700000000000000"
            _, index, state, since = reply.decode().split(" ")
            raise _job_exists(ids[int(index)].decode(), state, since)
        leases.learn(keys, reply[0])
        now, last = abs(reply[0]), -1
        due = as_datetime(0)
        added: list[Added] = []
        for id, answer in zip(ids, reply[1:], strict=True):
            if not isinstance(answer, int):
                added.append(_added_of(id.decode(), context.name, now, answer))
                continue
            if answer == last + 1:  # most are due one after the other
                due += _MICROSECOND
            elif answer != last:
                due = as_datetime(answer)
            last = answer
            added.append(Added(id.decode(), True, "delayed" if answer > now else "ready", due))
        return added

    args = ALL, lease, FIRST_TIME
    return ScriptCall(script, script.keys_for(keys), args, decode, items=items, reply_header=1, never_merged=True)


def _chunks(
    context: TopicContext[T],
    bodies: Sequence[T | NewJob[T]],
    options: EncodedOptions,
    given_ids: Sequence[bytes] | None = None,
) -> list[list[bytes]]:
    """The items of each script."""
    new_ids = given_ids if given_ids is not None else context.ids.new_many(len(bodies))
    given: set[bytes] = set()
    chunks: list[list[bytes]] = []
    items: list[bytes] = []
    size = 0
    encode, mark_and_due = context.codec.encode, NEW_MARK + options.due_time
    heads = [options.head(flags, NO_NONCE) for flags in (JSON, RAW)]
    entry: Any
    for number, (entry, new_id) in enumerate(zip(bodies, new_ids, strict=True)):
        try:
            if type(entry) is NewJob:
                item = _item(context, entry, options, new_id)
                if item[1][:1] == b"e":
                    refuse_repeated(item[0], given)
            else:
                raw, flags = encode(entry)
                item = (new_id, mark_and_due, heads[flags] + raw)
        except BadInput as fault:
            raise BadInput(f"job {number}: {fault}") from fault
        size += len(item[2])
        if not items or len(items) == MOST_ITEMS * ADD.stride or size > MOST_BYTES:
            items, size = [], len(item[2])
            chunks.append(items)
        items += item
    return chunks


def _has_keys(options: EncodedOptions, entries: Sequence[T | NewJob[T]]) -> bool:
    return options.contents.key is not None or any(type(one) is NewJob and one.key is not None for one in entries)


def _portions(items: list[bytes], mark_size: int) -> list[list[bytes]]:
    """The items of a script in portions that it adds in the time of a pop: a job with a key takes longer. Their due times go on from
    one portion to the next, also in one microsecond, so the jobs of a key keep their order."""
    n, most = len(items) // ADD.stride, MOST_WITH_KEYS
    if n <= most:
        return [items]
    items = items.copy()
    for at in range(n):
        mark_and_due = items[at * ADD.stride + 1]
        size = 1 if mark_and_due[:1] == NEW_MARK else mark_size
        if mark_and_due[size : size + 1] != b"@":
            before, delay = at - at % most, int(mark_and_due[size:])
            items[at * ADD.stride + 1] = mark_and_due[:size] + b"%d" % (before + delay if delay else before - n)
    return [items[at : at + most * ADD.stride] for at in range(0, len(items), most * ADD.stride)]


def refuse_in_partitions(what: str, topic: str, parts: int) -> NoReturn:
    """Raises ``BadInput``: a topic with partitions has no keys."""
    raise BadInput(
        f"{what}: {topic} has {parts} partitions, and a topic with keys has one: the jobs of a key are counted where all of them are. "
        "Leave it out, or `tarry migrate` the jobs into a topic without partitions."
    )


def refuse_repeated(id: bytes, given: set[bytes]) -> None:
    """Raises ``BadInput`` for an id that another job of the call has."""
    if id in given:
        raise BadInput(f"id: {id.decode()!r} is given twice.")
    given.add(id)


def _item(
    context: TopicContext[T], job: NewJob[T], options: EncodedOptions, new_id: bytes
) -> tuple[bytes, bytes, bytes]:
    raw, flags = context.codec.encode(job.body)
    id, mark, nonce = new_id, NEW_MARK, NO_NONCE
    if job.id is not None:
        id, mark, nonce = names.check_name(job.id, "id"), options.mark, context.ids.nonce()
    mark_and_due, head = options.of_job(job, flags, nonce)
    return id, mark + mark_and_due, head + raw
