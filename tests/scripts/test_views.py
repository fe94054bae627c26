"""Scripts that only look: a server lets them run where nothing may be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import servers
import tarry
from tarry.clients.testing import Clock, TestClient
from tarry.connections.embedded.server_process import ServerProcess
from tarry.core.scripts import Script
from tarry.verbs.jobs import by_key, ends, throughput, views
from tarry.verbs.jobs.end_values import Position
from tarry.verbs.redisson.delayed import stats
from tarry.verbs.redisson.mapcache import redisson_layout

VIEWS = [
    value
    for module in (by_key, ends, views, throughput, stats, redisson_layout)
    for value in vars(module).values()
    if isinstance(value, Script) and value.read_only
]


def fill(client: Any) -> None:
    """Jobs in every state, limits, an element of a queue, an entry of a map."""
    topic = client.topic("orders")
    topic.add_many(range(5), delay="1h")
    topic.add_many(["a", "b", "c"])
    topic.add("d", key="tea")
    topic.bury(topic.pop(), reason="no\nuse")
    topic.pop()
    topic.configure(rate="1/1h")
    client.delayed_queue("told").offer("x", "1h")
    client.map_cache("kept", policy=None).put("a", 1, ttl="1h", max_idle="1m")


@servers.ON_BOTH
def test_view_scripts_run_read_only(valkey_url: str, own_server: Callable[..., ServerProcess]) -> None:
    """All of them run as EVALSHA_RO; one that writes is refused by the server."""
    running = own_server()
    clock = Clock()
    with TestClient(running.url, clock) as client:
        fill(client)
        client.topic("orders").configure(keep_finished="1h")
        asked = {
            ends.ENDS.name: client.topic("orders").verbs.ends(Position(None), 10),
            views.GET.name: client.topic("orders").verbs.get([job.id for job in client.topic("orders").list()]),
            views.LIST.name: client.topic("orders").verbs.list(None, None, None, 100, None),
            views.STATS.name: client.topic("orders").verbs.stats(),
            by_key.KEY_STATS.name: client.topic("orders").verbs.key_stats("tea"),
            by_key.BUSIEST_KEYS.name: client.topic("orders").verbs.busiest_keys(10),
            views.HISTOGRAM.name: client.topic("orders").verbs.histogram(0, 3600, 10, 0),
            views.DUE_SOON.name: client.topic("orders").verbs.due_soon("2h", 10),
            throughput.THROUGHPUT.name: client.topic("orders").verbs.throughput("1d"),
            stats.STATS.name: client.delayed_queue("told").verbs.stats(),
            redisson_layout.STATS.name: client.map_cache("kept", policy=None).verbs.stats(),
        }
        assert asked.keys() == {script.name for script in VIEWS}
        before = {bytes(key): running.ask("DUMP", key.decode()) for key in running.ask("KEYS", "*")}  # type: ignore[union-attr, arg-type]
        ways = Spelled(client)
        for operation in asked.values():
            ways.run(operation)
        assert ways.names == asked.keys()
        assert before == {bytes(key): running.ask("DUMP", key.decode()) for key in running.ask("KEYS", "*")}  # type: ignore[union-attr, arg-type]
        with pytest.raises(tarry.ServerUnfit, match="Write commands are not allowed"):
            Spelled(client, views_only=False).run(client.topic("orders").verbs.pause("1m"))


class Spelled:
    """Performs calls by EVAL_RO: views only, or whatever they say of themselves."""

    def __init__(self, client: TestClient, *, views_only: bool = True) -> None:
        self._views_only = views_only
        self._runner = client.engine.runner
        self.names: set[str] = set()

    def run(self, operation: Any) -> None:
        from tarry.clients.replies import read_only_command as words
        from tarry.connections.faults import ServerRefused
        from tarry.connections.resp import raise_faults
        from tarry.core.requests import ScriptCall, flow_of

        def perform(request: Any) -> Any:
            assert isinstance(request, ScriptCall)
            if self._views_only and not request.script.read_only:
                return self._runner.perform(request)
            self.names.add(request.script.name)
            server = self._runner.server_of(request.keys[0])
            try:
                (reply,) = raise_faults(server.exchange([words(request, self._runner.clock, with_source=True)]))
            except ServerRefused as fault:
                raise fault.error from None
            return request.decode(reply)

        self._runner.run(flow_of(operation), perform)
