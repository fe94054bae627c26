"""Java up to 3.21.0 destroys elements of the new format, later ones those of the old: which one a queue has is known, or nothing
is offered."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import tarry
from tarry.clients.testing import TestClient
from tarry.errors import BadInput
from tarry.verbs.redisson.delayed import offers
from tarry.verbs.redisson.delayed.queue_context import keys_of
from tarry.verbs.redisson.elements import Element, Format, format_of, pack, unpack

NEW, OLD = Format.NEW, Format.OLD
OTHER = {NEW: OLD, OLD: NEW}
BOTH = pytest.mark.parametrize("format", list(Format))


@pytest.fixture(autouse=True)
def nobody_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TARRY_REDISSON")


class Java:
    """What an application in Java does to the queue, byte by byte."""

    def __init__(self, server: Any, name: str, clock: Any) -> None:
        self.server, self.keys, self.clock = server, keys_of(name), clock
        self.n = 0

    def offer(self, format: Format, delay: float = 1) -> bytes:
        self.n += 1
        element = pack(b"theirs", self.n.to_bytes(8, "big"), format)
        self.server.zadd(self.keys.timeouts, {element: (self.clock.us + int(delay * 1e6)) // 1000})
        self.server.rpush(self.keys.order, element)
        return element

    def take_all(self) -> None:
        self.server.delete(self.keys.order, self.keys.timeouts, self.keys.ready)

    def last(self) -> Format:
        found = unpack(self.server.lindex(self.keys.order, -1))
        assert isinstance(found, Element)
        return found.format

    def remembered(self) -> bytes | None:
        found: bytes | None = self.server.get(self.keys.format)
        return found


@pytest.fixture
def java(server: Any, name: str, clock: Any) -> Java:
    return Java(server, name, clock)


@pytest.fixture
def silent(nobody_says_it: None, queues: Any, name: str) -> Any:
    """A queue of a client that says no format."""
    return queues.delayed(name, codec="string")


@pytest.fixture
def queue_in_format(queues: Any, name: str) -> Callable[[str], Any]:
    return lambda word: queues.delayed(name, codec="string", format=word)


async def refused(queue: Any, *words: str) -> None:
    """Nothing is offered, in words."""
    size = await queue.size()
    for offer in (lambda: queue.offer("tea", 1), lambda: queue.offer_many(["tea", "milk"], 1)):
        with pytest.raises(BadInput, match=r"^format: ") as told:
            await offer()
        for word in words:
            assert word in str(told.value)
    assert await queue.size() == size


# ── what nobody knows is not guessed ─────────────────────────────────────────────────────────────────────────────────


async def test_a_first_offer_without_a_format_is_refused_and_names_both(silent: Any, java: Java, name: str) -> None:
    await refused(
        silent, name, '"dLc0"', '"Bc0Lc0"', '"tarry"', "3.21.0", "3.21.1", "TARRY_REDISSON", 'redisson="3.15.1"'
    )
    assert java.remembered() is None


@BOTH
async def test_an_empty_queue_keeps_its_format(silent: Any, queue_in_format: Any, java: Java, format: Format) -> None:
    """This is its usual state."""
    await queue_in_format(format).offer("one", 1)
    assert await silent.poll() == "one"
    assert await silent.size() == 0
    await silent.offer("two", 60)
    assert java.last() == format


@BOTH
async def test_one_peek_remembers_the_format_that_java_uses(silent: Any, java: Java, format: Format) -> None:
    java.offer(format)
    assert await silent.peek() == "theirs"
    java.take_all()
    await silent.offer("ours", 1)
    assert java.last() == format


@pytest.mark.parametrize("reads", ["move", "poll", "peek", "read_all", "contains", "pass_on"])
@BOTH
async def test_every_read_remembers_the_format(
    silent: Any, queues: Any, java: Java, name: str, clock: Any, format: Format, reads: str
) -> None:
    java.offer(format)
    clock.advance(2)
    does = {
        "move": lambda: queues.blocking(name, codec="string").poll(),
        "poll": silent.poll,
        "peek": silent.peek,
        "read_all": silent.read_all,
        "contains": lambda: silent.contains("theirs"),
        "pass_on": lambda: silent.poll_last_and_offer_first_to(f"other {name}"),
    }
    await does[reads]()
    java.take_all()
    assert (await silent.stats()).format == format
    await silent.offer("ours", 1)
    assert java.last() == format


@pytest.mark.parametrize("reads", ["move", "poll", "peek", "read_all", "contains", "pass_on"])
@BOTH
async def test_what_reading_has_learnt_is_logged_once(
    silent: Any, queues: Any, java: Java, name: str, clock: Any, format: Format, reads: str, caplog: Any
) -> None:
    ready = queues.blocking(name, codec="string")
    does = {
        "move": ready.poll,
        "poll": silent.poll,
        "peek": silent.peek,
        "read_all": silent.read_all,
        "contains": lambda: silent.contains("theirs"),
        "pass_on": lambda: silent.poll_last_and_offer_first_to(f"other {name}"),
    }
    with caplog.at_level(logging.INFO, "tarry"):
        for _ in range(3):
            java.offer(format)
            clock.advance(2)
            await does[reads]()
            await silent.peek()
    learnt = [record.getMessage() for record in caplog.records if "learnt" in record.getMessage()]
    (line,) = learnt
    assert line.startswith(f"queue {name}: ")
    assert format in line
    assert ('redisson="3.15.1"' if format == OLD else 'redisson="4.7.0"') in line


@BOTH
async def test_nothing_is_learnt_from_a_queue_whose_format_was_said(
    queue_in_format: Any, silent: Any, format: Format, caplog: Any
) -> None:
    with caplog.at_level(logging.INFO, "tarry"):
        await queue_in_format(format).offer("one", 1)
        assert await silent.poll() == "one"
    assert "learnt" not in caplog.text


@BOTH
async def test_writes_use_the_format_of_the_last_element(silent: Any, java: Java, format: Format) -> None:
    java.offer(OTHER[format])
    java.offer(format)
    await silent.offer_many(["a", "b"], 1)
    assert java.last() == format
    java.offer(OTHER[format])
    await silent.offer("c", 1)
    assert java.last() == OTHER[format]


async def test_an_unreadable_last_element_does_not_hide_the_format(silent: Any, java: Java, server: Any) -> None:
    java.offer(OLD)
    server.rpush(java.keys.order, b"short")
    await silent.offer("ours", 1)
    assert java.last() == OLD


@BOTH
async def test_elements_with_one_due_time_keep_their_order_in_either_format(
    silent: Any, queues: Any, java: Java, name: str, clock: Any, format: Format
) -> None:
    java.offer(format)
    java.server.delete(java.keys.timeouts)
    words = [f"{i:03}" for i in range(300)]
    await silent.offer_many(words, 5)
    clock.advance(9)
    assert await queues.blocking(name, codec="string").poll_many(1000) == words


# ── saying it ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("word", "format"),
    [
        ("dLc0", OLD), ("3.8.1", OLD), ("3.16", OLD), ("3.21.0", OLD), ("2", OLD),
        ("Bc0Lc0", NEW), ("3.21.1", NEW), ("3.22", NEW), ("3.52.0", NEW), ("4", NEW), ("4.7.0", NEW), ("tarry", NEW),
    ],
)  # fmt: skip
async def test_the_format_can_be_chosen(
    queue_in_format: Any, silent: Any, java: Java, word: str, format: Format
) -> None:
    await queue_in_format(word).offer("one", 1)
    assert (java.last(), java.remembered()) == (format, f"{format} said".encode())
    await queue_in_format(word).offer("two", 1)
    await silent.offer("three", 1)
    assert {len(element) for element in java.server.lrange(java.keys.order, 0, -1)} <= {
        19 + (format is NEW),
        21 + (format is NEW),
    }


@pytest.mark.parametrize(
    "word", ["", "Lc0Lc0", "3", "3.21", "bc0lc0", "v3.16", "3.16.8-SNAPSHOT", "3.16.8.1", 3.16, b"dLc0", ["dLc0"]]
)
async def test_invalid_values_are_refused(queues: Any, name: str, word: Any) -> None:
    with pytest.raises(BadInput, match=r"^format: "):
        queues.delayed(name, format=word)


def test_3_21_is_refused_as_ambiguous() -> None:
    with pytest.raises(BadInput, match=r"3\.21\.1, so give the complete version"):
        format_of("3.21")


@pytest.mark.parametrize("make", [tarry.Client, tarry.AsyncClient, tarry.HTTPClient, tarry.AsyncHTTPClient])
def test_the_format_can_be_set_for_a_client_and_for_a_process(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert make().delayed_queue("q").verbs.context.format is None
    assert make(redisson="3.16.8").delayed_queue("q").verbs.context.format is OLD
    monkeypatch.setenv("TARRY_REDISSON", "3.16.8")
    assert make().delayed_queue("q").verbs.context.format is OLD
    assert make(redisson="4.7.0").delayed_queue("q").verbs.context.format is NEW
    assert make(redisson="4.7.0").delayed_queue("q", format="dLc0").verbs.context.format is OLD
    with pytest.raises(BadInput, match=r"^redisson: "):
        make(redisson="fst")
    monkeypatch.setenv("TARRY_REDISSON", "fst")
    with pytest.raises(BadInput, match=r"^TARRY_REDISSON: "):
        make()


def test_a_worker_inherits_the_format_of_its_client() -> None:
    worker = tarry.Worker(client=tarry.Client(redisson="3.21.0"))
    for client in (worker.async_client, worker.client, *worker.inner.clients.for_run()):
        assert client.delayed_queue("q").verbs.context.format is OLD


# ── who contradicts ──────────────────────────────────────────────────────────────────────────────────────────────────


@BOTH
async def test_conflicting_formats_are_refused_before_anything_is_lost(
    queue_in_format: Any, silent: Any, java: Java, format: Format
) -> None:
    await queue_in_format(format).offer("one", 1)
    java.take_all()
    await refused(queue_in_format(OTHER[format]), str(format), "set_format")
    await silent.offer("two", 1)
    assert java.last() == format


@BOTH
async def test_a_format_found_in_the_queue_conflicts_with_the_configured_one(
    queue_in_format: Any, silent: Any, java: Java, format: Format
) -> None:
    """Java was upgraded: it cannot read what we would write, and nobody has told us."""
    await queue_in_format(format).offer("one", 1)
    java.offer(OTHER[format])
    await refused(queue_in_format(format), str(OTHER[format]), "upgraded")
    await refused(silent, str(OTHER[format]), "upgraded")


@BOTH
async def test_a_configured_format_survives_a_stray_element(
    queue_in_format: Any, silent: Any, java: Java, format: Format
) -> None:
    await queue_in_format(format).offer("one", 1)
    java.offer(OTHER[format])
    assert await silent.poll_many(5) == ["one", "theirs"]
    await silent.offer("two", 1)
    assert java.last() == format


@BOTH
async def test_a_configured_format_beats_one_that_was_only_seen(
    queue_in_format: Any, silent: Any, java: Java, format: Format
) -> None:
    java.offer(OTHER[format])
    await refused(queue_in_format(format), str(OTHER[format]))
    assert await silent.poll() == "theirs"
    await queue_in_format(format).offer("one", 1)
    assert (java.last(), java.remembered()) == (format, f"{format} said".encode())


@BOTH
async def test_set_format_overrides_whatever_is_in_the_queue(
    queue_in_format: Any, silent: Any, java: Java, format: Format
) -> None:
    await queue_in_format(OTHER[format]).offer("one", "30d")
    await silent.set_format(format)
    for queue in (silent, queue_in_format(format)):
        java.offer(OTHER[format])
        await queue.offer("two", 1)
        assert java.last() == format
    await refused(queue_in_format(OTHER[format]), str(format))
    assert (await silent.stats()).format == format


async def test_set_format_none_forgets_the_format(queue_in_format: Any, silent: Any, java: Java) -> None:
    await queue_in_format("dLc0").offer("one", 1)
    java.take_all()
    await silent.set_format(None)
    assert (await silent.stats()).format is None
    await refused(silent)
    with pytest.raises(BadInput, match=r"^format: "):
        await silent.set_format("fst")


async def test_clearing_a_queue_keeps_its_format(queue_in_format: Any, silent: Any, java: Java) -> None:
    await queue_in_format("dLc0").offer("one", 1)
    await silent.clear()
    await silent.offer("two", 1)
    assert java.last() == OLD


# ── lost answers, newer versions, other types ────────────────────────────────────────────────────────────────────────


def test_a_repeated_offer_counts_once_across_a_format_change(valkey_url: str, clock: Any, name: str) -> None:
    with TestClient(valkey_url, clock) as client:
        queue = client.delayed_queue(name, codec="string", format="dLc0")
        context = replace(queue.verbs.context, random_marks=lambda _: b"12345678", format=None)
        queue.offer("one", 1)
        first = client.engine.run(offers.offer(context, "tea", 1))
        queue.set_format("Bc0Lc0")
        assert client.engine.run(offers.offer(context, "tea", 1)) == first
        assert queue.read_all() == ["one", "tea"]


async def test_a_format_stored_by_a_newer_version_is_left_alone(
    silent: Any, queue_in_format: Any, java: Java, server: Any
) -> None:
    server.set(java.keys.format, "Zc0Zc0 seen")
    for queue in (silent, queue_in_format("dLc0")):
        with pytest.raises(tarry.ServerUnfit, match="newer version"):
            await queue.offer("tea", 1)
    java.offer(OLD)
    assert await silent.poll() == "theirs"
    assert java.remembered() == b"Zc0Zc0 seen"


async def test_a_format_key_of_another_type_does_not_stop_reads(silent: Any, java: Java, server: Any) -> None:
    server.rpush(java.keys.format, "nonsense")
    java.offer(OLD)
    assert await silent.read_all() == ["theirs"]
    assert await silent.poll() == "theirs"
    with pytest.raises(tarry.TarryError):
        await silent.offer("tea", 1)
    assert await silent.size() == 0
