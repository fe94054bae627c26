"""The verdict on a job whose handler raised: retried, put off, or dead. The exception or the retry policy decides.

    raise Retry(after="5m")     again in five minutes; without ``after`` when the policy decides, and never dead at once
    raise Snooze("1h")          again in an hour, and this attempt does not count
    raise Pause("30s")          back to its place, uncounted, and nothing of the topic is handed out for 30 seconds; with ``key=True``
                                nothing of the job's key
    raise Bury("no such user")  set aside, dead, with the reason
    raise Failed({job: error})  of a handler with ``batch=``: these jobs failed, the others are done
    a StepNotKept of the job    set aside, dead: a step has run in vain, and would run again
    any other exception         again after a back-off; dead after the last attempt

A group of exceptions, as ``asyncio.TaskGroup`` raises it, means what is in it if that is one of these alone; else it is any other exception.

A policy is a ``BackOff``; or a duration, how long each retry waits; or a map from types of exceptions to a ``BackOff``, a duration or ``None`` (dead at once), where
the first type in the exception's method resolution order counts; or a function ``(job, exception) -> duration or None``. A type of
exception, or a tuple of them: only these are retried, any other makes the job dead at once
(docs/decisions/0094-a-class-as-retry.md).
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Never

from msgspec import UNSET, UnsetType

from tarry.errors import BadInput, BodyError, StepNotKept
from tarry.values.durations import Duration, duration_us
from tarry.values.other_words import OF_BACK_OFF, OF_RETRY, hide_others, refuse_others
from tarry.verbs.jobs import settle
from tarry.verbs.jobs.job_values import EXHAUSTED, BaseJob, failure_line
from tarry.verbs.jobs.topic_context import one_line

FRAMES, LONGEST_ERROR, LONGEST_LINE = 20, 6000, 500
"""Of a traceback: how many of the innermost frames, how many of the last bytes; and characters of the line before it. The
script stores 8 KiB of both together."""


class Retry(Exception):
    """Raised by a handler: the attempt has failed, and the job is tried again after ``after``. Without ``after`` the handler's retry policy
    decides how long the job waits."""

    @hide_others
    def __init__(self, reason: str = "", *, after: Duration | None = None, **words: Never) -> None:
        if words:
            refuse_others(Retry.__init__, self, OF_RETRY, (), words)
        super().__init__(reason)
        self.after_us: int | None = None if after is None else duration_us(after, "after")
        """``after`` in microseconds; ``None`` if the retry policy decides."""


class Snooze(Exception):
    """Raised by a handler: the job is due again after ``delay``, and this attempt does not count."""

    def __init__(self, delay: Duration, reason: str = "") -> None:
        super().__init__(reason)
        self.delay_us: int = duration_us(delay, "Snooze")
        """``delay`` in microseconds."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Snooze, (timedelta(microseconds=self.delay_us), *self.args)


class Pause(Exception):
    """Raised by a handler: the job's topic is paused for ``duration``. The job becomes ready again, and this attempt does not count.

    If the topic is already paused for longer, that pause stays. The worker also puts back the other jobs of the topic that it
    has taken but not begun. With ``key=True`` only the job's key is paused, and the worker keeps the jobs that it has taken. If the
    job has no key, the topic is paused instead.
    """

    def __init__(self, duration: Duration, reason: str = "", *, key: bool = False) -> None:
        super().__init__(reason)
        self.duration_us: int = duration_us(duration, "Pause", minimum=1)
        """``duration`` in microseconds."""
        if key not in (True, False):
            raise BadInput(f"Pause: key: {key!r}; it is True: the key is the job's own.")
        self.key = key
        """Whether only the job's key is paused."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Pause, (timedelta(microseconds=self.duration_us), *self.args), {"key": self.key}


class Bury(Exception):
    """A handler raises it if a retry makes no sense: the job is set aside as dead, with the reason."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        """Why the job is dead; it is kept with the job."""


class Failed(Exception):
    """A handler with ``batch=`` raises it if some of its jobs have failed. It has an error for each of these jobs; the other jobs of the batch
    are finished.

    An error is any exception that a handler of one job could raise, such as ``ValueError("…")`` or ``tarry.Snooze("1h")``. A
    text stands for a ``tarry.Retry`` with this text.
    """

    def __init__(self, errors: Mapping[Any, BaseException | str]) -> None:
        if not isinstance(errors, Mapping) or not all(isinstance(one, (BaseException, str)) for one in errors.values()):
            raise BadInput(f"Failed: {errors!r}; give a map from jobs to exceptions or text, such as {{job: error}}.")
        super().__init__(
            "it is for a handler with batch=, whose jobs it maps to errors; for one job raise the error itself"
        )
        self.errors: Mapping[Any, BaseException | str] = dict(errors)
        """The error of each job that failed."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Failed, (self.errors,)


class JobDied(Exception):
    """Middleware sees it when a job has become dead. ``error`` is the exception that the handler raised."""

    def __init__(self, reason: str, error: BaseException) -> None:
        super().__init__(reason)
        self.error = error
        """The exception that the handler raised."""


@dataclass(frozen=True, slots=True, init=False)
class BackOff:
    """How long a failed job waits. After its first failure it waits ``first``, after each further one ``factor`` times as long, at most
    ``longest``. ``jitter`` makes each wait a little longer or shorter."""

    first: Duration = 1
    """The wait after the first failure."""
    factor: float = 2.0
    """Each further wait is this many times as long as the one before: 1 to 1000."""
    longest: Duration = "1h"
    """The longest wait, before ``jitter`` is added or taken away."""
    jitter: float = 0.2
    """The largest share of a wait, from 0 to 1, that is added or taken away at random."""

    @hide_others
    def __init__(
        self,
        first: Duration = 1,
        factor: float = 2.0,
        longest: Duration = "1h",
        jitter: float = 0.2,
        **words: Never,
    ) -> None:
        if words:
            refuse_others(BackOff.__init__, self, OF_BACK_OFF, (), words)
        for name, value in (("first", first), ("factor", factor), ("longest", longest), ("jitter", jitter)):
            object.__setattr__(self, name, value)  # as the generated one of a frozen dataclass does
        duration_us(first, "first")
        duration_us(longest, "longest")
        if not 1 <= factor <= 1000 or not 0 <= jitter <= 1:
            raise BadInput("BackOff: factor lies between 1 and 1000, jitter between 0 and 1.")


Delay = BackOff | Duration | None
Policy = BackOff | Mapping[type[BaseException], Delay] | Callable[[Any, Exception], Duration | None]
PolicyLike = Policy | Duration | type[BaseException] | tuple[type[BaseException], ...]
"""A policy, as users may write it."""
DEFAULT_BACK_OFF = BackOff()
VERDICTS = (Retry, Snooze, Pause, Bury)
"""Exceptions by which a handler decides about its job."""
SAID = (*VERDICTS, Failed, StepNotKept)
"""Those, that of a handler with ``batch=``, and that of a step that ran in vain: neither a timeout nor a group hides them."""
_NEVER_RETRIED = (Snooze, Pause, Bury, Failed, JobDied)


@dataclass(frozen=True, slots=True)
class Verdict:
    """``delay_us`` is ``None`` for a job that is dead. ``seen``: whether a handler saw the job;
    else its hand-out does not count, nor for the topic's rate. ``note`` is kept beside the failure. With ``pause_us`` the topic is
    paused first, and the job goes back to its place."""

    delay_us: int | None
    counts: bool
    reason: str
    error: str = ""
    seen: bool = True
    note: str = ""
    pause_us: int = 0
    pause_key_us: int = 0
    """The same for the job's key alone."""

    @property
    def failure(self) -> str:
        """The failure in one line."""
        return failure_line(self.reason, self.error)


def meant(fault: BaseException) -> BaseException:
    """The exception by which a handler has decided, also when it is alone in a group; else the fault as it is."""
    only = fault
    while isinstance(only, BaseExceptionGroup) and len(only.exceptions) == 1:
        only = only.exceptions[0]
    return only if isinstance(only, SAID) else fault


def pauses_topic(job: BaseJob[Any], fault: BaseException) -> bool:
    """Whether what a handler of the job raised pauses its topic, and not its key alone."""
    return isinstance(fault, Pause) and (not fault.key or job.key is None)


def retry_delay_us(back_off: BackOff, attempt: int, fraction: float) -> int:
    """Microseconds to wait after a failed attempt (the first is 1). ``fraction`` is a number from 0 to 1."""
    first, longest = duration_us(back_off.first), duration_us(back_off.longest)
    return settle.retry_delay_us(
        attempt, fraction, first=first, factor=back_off.factor, longest=longest, spread=back_off.jitter
    )


def check_policy(policy: PolicyLike | None) -> Policy:
    """The policy, or the default one. Raises ``BadInput``."""
    if policy is None:
        return DEFAULT_BACK_OFF
    if isinstance(policy, (int, float, str, timedelta)):
        duration_us(policy, "retry")
        return BackOff(first=policy, factor=1, longest=policy, jitter=0)
    if isinstance(policy, Mapping):
        _check_map(policy)
        return policy
    if isinstance(policy, BackOff):
        return policy
    kinds = policy if isinstance(policy, tuple) else (policy,)
    _refuse_verdicts(kinds, (Retry, *_NEVER_RETRIED))
    if kinds and all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        return _retry_only(kinds)
    if isinstance(policy, type):
        raise BadInput(
            f"retry: {policy.__name__} is a class; give one that is made, such as tarry.BackOff(first='2s')."
        )
    if not callable(policy):
        raise BadInput(
            f"retry: {policy!r}; give a duration, a BackOff, an exception or a tuple of them, a map from exceptions to delays, or a "
            "function."
        )
    _check_function(policy)
    return policy


def _check_map(policy: Mapping[Any, Any]) -> None:
    for kind, delay in policy.items():
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise BadInput(f"retry: {kind!r} is not a type of exception.")
        if delay is not None and not isinstance(delay, BackOff):
            duration_us(delay, "retry")
    _refuse_verdicts(policy, _NEVER_RETRIED)


def _refuse_verdicts(kinds: Iterable[Any], verdicts: tuple[type[Exception], ...]) -> None:
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, verdicts):
            raise BadInput(
                f"retry: {kind.__name__} is what a function raises for one job, whatever retry= says; give the exceptions that are retried, "
                'such as retry=ConnectionError, or how long to wait, such as retry="2s" or retry=tarry.BackOff(first="2s").'
            )


def _retry_only(kinds: tuple[Any, ...]) -> Policy:
    """Retries these exceptions, and a body that this worker cannot read: the function has not run yet, and during a deployment the
    next worker may read it."""

    def policy(_: Any, fault: Exception) -> Any:
        return DEFAULT_BACK_OFF if isinstance(fault, (*kinds, BodyError)) else None

    return policy


def _check_function(policy: Callable[..., Any]) -> None:
    """Raises ``BadInput`` for a function that could not be called at the first failure, or whose answer nobody awaits."""
    if inspect.iscoroutinefunction(policy):
        raise BadInput("retry: an async def is not awaited; give a plain function (job, exception).")
    try:
        inspect.signature(policy).bind(None, None)
    except TypeError as fault:
        raise BadInput(f"retry: the function is called with the job and the exception: {fault}.") from fault
    except ValueError:  # one of C without a signature
        return


def decide(
    policy: Policy,
    job: BaseJob[Any],
    fault: BaseException,
    fraction: float,
    max_attempts: int | UnsetType | None = UNSET,
    text_of: Callable[[BaseException | None], str] | None = None,
) -> Verdict:
    """Decides what happens to the job. If the policy raises, the default back-off is used, and both tracebacks are stored.
    ``text_of`` makes the text of a traceback."""
    text_of = text_of or _traceback
    if isinstance(fault, Bury):
        return Verdict(None, True, fault.reason or "buried by its handler", text_of(fault.__cause__))
    if isinstance(fault, Snooze):
        return Verdict(fault.delay_us, False, _one_line(fault))
    if isinstance(fault, StepNotKept) and fault.id == job.id:
        return Verdict(None, True, _one_line(fault), text_of(fault))
    if isinstance(fault, Pause):
        us, is_topics = fault.duration_us, pauses_topic(job, fault)
        return Verdict(0, False, _one_line(fault), pause_us=us * is_topics, pause_key_us=us * (not is_topics))
    if isinstance(max_attempts, int) and job.attempt >= max_attempts:
        return Verdict(None, True, EXHAUSTED, f"{_one_line(fault)}\n{text_of(fault)}")
    if isinstance(fault, Retry) and fault.after_us is not None:
        return Verdict(fault.after_us, True, _one_line(fault), text_of(fault.__cause__))
    try:
        delay = _delay(policy, job, fault, fraction)
    except Exception as broken:  # noqa: BLE001  # a user's function; its exception must not lose the job
        broken.__context__ = fault
        return Verdict(retry_delay_us(DEFAULT_BACK_OFF, job.attempt, fraction), True, _one_line(fault), text_of(broken))
    if isinstance(fault, Retry):
        delay = retry_delay_us(DEFAULT_BACK_OFF, job.attempt, fraction) if delay is None else delay
        return Verdict(delay, True, _one_line(fault), text_of(fault.__cause__))
    return Verdict(delay, True, _one_line(fault), text_of(fault))


def _delay(policy: Policy, job: BaseJob[Any], fault: BaseException, fraction: float) -> int | None:
    given: Delay
    if isinstance(policy, BackOff):
        given = policy
    elif isinstance(policy, Mapping):
        given = next((policy[kind] for kind in type(fault).__mro__ if kind in policy), DEFAULT_BACK_OFF)
    else:
        given = policy(job, fault) if isinstance(fault, Exception) else DEFAULT_BACK_OFF
    if isinstance(given, BackOff):
        return retry_delay_us(given, job.attempt, fraction)
    return None if given is None else duration_us(given, "retry")


def _one_line(fault: BaseException) -> str:
    text = one_line(fault)
    return text if len(text) <= LONGEST_LINE else text[: LONGEST_LINE - 1] + "…"


def _traceback(fault: BaseException | None) -> str:
    """The end of the traceback's text: where it happened."""
    if fault is None:
        return ""
    lines = traceback.format_exception(type(fault), fault, fault.__traceback__, limit=-FRAMES)
    raw = "".join(lines).rstrip().encode("utf-8", "replace")
    if len(raw) > LONGEST_ERROR:
        raw = b"\xe2\x80\xa6 " + raw[-LONGEST_ERROR:]
    return raw.decode("utf-8", "ignore")


def remembered_tracebacks() -> Callable[[BaseException | None], str]:
    """Makes the text of each exception once: the jobs of a batch may all have the same."""
    texts: dict[int, tuple[BaseException, str]] = {}

    def text_of(fault: BaseException | None) -> str:
        if fault is None:
            return ""
        if id(fault) not in texts:
            texts[id(fault)] = fault, _traceback(fault)
        return texts[id(fault)][1]

    return text_of
