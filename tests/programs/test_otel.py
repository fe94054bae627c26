"""Spans of attempts, with OpenTelemetry's own SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import baggage, context, propagate, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import tarry
from tarry import otel
from tarry.testing import TestAsyncClock, TestClient, TestClock


class Traced:
    """A provider and what it exported."""

    def __init__(self) -> None:
        self.provider = TracerProvider(shutdown_on_exit=False)
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("tests")

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def traced() -> Iterator[Traced]:
    made = Traced()
    yield made
    made.provider.shutdown()


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@pytest.mark.parametrize("plain", [False, True], ids=["async", "thread"])
def test_each_attempt_is_a_span_linked_to_the_adding_span(traced: Traced, tarry_clock: TestClock, plain: bool) -> None:
    worker = tarry.Worker("shop")
    otel.instrument(worker, tracer_provider=traced.provider)
    inside: list[trace.SpanContext] = []

    def handle(number: int) -> None:
        inside.append(trace.get_current_span().get_span_context())
        if len(inside) == 1:
            raise ConnectionError("no answer")

    async def awaited(number: int) -> None:
        handle(number)

    task: Any = worker.task(name="close")(handle if plain else awaited)
    tarry_clock.attach(worker)
    with traced.tracer.start_as_current_span("POST /orders") as request:
        added = task.options(delay="30m", headers={"tenant": "7"}).add(7)
    tarry_clock.advance("1h")

    first, second = traced.spans("process shop")
    assert [span.context for span in (first, second)] == inside, "it is the current one inside of the handler"
    assert first.context is not None
    assert second.context is not None
    assert len({first.context.trace_id, second.context.trace_id, request.get_span_context().trace_id}) == 3
    for attempt, span in enumerate((first, second), 1):
        assert span.kind is trace.SpanKind.CONSUMER
        assert span.parent is None
        assert [link.context.span_id for link in span.links] == [request.get_span_context().span_id]
        attributes = attributes_of(span)
        assert attributes.pop("tarry.job.lateness_ms") >= 0
        assert attributes == {
            "messaging.system": "tarry",
            "messaging.operation.type": "process",
            "messaging.operation.name": "process",
            "messaging.destination.name": "shop",
            "messaging.message.id": added.id,
            "tarry.task": "close",
            "tarry.job.attempt": attempt,
            "tarry.job.outcome": ("retried", "finished")[attempt - 1],
            **({"error.type": "ConnectionError"} if attempt == 1 else {}),
        }
    assert first.status.status_code is trace.StatusCode.ERROR
    assert first.status.description == "ConnectionError: no answer"
    [event] = first.events
    assert event.attributes is not None
    assert event.attributes["exception.message"] == "no answer"
    assert (second.status.status_code, second.events) == (trace.StatusCode.UNSET, ())


@pytest.mark.parametrize(
    ("raised", "outcome", "error"),
    [
        (tarry.Snooze("1h"), "snoozed", None),
        (tarry.Pause("1h"), "paused", None),
        (tarry.Retry("busy"), "retried", "tarry.worker.verdicts.Retry"),
        (tarry.Bury("no such user"), "dead", "tarry.worker.verdicts.Bury"),
        (ValueError("the last attempt"), "dead", "ValueError"),
    ],
    ids=repr,
)
def test_a_span_records_the_outcome_of_its_job(
    traced: Traced, tarry_clock: TestClock, tarry_client: TestClient, raised: Exception, outcome: str, error: str | None
) -> None:
    worker = tarry.Worker("shop")
    otel.instrument(worker, tracer_provider=traced.provider)

    @worker.on("n", max_attempts=1 if isinstance(raised, ValueError) else None)
    async def handle(body: str) -> None:
        raise raised

    tarry_clock.attach(worker)
    tarry_client.topic("n").add("a secret")
    tarry_clock.advance(0)
    [span] = traced.spans("process n")
    assert (attributes_of(span)["tarry.job.outcome"], attributes_of(span).get("error.type")) == (outcome, error)
    assert len(span.events) == (error is not None)
    assert span.links == ()
    assert "a secret" not in span.to_json()


def test_a_job_given_back_at_shutdown_records_no_error(
    traced: Traced, tarry_async_clock: TestAsyncClock, tarry_client: TestClient
) -> None:
    worker = tarry.Worker("shop", grace=0)
    otel.instrument(worker, tracer_provider=traced.provider)

    @worker.on("n")
    async def handle(job: Any) -> None:
        worker.stop()
        await asyncio.Event().wait()

    tarry_async_clock.attach(worker)
    tarry_client.topic("n").add("x")
    assert asyncio.run(worker.run(signals=False)) == 1
    [span] = traced.spans("process n")
    assert attributes_of(span)["tarry.job.outcome"] == "released"
    assert span.status.status_code is trace.StatusCode.UNSET


@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize(
    ("raised", "outcome", "failed"),
    [
        (None, "finished", None),
        ({}, "finished", 0),
        ({2: "no answer"}, "failed", 1),
        (ValueError("all"), "failed", None),
        (tarry.Snooze("1h"), "snoozed", None),
        (tarry.Pause("1h"), "paused", None),
    ],
    ids=repr,
)
def test_a_batch_is_one_span_linked_to_all_that_added_its_jobs(
    traced: Traced,
    tarry_clock: TestClock,
    tarry_client: TestClient,
    kind: str,
    raised: Any,
    outcome: str,
    failed: int | None,
) -> None:
    worker = tarry.Worker("shop")
    otel.instrument(worker, tracer_provider=traced.provider)

    def handle(jobs: list[Any]) -> None:
        assert trace.get_current_span().is_recording()
        if isinstance(raised, dict):
            raise tarry.Failed({job: raised[job.body] for job in jobs if job.body in raised})
        if raised is not None:
            raise raised

    async def awaited(jobs: list[Any]) -> None:
        handle(jobs)

    worker.on("n", batch=10)(awaited if kind == "async" else handle)
    tarry_clock.attach(worker)
    for n in (1, 2):
        with traced.tracer.start_as_current_span("web"):
            tarry_client.topic("n").add(n, headers=otel.headers())
    tarry_client.topic("n").add(3)
    tarry_clock.advance(0)
    [span] = traced.spans("process n")
    found = attributes_of(span)
    assert (found["tarry.batch.outcome"], found.get("tarry.batch.failed")) == (outcome, failed)
    assert found["messaging.batch.message_count"] == 3
    added = [web.context.span_id for web in traced.spans("web") if web.context is not None]
    assert [link.context.span_id for link in span.links] == added
    assert len(added) == 2
    assert span.parent is None
    assert (found.get("error.type"), len(span.events)) == (
        ("ValueError", 1) if outcome == "failed" and not failed else (None, 0)
    )


def test_context_propagates_through_jobs_tasks_and_batches(
    traced: Traced, tarry_clock: TestClock, tarry_client: TestClient
) -> None:
    worker, mail = tarry.Worker("shop"), tarry.Registry()
    seen: list[object] = []

    @mail.task
    async def send(n: int) -> None:
        seen.append(baggage.get_baggage("tenant"))

    @worker.on("n")
    async def handle(job: Any) -> None:
        seen.append(baggage.get_baggage("tenant"))

    worker.include(mail)
    for _ in range(2):  # twice is once
        otel.instrument(worker, tracer_provider=traced.provider)
    tarry_clock.attach(worker)
    token = context.attach(baggage.set_baggage("tenant", "seven"))
    with traced.tracer.start_as_current_span("adding") as adding:
        tarry_client.topic("n").add("x", headers=otel.headers({"mine": "1"}))
        asyncio.run(send.add_async(1))
        tarry_client.topic("shop").add_many([send.new_job(n) for n in range(2)])
    context.detach(token)
    tarry_clock.advance(0)
    spans = traced.spans("process n") + traced.spans("process shop")
    assert [[link.context.span_id for link in span.links] for span in spans] == [
        [adding.get_span_context().span_id]
    ] * 4
    assert seen == ["seven"] * 4
    assert baggage.get_baggage("tenant") is None


def test_the_span_of_the_application_is_not_the_parent(traced: Traced, tarry_client: TestClient) -> None:
    """A worker beside an application may be started inside of a span."""
    worker = tarry.Worker("shop", client=tarry_client)
    otel.instrument(worker, tracer_provider=traced.provider)

    async def main() -> None:
        done = asyncio.Event()

        @worker.on("n")
        async def handle(job: Any) -> None:
            done.set()

        with traced.tracer.start_as_current_span("start-up"):
            async with worker:
                await done.wait()

    tarry_client.topic("n").add("x")
    asyncio.run(main())
    [span] = traced.spans("process n")
    assert span.parent is None


@pytest.mark.parametrize("text", ["", "00-zz-zz-01", "x" * 2500, "00-" + "0" * 32 + "-" + "0" * 16 + "-01"])
def test_invalid_trace_context_creates_no_link(
    traced: Traced, tarry_clock: TestClock, tarry_client: TestClient, text: str
) -> None:
    worker = tarry.Worker("shop")
    otel.instrument(worker, tracer_provider=traced.provider)
    worker.on("n")(id)
    tarry_clock.attach(worker)
    tarry_client.topic("n").add("x", headers={"traceparent": text, "tracestate": text, "baggage": text})
    tarry_clock.advance(0)
    [span] = traced.spans("process n")
    assert span.links == ()


def test_oversized_baggage_is_left_out(traced: Traced) -> None:
    token = context.attach(baggage.set_baggage("tenant", "x" * 4000))
    with traced.tracer.start_as_current_span("adding"):
        found = otel.headers()
    context.detach(token)
    assert list(found) == ["traceparent"]
    assert trace.get_current_span(propagate.extract(found)).get_span_context().is_valid


def test_stamps_of_inner_registries_override_outer_ones() -> None:
    worker, part = tarry.Worker("shop"), tarry.Registry()
    worker.include(part)
    worker.stamp(lambda: {"who": "worker", "where": "here"})
    part.stamp(lambda: {"who": "part"})
    assert part.registered.stamped_headers({"own": "1"}) == {"who": "part", "where": "here", "own": "1"}
    assert part.registered.stamped_headers({"who": "me"}) == {"who": "me", "where": "here"}
    assert tarry.Registry().registered.stamped_headers(None) is None
    with pytest.raises(tarry.BadInput, match="not callable"):
        worker.stamp({"who": "me"})  # type: ignore[arg-type]
