"""A target: the function that a job is given to, with its timeout, retries and middleware. Built when the worker starts.

    middleware ▶ middleware ▶ settles a failure ▶ timeout ▶ body or arguments ▶ the function

Middleware is a plain callable ``(job, handle)``: an ``async def`` goes around async handlers, a plain function around plain
ones. It sees the start, what ``handle`` returns, what it raises, and ``JobDied`` when that was the end of the job. One whose first
parameter is annotated as a list is for functions that take many: it is given the jobs of the call, and what fails is settled outside of it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Container, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import timedelta
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from msgspec import UNSET, UnsetType

from tarry.clients.awaited.job import AsyncJob
from tarry.errors import BadInput
from tarry.values.durations import Duration, as_timedelta
from tarry.values.functions import is_async, name_of, refuse_generator, refuse_unfinished
from tarry.verbs.jobs.job_values import BaseJob
from tarry.verbs.jobs.precedence import MAX_LATENESS, decide
from tarry.worker.handlers import LISTS, Handler
from tarry.worker.process_functions import ProcessFunction
from tarry.worker.verdicts import DEFAULT_BACK_OFF, SAID, Bury, Policy, meant

if TYPE_CHECKING:
    from tarry.worker.batches import Batching, JobBatch

Middleware = Callable[[Any, Callable[[Any], Any]], Any]
Settle = Callable[[Any, BaseException], Any]
"""Settles a failed job, and raises ``JobDied`` if the job is dead then; awaited around async handlers."""

_current: ContextVar[BaseJob[Any]] = ContextVar("tarry_job")


@dataclass(frozen=True, slots=True)
class Target:
    """One function, and how its jobs are run and retried."""

    name: str
    is_async: bool
    call: Callable[[Any], Any]
    timeout_s: float | None = None
    retry: Policy = DEFAULT_BACK_OFF
    max_attempts: int | UnsetType | None = UNSET
    cancel_when_lost: bool = False
    middleware: tuple[Middleware, ...] = ()
    process: ProcessFunction | None = None
    """The function that a child process calls instead of ``call``, with ``run="process"``."""
    keep_finished: Duration | None = None
    """How long its finished jobs are kept; ``None``: the topic decides."""
    batching: Batching | None = None
    """For a function that takes many jobs; ``None``: it takes one."""
    settles: bool = False
    """Whether failures are settled inside the middleware, so that the middleware sees ``JobDied``."""


def make_call(handler: Handler) -> Callable[[Any], Any]:
    """Returns a function that calls the handler with the job, or with its body."""
    function = handler.function
    if not handler.wants_body:
        return function
    if handler.is_async:

        async def with_body(job: BaseJob[Any]) -> Any:
            return await function(job.body)

        return with_body
    return lambda job: function(job.body)


def drop_when_late(
    call: Callable[[Any], Any], is_async: bool, max_lateness: timedelta, on_too_late: Callable[[Any], Any] | None
) -> Callable[[Any], Any]:
    """Returns a function that calls the handler if its job is not later than its own maximum, or else ``max_lateness``; otherwise
    ``on_too_late``, or buries the job."""

    def bury(_: BaseJob[Any]) -> Any:
        raise Bury("too late")  # lua/topic/bury.lua counts this reason

    def chosen(job: BaseJob[Any]) -> Callable[[Any], Any]:
        own_us = job.head.max_lateness_us
        own = None if own_us is None else as_timedelta(own_us)
        most: timedelta = decide(MAX_LATENESS, {"job": own, "handler": max_lateness}).value
        return call if job.lateness <= most else on_too_late or bury

    if not is_async:
        return lambda job: chosen(job)(job)

    async def awaited(job: BaseJob[Any]) -> Any:
        return await chosen(job)(job)

    return awaited


def current_job() -> BaseJob[Any]:
    """The job of the task that calls this. ``current_job().lost`` tells whether its reservation was lost."""
    try:
        return _current.get()
    except LookupError:
        raise BadInput("current_job: call it inside a task that a worker runs.") from None


def call_as_current(job: BaseJob[Any], call: Callable[[], Any]) -> Any:
    """Calls a plain task; while it runs, ``job`` is the current job of its thread."""
    token = _current.set(job)
    try:
        return call()
    finally:
        _current.reset(token)


def set_current(job: BaseJob[Any]) -> None:
    """Sets the current job of an asyncio task, until that task ends."""
    _current.set(job)


def with_middleware(target: Target, settle: Settle, overruns: Container[Any] = ()) -> Target:
    """The same target, its call wrapped in its timeout and its middleware.

    ``overruns`` contains the jobs whose plain functions have been found to take longer than their timeout.
    """
    call = target.call
    if target.timeout_s is not None and target.process is None:
        if target.is_async:
            call = _with_timeout(call, target.name, target.timeout_s)
        else:
            call = _failing_when_overrun(call, timeout_text(target.name, target.timeout_s), overruns)
    many = target.batching is not None
    chain = [layer for layer in _layers_of_kind(target) if many in (_takes(layer) or {False})]
    if not chain:
        return replace(target, call=call)
    if many:
        for layer in reversed(chain):
            call = _wrap_layer_of_many(layer, call)
        return replace(target, call=call)
    call = (_settle_errors_async if target.is_async else _settle_errors)(call, settle)
    for layer in reversed(chain):
        call = _wrap_layer(layer, call)
    return replace(target, call=call, settles=True)


def skipped_middleware(target: Target) -> dict[str, bool]:
    """The names of middleware that is not called because the function takes many jobs, and whether an annotation says that it takes one."""
    layers = _layers_of_kind(target) if target.batching is not None else []
    return {name_of(layer): bool(kinds) for layer in layers if True not in (kinds := _takes(layer))}


def _layers_of_kind(target: Target) -> list[Middleware]:
    return [layer for layer in target.middleware if is_async(layer) is target.is_async]


def _takes(layer: Middleware) -> frozenset[bool]:
    """Whether middleware takes the jobs of a batch (``True``), one job (``False``), or either: its first annotation says so. Empty: it does
    not say, and takes one."""
    try:
        annotation = next(iter(inspect.signature(layer, eval_str=True).parameters.values())).annotation
    except (
        StopIteration,
        ValueError,
        TypeError,
        NameError,
        AttributeError,
        SyntaxError,
    ):  # names for type checkers only, say
        return frozenset()
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    said = [kind for kind in kinds if kind not in (inspect.Parameter.empty, Any, object)]
    return frozenset((get_origin(kind) or kind) in LISTS for kind in said)


def _wrap_layer(layer: Middleware, inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda job: layer(job, inner)


def _wrap_layer_of_many(layer: Middleware, inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function itself is called with what it was: its jobs, or their bodies."""

    async def awaited(batch: JobBatch) -> Any:
        try:
            result = await inner(batch)
        except Exception as fault:
            _raise_meant(fault)
            raise
        refuse_unfinished(result, is_async=True)
        return result

    def plain(batch: JobBatch) -> Any:
        try:
            result = inner(batch)
        except Exception as fault:
            _raise_meant(fault)
            raise
        refuse_unfinished(result)
        return result

    checked = awaited if is_async(layer) else plain
    return lambda batch: layer([*batch.jobs], lambda _: checked(batch))


def _with_timeout(call: Callable[[Any], Awaitable[Any]], name: str, seconds: float) -> Callable[[Any], Awaitable[Any]]:
    async def bounded(job: AsyncJob[Any]) -> Any:
        bound = asyncio.timeout(seconds)
        try:
            async with bound:
                return await call(job)
        except TimeoutError as fault:
            if bound.expired():
                raise TimeoutError(timeout_text(name, seconds)) from fault
            raise

    return bounded


def _failing_when_overrun(call: Callable[[Any], Any], text: str, overruns: Container[Any]) -> Callable[[Any], Any]:
    """A plain function that overran has timed out, whatever it returns; unless it settled the job, or raised a verdict."""

    def bounded(job: BaseJob[Any]) -> Any:
        try:
            result = call(job)
        except Exception as fault:
            if job in overruns and not isinstance(meant(fault), SAID):
                raise TimeoutError(text) from fault
            raise
        if job in overruns and not job.settled:
            raise TimeoutError(text)
        return result

    return bounded


def timeout_text(name: str, seconds: float) -> str:
    return f"{name} took longer than its timeout of {seconds:g} s"


def _settle_errors_async(call: Callable[[Any], Awaitable[Any]], settle: Settle) -> Callable[[Any], Awaitable[Any]]:
    async def settling(job: AsyncJob[Any]) -> Any:
        try:
            result = await call(job)
            refuse_unfinished(result, is_async=True)
        except Exception as fault:
            await settle(job, fault)
            _raise_meant(fault)
            raise
        return result

    return settling


def _settle_errors(call: Callable[[Any], Any], settle: Settle) -> Callable[[Any], Any]:
    def settling(job: Any) -> Any:
        try:
            result = call(job)
            refuse_unfinished(result)
        except Exception as fault:
            settle(job, fault)
            _raise_meant(fault)
            raise
        return result

    return settling


def _raise_meant(fault: BaseException) -> None:
    """Middleware sees what the handler has said, not the group in which it came."""
    if (said := meant(fault)) is not fault:
        raise said


def chain(layers: Sequence[Middleware]) -> tuple[Middleware, ...]:
    for layer in layers:
        if not callable(layer):
            raise BadInput(f"middleware: {layer!r} is not callable; it takes the job and the handler.")
        refuse_generator(layer, "middleware")
    return tuple(layers)
