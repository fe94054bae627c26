"""Settings of a topic: ``pause``, ``resume``, ``configure``; and ``purge``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NoReturn, TypeVar

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict

from tarry.core.requests import Flow, Reply, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values import rates
from tarry.values.durations import (
    DAY,
    LAST_MOMENT_US,
    MILLISECOND,
    SECOND,
    Duration,
    as_datetime,
    as_timedelta,
    duration_us,
)
from tarry.values.keys import KEY_PARTS, PURGING_PARTS, TOPIC_PARTS, TopicKeys
from tarry.values.rates import RateLike
from tarry.verbs.jobs import records
from tarry.verbs.jobs.job_fields import given_max_attempts
from tarry.verbs.jobs.job_values import StateFilter, ranges_of
from tarry.verbs.jobs.options import key_of, max_attempts_of, max_lateness_us, ttr_ms_of
from tarry.verbs.jobs.precedence import MAX_ATTEMPTS, TTR, decide
from tarry.verbs.jobs.stats import TopicSettings
from tarry.verbs.jobs.topic_context import WHOLE_TOPIC, Share

T = TypeVar("T")
PAUSE = Script("topic/pause", args=("span", "keeps_longer", "key"), keys=(*TOPIC_PARTS, *KEY_PARTS))
CONFIGURE = Script(
    "topic/configure", args=("place", "parts", "version"), item=("field", "value"), keys=(*TOPIC_PARTS, *KEY_PARTS)
)
PURGE = Script("topic/purge", args=("place", "side", "limit"), keys=(*PURGING_PARTS, *KEY_PARTS))
KEEP_US = 30 * DAY
"""The default; lua/topic/pop.lua has the same, and those of precedence.py."""
_STEP = 500
MOST_PENDING = 10**15
"""The largest limit for producers: Lua counts that far exactly."""
_BURST_US = 100 * MILLISECOND
LONGEST_SPAN_US = 1 << 52
"""Integers up to twice this are exact in Lua."""


def pause(keys: TopicKeys, span: Duration | None, key: str | None = None) -> ScriptCall[datetime | None]:
    """Stops handing out for a time, or until ``resume``; with ``key`` only the jobs of this key."""
    return ScriptCall(
        PAUSE,
        PAUSE.keys_for(keys),
        (b"%d" % pause_us(span), b"", _key(key)),
        lambda end: as_datetime(end) if end < LAST_MOMENT_US - SECOND else None,
    )


def _key(key: str | None) -> bytes:
    return (key_of(key) or "").encode()


def pause_at_least(keys: TopicKeys, us: int, key: str | None = None) -> ScriptCall[int]:
    """The same, in µs; a pause that ends later stays. Returns the end of the pause in server µs."""
    return ScriptCall(PAUSE, PAUSE.keys_for(keys), (b"%d" % us, b"1", _key(key)), int)


def pause_us(span: Duration | None) -> int:
    """How long to pause, in µs. Raises ``BadInput``."""
    return LAST_MOMENT_US if span is None else duration_us(span, "duration", minimum=1)


def resume(keys: TopicKeys, key: str | None = None) -> ScriptCall[None]:
    return ScriptCall(PAUSE, PAUSE.keys_for(keys), (b"", b"", _key(key)), lambda _: None)


class SettingsChange(Struct, frozen=True):
    """The settings of one call of ``configure``, as they were given. ``None`` removes a limit; for the first three it means the
    default TTR, no limit of attempts, dead jobs forever; for ``keep_finished`` that finished jobs are not kept."""

    ttr: Duration | UnsetType | None = UNSET
    max_attempts: int | UnsetType | None = UNSET
    keep_dead: Duration | UnsetType | None = UNSET
    rate: RateLike | UnsetType | None = UNSET
    burst: int | UnsetType | None = UNSET
    concurrency: int | UnsetType | None = UNSET
    max_lateness: Duration | UnsetType | None = UNSET
    keep_finished: Duration | UnsetType | None = UNSET
    max_pending: int | UnsetType | None = UNSET
    max_pending_bytes: int | UnsetType | None = UNSET
    key_concurrency: int | UnsetType | None = UNSET
    key_rate: RateLike | UnsetType | None = UNSET
    fair: bool | UnsetType | None = UNSET
    retry_holds_key: bool | UnsetType | None = UNSET

    def changes(self) -> dict[str, Any]:
        """Those that change something."""
        return {name: value for name, value in asdict(self).items() if value is not UNSET}

    def encode(self, parts: int) -> list[bytes]:
        """The settings as they are stored: names and values in turn. Raises ``BadInput`` for limits that cannot be divided."""
        items: list[bytes] = []
        if self.ttr is not UNSET:
            items += [b"ttr", b"%d" % (ttr_ms_of(self.ttr) * MILLISECOND) if self.ttr is not None else b""]
        if self.max_attempts is not UNSET:
            items += [b"max_attempts", b"%d" % max_attempts_of(self.max_attempts)]
        if self.keep_dead is not UNSET:
            items += [
                b"keep_dead",
                b"%d" % duration_us(self.keep_dead, "keep_dead", minimum=SECOND)
                if self.keep_dead is not None
                else b"0",
            ]
        if self.rate is not UNSET:
            items += [b"rate", b"%d %d" % _rate(self.rate, parts) if self.rate is not None else b""]
        if self.burst is not UNSET:
            items += [b"burst", _count(self.burst, "burst", parts)]
        if self.concurrency is not UNSET:
            items += [b"concurrency", _count(self.concurrency, "concurrency", parts)]
        if self.max_lateness is not UNSET:
            max_lateness = max_lateness_us(self.max_lateness)
            items += [b"max_lateness", b"%d" % max_lateness if max_lateness is not None else b""]
        if self.keep_finished is not UNSET:
            items += [b"keep_finished", records.keep_finished_arg(self.keep_finished)]
        if self.max_pending is not UNSET:
            items += [b"max_pending", _count(self.max_pending, "max_pending", most=MOST_PENDING)]
        if self.max_pending_bytes is not UNSET:
            items += [b"max_pending_bytes", _count(self.max_pending_bytes, "max_pending_bytes", most=MOST_PENDING)]
        return items + self._encode_of_keys()

    def _encode_of_keys(self) -> list[bytes]:
        items: list[bytes] = []
        if self.key_concurrency is not UNSET:
            items += [b"key_concurrency", _count(self.key_concurrency, "key_concurrency")]
        if self.key_rate is not UNSET:
            rate = b"" if self.key_rate is None else b"%d %d" % _rate(self.key_rate, 1, "key_rate")
            items += [b"key_rate", rate]
        if self.fair is not UNSET:
            if self.fair not in (True, False, None):
                raise BadInput(f"fair: {self.fair!r}; it is True, or False for jobs in the order of their due times.")
            items += [b"fair", b"1" if self.fair else b""]
        if self.retry_holds_key is not UNSET:
            if self.retry_holds_key not in (True, False, None):
                raise BadInput(
                    f"retry_holds_key: {self.retry_holds_key!r}; it is True, or False for a key that goes on while a job of it waits for a retry."
                )
            items += [b"retry_holds_key", b"1" if self.retry_holds_key else b""]
        return items

    @property
    def of_keys(self) -> str | None:
        """The first setting of those for keys that sets something."""
        return next((name for name in OF_KEYS if getattr(self, name) not in (UNSET, None, False)), None)


OF_KEYS = "key_concurrency", "key_rate", "fair", "retry_holds_key"
"""The settings for each key, which a topic with partitions has not."""
FIELDS = SettingsChange.__struct_fields__
"""The settings of a topic, in the order in which lua/topic/configure.lua returns them."""


def configure(keys: TopicKeys, settings: SettingsChange, share: Share = WHOLE_TOPIC) -> ScriptCall[TopicSettings]:
    """Sets what is given. Settings and answer are of the whole topic; a partition keeps its ``share``. Raises ``BadInput`` for
    limits that cannot be divided."""
    return _configure(keys, share, settings.encode(share[1]), lambda reply: _settings_of(reply, share[1]))


def _configure(
    keys: TopicKeys, share: Share, items: Sequence[bytes], decode: Callable[[Reply], T], number: int = 0
) -> ScriptCall[T]:
    args = b"%d" % share[0], b"%d" % share[1], b"%d" % number if number else b""
    return ScriptCall(CONFIGURE, CONFIGURE.keys_for(keys), args, decode, items=items, never_merged=True)


@dataclass(frozen=True, slots=True)
class StoredSettings:
    """The options of the whole topic, as they are stored, in the order of ``FIELDS``; ``number`` counts the changes, in the
    first partition."""

    values: tuple[bytes | None, ...]
    number: int

    def settings(self, parts: int) -> TopicSettings:
        return _settings_of(self.values, parts)


def configure_first(
    keys: TopicKeys, share: Share, items: Sequence[bytes], greater_than: int = 0
) -> ScriptCall[StoredSettings]:
    """Sets options of the first partition, and returns all of them, with a number above ``greater_than``, which another
    partition had."""
    return _configure(keys, share, items, lambda reply: StoredSettings(tuple(reply[:-1]), reply[-1]), greater_than)


def copy_first(keys: TopicKeys, share: Share, first: StoredSettings) -> ScriptCall[int]:
    """Copies the first partition's options to another one. Returns that one's number if it had a later change, else 0."""
    items = [arg or b"" for pair in zip(map(str.encode, FIELDS), first.values, strict=True) for arg in pair]

    def decode(reply: Reply) -> int:
        return int(reply[-1]) if tuple(reply[:-1]) != first.values else 0

    return _configure(keys, share, items, decode, first.number)


def read_settings(keys: TopicKeys, share: Share) -> ScriptCall[list[bytes | None]]:
    """Reads the options of the whole topic, as they are stored, in the order of ``FIELDS``."""
    return _configure(keys, share, (), lambda reply: list(reply[:-1]))


def missing_settings(target: Sequence[bytes | None], source: Sequence[bytes | None], parts: int) -> dict[bytes, bytes]:
    """The options that the source has and the target has not. Raises ``BadInput`` for limits that cannot be divided over its
    partitions."""
    found = {
        name.encode(): arg
        for name, ours, arg in zip(FIELDS, target, source, strict=True)
        if ours is None and arg is not None
    }
    if parts > 1 and (of_keys := [name for name in OF_KEYS if name.encode() in found]):
        refuse_keys(of_keys[0], parts)
    for name in ("burst", "concurrency"):
        if (number := found.get(name.encode())) is not None:
            _count(int(number), name, parts)
    if (rate := found.get(b"rate")) is not None:
        count, span = map(int, rate.split())
        _rate((count, timedelta(microseconds=span)), parts)
    return found


def refuse_keys(what: str, parts: int) -> NoReturn:
    """Raises ``BadInput``: the target of a move has partitions, and the source has keys."""
    raise BadInput(
        f"{what}: the target has {parts} partitions, and a topic with keys has one: the jobs of a key are counted where all of them are. "
        "Migrate into a topic without partitions."
    )


def apply_settings(keys: TopicKeys, values: Mapping[bytes, bytes], share: Share) -> ScriptCall[None]:
    """Sets options as they were read from another topic."""
    return _configure(keys, share, [arg for pair in values.items() for arg in pair], lambda _: None)


def _rate(value: RateLike, parts: int, what: str = "rate") -> tuple[int, int]:
    count, span = rates.parse_rate(value, what)
    if span * parts > LONGEST_SPAN_US:
        raise BadInput(
            f"rate: its span is too long to be divided over {parts} partitions; give a rate over a shorter span."
        )
    return count, span


def _count(value: int | None, what: str, parts: int = 1, most: int = rates.MOST) -> bytes:
    if value is None:
        return b""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        pause = ". To hand out nothing, pause the topic" if what == "concurrency" and value == 0 else ""
        if what == "key_concurrency" and value == 0:
            pause = ". To hand out nothing of a key, pause the key"
        raise BadInput(f"{what}: {value!r}; it is a whole number from 1 to {most:,}, or None for no such limit{pause}.")
    if value < parts:
        raise BadInput(
            f"{what}: {value} for {parts} partitions, each of which needs one; give at least {parts}, or `tarry migrate` the "
            "topic into one with fewer partitions."
        )
    return b"%d" % value


def _settings_of(reply: Reply, parts: int) -> TopicSettings:
    ttr, limit, keep_dead = (int(arg) if arg is not None else None for arg in reply[:3])
    rate = None if reply[3] is None else rates.as_rate(*map(int, reply[3].split()))
    burst, concurrency, max_lateness, history, pending, pending_bytes, key_concurrency = (
        int(arg) if arg is not None else None for arg in reply[4:11]
    )
    return TopicSettings(
        ttr=decide(TTR, {"topic": None if ttr is None else as_timedelta(ttr)}).value,
        max_attempts=decide(MAX_ATTEMPTS, {"topic": given_max_attempts(limit or 0)}).value,
        keep_dead=as_timedelta(KEEP_US if keep_dead is None else keep_dead) if keep_dead != 0 else None,
        rate=rate,
        burst=None if rate is None else burst if burst is not None else default_burst(rate, parts),
        concurrency=concurrency,
        max_lateness=None if max_lateness is None else as_timedelta(max_lateness),
        keep_finished=None if history is None else as_timedelta(history),
        max_pending=pending,
        max_pending_bytes=pending_bytes,
        key_concurrency=key_concurrency,
        key_rate=None if reply[11] is None else rates.as_rate(*map(int, reply[11].split())),
        fair=reply[12] is not None,
        retry_holds_key=reply[13] is not None,
    )


def default_burst(rate: rates.Rate, parts: int) -> int:
    """The jobs of a tenth of a second, at least one for each partition; lua/topic/configure.lua has the same."""
    return max(parts, rate.count * _BURST_US // (rate.per // timedelta(microseconds=1)))


def purge(keys: TopicKeys, state: StateFilter | None = None) -> Flow[int]:
    """Deletes all jobs of a state, in bounded steps; without a state the whole topic, at once. Returns their number."""
    if state is None:
        return (yield from ask(ScriptCall(PURGE, PURGE.keys_for(keys), (b"all", b"", b"0"), int)))
    gone = 0
    for place in ranges_of(state):
        while True:
            step = yield from ask(ScriptCall(PURGE, PURGE.keys_for(keys), (*place, b"%d" % _STEP), int))
            gone += step
            if step < _STEP:
                break
    return gone
