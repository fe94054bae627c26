"""OpenTelemetry: each attempt of a job is a span, linked to the span in which the job was added. Needs ``tarry[otel]``.

    web    ── POST /orders ──┐ close.options(delay="30m").add(7)       traceparent is sent in the job's headers
                             ┊ link
    worker                   └┄┄ process tasks ── attempt 1 ──    and another span, linked too, for attempt 2

The span is linked and not a child, because nobody can read a trace that waits for half an hour, or for a retry tomorrow.

A call of a handler with ``batch=`` is one span, linked to all spans that added its jobs.

tarry.otel.instrument(worker)                       # spans for its handlers, headers for the tasks that are added
topic.add(order, headers=tarry.otel.headers())      # for jobs that are added without a task

Attributes follow the semantic conventions for messaging, 1.27; others begin with ``tarry.``. They never contain bodies or
arguments.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from tarry.errors import MissingExtra

try:
    from opentelemetry import context, propagate, trace
    from opentelemetry.util.types import AttributeValue
except ImportError as fault:
    raise MissingExtra("tarry.otel needs OpenTelemetry's API: pip install 'tarry[otel]'.") from fault

from tarry import BodyError, Failed, JobDied, Pause, Registry, Snooze, __version__
from tarry.internal import parse_envelope
from tarry.types import BaseJob

SCHEMA = "https://opentelemetry.io/schemas/1.27.0"
LONGEST_CONTEXT = 2048
"""How many bytes of a job's headers (8 KiB at most) the context may take. If it is longer, the baggage is left out."""
Job = BaseJob[Any]
_COUNT = "messaging.batch.message_count"
_instrumented: WeakSet[Registry] = WeakSet()


def headers(own: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the headers to give to ``add``: the current span's context, and your ``own`` headers.

    If a header of yours has the same name as one of the span's, yours counts. OpenTelemetry's propagators write the
    span's headers (``OTEL_PROPAGATORS``; W3C ``traceparent`` by default).
    """
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    if sum(len(text.encode()) for pair in carrier.items() for text in pair) > LONGEST_CONTEXT:
        carrier.pop("baggage", None)
    return {**carrier, **(own or {})}


def instrument(registry: Registry, *, tracer_provider: trace.TracerProvider | None = None) -> None:
    """Traces a worker, or one of its registries: a span for each attempt, headers for each task that is added.

    ``tracer_provider`` is the global one by default. A second call does nothing. Middleware that was added before runs
    outside of the span, middleware that is added later runs inside.
    """
    if registry in _instrumented:
        return
    _instrumented.add(registry)
    tracer = trace.get_tracer("tarry", __version__, tracer_provider, SCHEMA)

    @registry.around
    async def traced(job: Job | list[Job], handle: Callable[[Any], Awaitable[Any]]) -> Any:
        with _traced(tracer, job):
            return await handle(job)

    @registry.around
    def traced_in_its_thread(job: Job | list[Job], handle: Callable[[Any], Any]) -> Any:
        with _traced(tracer, job):
            return handle(job)

    registry.stamp(headers)


@contextmanager
def _traced(tracer: trace.Tracer, given: Job | list[Job]) -> Generator[None]:
    """One call as a span, in a trace of its own, linked to the spans in which its jobs were added. A call with one job has the baggage of the
    job's headers."""
    is_batch = isinstance(given, list)
    jobs = given if isinstance(given, list) else [given]
    contexts = [_context_of(job) for job in jobs]
    adding = [trace.get_current_span(one).get_span_context() for one in contexts]
    links = {(one.trace_id, one.span_id): trace.Link(one) for one in adding if one.is_valid}
    own = context.Context() if is_batch else contexts[0]
    span = tracer.start_span(
        f"process {jobs[0].topic}",
        context=trace.set_span_in_context(trace.INVALID_SPAN, own),
        kind=trace.SpanKind.CONSUMER,
        attributes={**_messaging(jobs[0].topic), **({_COUNT: len(jobs)} if is_batch else _attributes(jobs[0]))},
        links=[*links.values()],
        record_exception=False,
        set_status_on_exception=False,
    )
    token = context.attach(trace.set_span_in_context(span, own))
    outcome = "released"  # the worker was stopped
    try:
        yield
        outcome = "finished"
    except Exception as fault:
        if is_batch and isinstance(fault, Failed):
            outcome = "failed" if fault.errors else "finished"
            span.set_attribute("tarry.batch.failed", len(fault.errors))
        elif isinstance(fault, (Snooze, Pause)):
            outcome = "snoozed" if isinstance(fault, Snooze) else "paused"
        else:
            outcome = "dead" if isinstance(fault, JobDied) else "failed" if is_batch else "retried"
            _failed(span, fault.error if isinstance(fault, JobDied) else fault)
        raise
    finally:
        context.detach(token)
        if is_batch:
            span.set_attribute("tarry.batch.outcome", outcome)
        else:
            span.set_attribute("tarry.job.outcome", "lost" if jobs[0].lost else outcome)
        span.end()


def _failed(span: trace.Span, fault: BaseException) -> None:
    kind = type(fault)
    span.set_attribute("error.type", kind.__qualname__ if kind.__module__ == "builtins" else _whole_name(kind))
    span.record_exception(fault)
    span.set_status(trace.StatusCode.ERROR, f"{kind.__qualname__}: {fault}")


def _whole_name(kind: type[BaseException]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _context_of(job: Job) -> context.Context:
    """The context in the job's headers. Damaged headers, or a propagator that fails, lose the link only."""
    try:
        return propagate.extract(job.headers, context.Context())
    except Exception:  # noqa: BLE001  # a trace must not fail a job
        return context.Context()


def _attributes(job: Job) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {
        "messaging.message.id": job.id,
        "tarry.job.attempt": job.attempt,
        "tarry.job.lateness_ms": job.lateness.total_seconds() * 1000,
    }
    task = _task_of(job)
    if task is not None:
        found["tarry.task"] = task
    return found


def _messaging(topic: str) -> dict[str, AttributeValue]:
    return {
        "messaging.system": "tarry",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": topic,
    }


def _task_of(job: Job) -> str | None:
    """The name of the job's task; ``None`` for a body that is no task's."""
    try:
        return parse_envelope(job).task
    except BodyError:
        return None
