"""After our verbs the keys hold what they held after Redisson's, byte for byte: all recorded offers and transfers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from redisson.recorded import check_each, each_codec, is_what, raw, rows
from redisson.test_elements import format_of, mark_of, payload_of
from tarry.clients.testing import Clock, TestClient
from tarry.verbs.redisson.codecs import codec_for
from tarry.verbs.redisson.delayed import offers, transfer
from tarry.verbs.redisson.delayed.queue_context import QueueContext, keys_of
from until import LONGEST_S


@pytest.fixture
def client(valkey_url: str) -> Iterator[TestClient]:
    with TestClient(valkey_url, Clock(0)) as made:
        yield made


def start(client: TestClient, server: redis.Redis, now_ms: int) -> None:
    """Nothing on the server, and a moment in ms since 1970; the rows are in no order of time."""
    for name in ("vec:dq", "vec:{tag}:dq"):
        server.delete(*keys_of(name))
    client.clock.us = 0
    client.clock.advance_to(now_ms * 1000)


def name_of(row: dict[str, Any]) -> str:
    return f"{row['version']} {row['codec']} {str(row.get('spec', ''))[:20]}"


@each_codec(rows("offers"))
def test_an_offer_writes_and_publishes_what_java_wrote(recorded: list[Any], client: TestClient, server: Any) -> None:
    check_each(recorded, name_of, lambda row: check_offer(row, client, server))


def check_offer(row: dict[str, Any], client: TestClient, server: Any) -> None:
    due, delay = int(row["timeout_argv"]), row["delay_ms"]
    start(client, server, due - delay)
    context = QueueContext(
        row["queue"], keys_of(row["queue"]), codec_for("bytes"), format_of(row), lambda _: mark_of(row)
    )
    assert [key.decode() for key in context.keys[:4]] == [
        row["keys"][0],
        row["keys"][2],
        row["keys"][1],
        row["keys"][3],
    ]
    if not row["published"]:  # something else was the head
        server.zadd(context.keys.timeouts, {b"head": due - 1})
    with server.pubsub() as listener:
        listener.subscribe(context.keys.channel)
        listener.get_message(timeout=LONGEST_S)
        assert client.engine.run(offers.offer(context, payload_of(row), f"{delay}ms")).timestamp() == due / 1000
        server.publish(context.keys.channel, "end")
        heard = [listener.get_message(timeout=LONGEST_S)["data"] for _ in range(len(row["published"]) + 1)]
    assert heard == [raw(message["payload"]) for message in row["published"]] + [b"end"]
    (member,) = server.lrange(row["list_key"], 0, -1)
    assert is_what(member, row["member"])
    assert server.zscore(row["zset_key"], member) == float(row["score"])


@each_codec(rows("transfers"))
def test_a_transfer_leaves_the_keys_that_java_left(recorded: list[Any], client: TestClient, server: Any) -> None:
    check_each(recorded, name_of, lambda row: check_transfer(row, client, server))


def check_transfer(row: dict[str, Any], client: TestClient, server: Any) -> None:
    (script,) = row["scripts"]
    ready, timeouts, order = script["keys"]
    now = int(script["argv"][0])
    (element,) = [raw(words[3]) for words in row["inner"] if words[0] == "lrem"]
    scores = [int(words[2]) for words in row["inner"] if words[0] == "zadd"]
    start(client, server, now)
    server.zadd(timeouts, {element: scores[0] if scores else now})
    server.rpush(order, element)
    done = client.engine.run(transfer.transfer(keys_of(ready)))
    assert (done.moved, done.poison, done.left) == (1, 0, 0)
    after = {key: server.lrange(key, 0, -1) for key in (ready, order) if server.exists(key)}
    assert after == {key: [raw(cell) for cell in kept["elements"]] for key, kept in row["keys_after"].items()}
    assert not server.exists(timeouts)
