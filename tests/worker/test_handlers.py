"""The argument of a handler, by its annotation; errors at registration."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, TypedDict

import msgspec
import pytest

import tarry
from tarry.worker.threads import ThreadPool
from until import LONGEST_S


class Order(msgspec.Struct):
    number: int


class Letter(TypedDict):
    text: str


class Foreign:
    """Nothing that JSON can become."""


def worked(url: str, namespace: str, handler: Any, body: Any, **options: Any) -> tarry.JobInfo[Any] | None:
    """Handles one job; answers what is left of it."""
    worker = tarry.Worker("shop", url=url, namespace=namespace)
    worker.on("n", **options)(handler)
    with tarry.Client(url, namespace=namespace) as client:
        client.topic("n").add(body, id="7")
        asyncio.run(worker.run_until_idle())
        return client.topic("n").get("7")


def test_jobs_that_no_thread_has_begun_are_given_back() -> None:
    async def story() -> None:
        may_end, begun = threading.Event(), threading.Event()

        def call(job: str) -> None:
            begun.set()
            may_end.wait(LONGEST_S)

        pool = ThreadPool[str]("orders", 1, lambda job, fault: None)
        for busy, job in enumerate(("first", "second", "third"), 1):
            pool.run(job, call, busy)
            await asyncio.to_thread(begun.wait, 60)
        assert pool.cancel_queued() == ["second", "third"]
        may_end.set()
        pool.end()

    asyncio.run(story())


def test_each_handler_gets_what_its_annotation_names(valkey_url: str, namespace: str) -> None:
    seen: list[Any] = []

    async def job_of_anything(job) -> None:  # type: ignore[no-untyped-def]
        seen.append((type(job), job.body))

    async def job_of_orders(job: tarry.AsyncJob[Order]) -> None:
        seen.append((type(job), job.body))

    async def either(job: tarry.types.BaseJob[Order]) -> None:
        seen.append((type(job), job.body))

    async def body(order: Order, *, more: int = 0) -> None:
        seen.append(order)

    async def any_job(job: Any) -> None:
        seen.append(job.body)

    async def typed_dict(letter: Letter) -> None:
        seen.append(letter)

    def plain_job(job: tarry.Job[Order]) -> None:
        seen.append((type(job), job.body))

    def plain_body(order: Order) -> None:
        seen.append(order)

    number = {"number": 7}
    for handler, given in (
        (job_of_anything, number), (job_of_orders, number), (either, number), (body, number), (any_job, number),
        (typed_dict, {"text": "x"}), (plain_job, number), (plain_body, number), (partial(plain_body), number),
    ):  # fmt: skip
        assert worked(valkey_url, namespace, handler, given) is None, handler
    jobs = [(tarry.AsyncJob, number), (tarry.AsyncJob, Order(7)), (tarry.AsyncJob, Order(7))]
    assert seen == [*jobs, Order(7), number, {"text": "x"}, (tarry.Job, Order(7)), Order(7), Order(7)]


def test_a_sync_handler_may_use_the_verbs_of_its_job(valkey_url: str, namespace: str) -> None:
    names: list[str] = []

    def handle(job: tarry.Job[Any]) -> None:
        names.append(threading.current_thread().name)
        job.touch(ttr="1h")
        job._topic.bury(job, reason="by hand")

    job = worked(valkey_url, namespace, handle, 7)
    assert job is not None
    assert (job.state, job.reason) == ("dead", "by hand")
    assert names == ["tarry n 1"]


def test_sync_handlers_run_in_parallel_up_to_their_concurrency(valkey_url: str, namespace: str) -> None:
    together = threading.Barrier(3, timeout=LONGEST_S)
    most, running = 0, 0
    lock = threading.Lock()

    def handle(body: int) -> None:
        nonlocal most, running
        with lock:
            running += 1
            most = max(most, running)
        together.wait()
        with lock:
            running -= 1

    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)
    worker.on("n", concurrency=3)(handle)
    with tarry.Client(valkey_url, namespace=namespace) as client:
        client.topic("n").add_many(range(9))
        asyncio.run(worker.run_until_idle())
        assert (most, client.topic("n").stats().finished) == (3, 9)


def test_a_sync_handler_that_returns_a_coroutine_fails(valkey_url: str, namespace: str) -> None:
    async def real(job: Any) -> None:
        raise AssertionError

    def wrapped(job: Any) -> Any:
        return real(job)

    job = worked(valkey_url, namespace, wrapped, 7)
    assert job is not None
    assert str(job.reason).startswith("TypeError: the handler is a plain function and returned an awaitable")


async def async_generator(job: Any) -> Any:
    yield job


def generator(job: Any) -> Any:
    yield job


class CalledGenerator:
    def __call__(self, job: Any) -> Any:
        yield job


@wraps(generator)
def logged(job: Any) -> Any:
    return generator(job)


@wraps(async_generator)
async def logged_async(job: Any) -> Any:
    return async_generator(job)


LAZY: dict[str, tuple[Callable[[Any], Any], str]] = {
    "coroutine": (lambda work: work(), "awaitable"),
    "generator": (lambda work: (work() for _ in "ab"), "a generator"),
    "map": (lambda work: map(work, "ab"), "a map"),
    "async iterator": (async_generator, "an async iterator"),
}


@pytest.mark.parametrize("layers", [0, 1], ids=["alone", "with middleware"])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
@pytest.mark.parametrize("lazy", LAZY)
def test_a_handler_that_returns_unfinished_work_fails(
    valkey_url: str, namespace: str, lazy: str, is_async: bool, layers: int
) -> None:
    seen: list[str] = []
    make, said = LAZY[lazy]

    async def work(one: Any = None) -> None:
        raise AssertionError

    async def handle(job: Any) -> Any:
        return make(work)

    async def layer(job: Any, inner: Any) -> Any:
        try:
            return await inner(job)
        except TypeError:
            seen.append("failed")
            raise

    def plain_layer(job: Any, inner: Any) -> Any:
        try:
            return inner(job)
        except TypeError:
            seen.append("failed")
            raise

    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)
    worker.on("n", keep_finished="1h")(handle if is_async else lambda job: make(work))
    if layers:
        worker.around(layer if is_async else plain_layer)
    with tarry.Client(valkey_url, namespace=namespace) as client:
        client.topic("n").add(7, id="7")
        asyncio.run(worker.run_until_idle())
        job, stats = client.topic("n").get("7"), client.topic("n").stats()
    assert job is not None
    assert (job.state, job.attempts, stats.finished) == ("delayed", 1, 0)
    assert str(job.reason).startswith("TypeError: the handler ")
    assert said in str(job.reason)
    assert seen == ["failed"] * layers, "its middleware sees the failure"


@pytest.mark.parametrize(
    "function",
    [generator, async_generator, partial(generator), CalledGenerator(), logged, logged_async],
    ids=["function", "async", "partial", "object", "decorated", "decorated async"],
)
def test_a_handler_that_is_a_generator_is_refused(valkey_url: str, function: Any) -> None:
    worker, client = tarry.Worker("shop", url=valkey_url), tarry.Client(valkey_url)
    ways = [
        worker.on("n"),
        worker.task(name="n"),
        worker.on_queue("n", codec="river"),
        worker.around,
        client.blocking_queue("q", codec="river").subscribe,
        client.map_cache("m", codec="river").listen,
        lambda given: worker.on("n", max_lateness="1m", on_too_late=given),
    ]
    if hasattr(function, "__name__"):
        ways.append(worker.every("1h"))
    for way in ways:
        with pytest.raises(
            tarry.BadInput, match=r"it contains yield and so is an? (async )?generator, and a call of it runs none"
        ):
            way(function)
    with pytest.raises(tarry.BadInput, match="no handler"):
        asyncio.run(worker.run_until_idle())


def test_a_custom_codec_decodes_the_body(valkey_url: str, namespace: str) -> None:
    class Shout:
        def encode(self, body: Foreign) -> bytes:
            return type(body).__name__.encode()

        def decode(self, raw: bytes) -> Foreign:
            assert raw == b"Foreign"
            return Foreign()

    seen: list[Any] = []

    async def handle(body: Foreign) -> None:
        seen.append(body)

    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)
    worker.on("n", type=Shout())(handle)
    with tarry.Client(valkey_url, namespace=namespace) as client:
        client.topic("n", type=Shout()).add(Foreign())
        asyncio.run(worker.run_until_idle())
    assert [type(body) for body in seen] == [Foreign]


async def needs_two(a: int, b: int) -> None: ...
async def needs_none() -> None: ...
async def by_name(*, job: int) -> None: ...
async def wrong_world(job: tarry.Job[Order]) -> None: ...
async def foreign(body: Foreign) -> None: ...
async def foreign_job(job: tarry.AsyncJob[Foreign]) -> None: ...
async def unknown(job: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
async def order(order: Order) -> None: ...
async def many_jobs(jobs: list[tarry.AsyncJob]) -> None: ...  # type: ignore[type-arg]
def many_typed(jobs: Sequence[tarry.Job[Order]]) -> None: ...
async def perhaps(job: tarry.AsyncJob[Order] | None) -> None: ...
def plain_wrong_world(job: tarry.AsyncJob[Order]) -> None: ...


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        (
            needs_two,
            "takes one argument, the job or its body; for a function with arguments of its own use @worker.task",
        ),
        (needs_none, "takes one argument"),
        (by_name, "takes one argument"),
        (
            wrong_world,
            "annotated as tarry.Job, whose verbs would block the event loop; an async def takes a tarry.Async",
        ),
        (plain_wrong_world, "annotated as tarry.AsyncJob, whose verbs must be awaited; a plain function takes"),
        (foreign, "Foreign cannot be decoded from JSON"),
        (foreign_job, "Foreign cannot be decoded from JSON"),
        (unknown, "an annotation cannot be read"),
        (7, "7 is not a function"),
        (
            many_jobs,
            r"jobs is annotated as list\[.*AsyncJob\]; a handler is called with one job at a time: write tarry.AsyncJob",
        ),
        (
            many_typed,
            r"one job at a time: write tarry.Job. With @worker.on\(topic, batch=100\) .* write list\[tarry.Job\]",
        ),
        (perhaps, "one job at a time"),
    ],
)
def test_an_impossible_handler_is_refused_at_registration(valkey_url: str, handler: Any, told: str) -> None:
    with pytest.raises(tarry.BadInput, match=told):
        tarry.Worker("shop", url=valkey_url).on("n")(handler)


def test_a_type_given_twice_is_refused(valkey_url: str) -> None:
    with pytest.raises(tarry.BadInput, match="say it once"):
        tarry.Worker("shop", url=valkey_url).on("n", type=int)(order)
    tarry.Worker("shop", url=valkey_url).on("n", type=Order)(order)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": True}, "concurrency"),
        ({"weight": 0}, "weight"),
        ({"weight": "3"}, "weight"),
        ({"ttr": "soon"}, "ttr"),
        ({"timeout": 0}, "timeout"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"topic": "{}"}, "topic"),
    ],
)
def test_invalid_handler_options_are_refused(valkey_url: str, options: Any, told: str) -> None:
    worker = tarry.Worker("shop", url=valkey_url)
    with pytest.raises(tarry.BadInput, match=told):
        worker.on(**{"topic": "n", **options})


@pytest.mark.parametrize(
    ("option", "wrong"), [("warn_blocked_after", "9ms"), ("unknown_tasks_die_after", "soon"), ("grace", -1)]
)
def test_a_duration_that_is_refused_is_named(option: str, wrong: Any) -> None:
    with pytest.raises(tarry.BadInput, match=f"^{option}: "):
        tarry.Worker(**{option: wrong})


def test_a_worker_accepts_a_url_or_either_kind_of_client(valkey_url: str, namespace: str) -> None:
    options: Any
    for options in (
        {"url": valkey_url},
        {"client": tarry.Client(valkey_url)},
        {"client": tarry.AsyncClient(valkey_url)},
    ):
        worker = tarry.Worker(**options)
        assert worker.async_client.namespace == worker.client.namespace == "default"
        assert worker.async_client.engine.config.address.url == worker.client.engine.config.address.url == valkey_url
    with tarry.Client(valkey_url, namespace=namespace) as mine:
        assert tarry.Worker("shop", client=mine).async_client.namespace == namespace
