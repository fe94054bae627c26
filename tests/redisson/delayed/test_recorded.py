"""After our verbs the keys hold what they held after Redisson's, byte for byte: all recorded offers and transfers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from redisson.recorded import is_what, raw, rows
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


@pytest.fixture(autouse=True)
def clean(server: redis.Redis) -> Iterator[None]:
    yield
    for name in ("vec:dq", "vec:{tag}:dq"):
        server.delete(*keys_of(name))


def name_of(row: dict[str, Any]) -> str:
    return f"{row['version']} {row['codec']} {str(row.get('spec', ''))[:20]}"


@pytest.mark.parametrize("row", rows("offers"), ids=name_of)
def test_an_offer_writes_and_publishes_what_java_wrote(row: dict[str, Any], client: TestClient, server: Any) -> None:
    due, delay = int(row["timeout_argv"]), row["delay_ms"]
    client.clock.advance(f"{due - delay}ms")
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


@pytest.mark.parametrize("row", rows("transfers"), ids=name_of)
def test_a_transfer_leaves_the_keys_that_java_left(row: dict[str, Any], client: TestClient, server: Any) -> None:
    (script,) = row["scripts"]
    ready, timeouts, order = script["keys"]
    now = int(script["argv"][0])
    (element,) = [raw(words[3]) for words in row["inner"] if words[0] == "lrem"]
    scores = [int(words[2]) for words in row["inner"] if words[0] == "zadd"]
    server.zadd(timeouts, {element: scores[0] if scores else now})
    server.rpush(order, element)
    client.clock.advance(f"{now}ms")
    done = client.engine.run(transfer.transfer(keys_of(ready)))
    assert (done.moved, done.poison, done.left) == (1, 0, 0)
    after = {key: server.lrange(key, 0, -1) for key in (ready, order) if server.exists(key)}
    assert after == {key: [raw(cell) for cell in kept["elements"]] for key, kept in row["keys_after"].items()}
    assert not server.exists(timeouts)
