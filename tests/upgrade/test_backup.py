"""Backup and restore of a server of one's own, as docs/how-to/operate.md says it: by its RDB file, and by its append-only folder."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import servers
import tarry
from constellations import until
from tarry.links.embedded.launch import Running

pytestmark = pytest.mark.slow


@pytest.fixture(params=["valkey", pytest.param("redis7", marks=pytest.mark.otherserver)])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Starts a server whose data lie in a folder."""
    binary = servers.valkey_binary() if request.param == "valkey" else servers.redis7_binary(tmp_path)
    with ExitStack() as stack:

        def at(folder: Path, **options: str) -> Running:
            folder.mkdir(exist_ok=True)
            named = [word for name, value in options.items() for word in (f"--{name}", value)]
            return stack.enter_context(servers.server(binary, options=("--dir", str(folder), *named)))

        yield at


def fill(client: tarry.Client) -> Any:
    """A topic with a job in every state, and a schedule. Answers the one that is in hand."""
    topic = client.topic("orders")
    topic.add_many(range(100), delay="1d")
    topic.add("no use", id="dead")
    topic.add("in hand", id="held")
    held = {job.id: job for job in topic.pop_many(2, ttr="1h")}
    topic.bury(held["dead"], "no use")
    client.schedules.put("orders", "report", {"kind": "daily"}, every="1h")
    return held["held"]


def add_all_the_time(client: tarry.Client, stop: threading.Event) -> None:
    n = 0
    while not stop.is_set():
        client.topic("orders").add(n, id=f"busy-{n}", delay="1d")
        n += 1


def back_up_rdb(running: Running, folder: Path, backup: Path) -> None:
    assert running.ask("BGSAVE") == b"Background saving started"
    until("a saved file", lambda: b"rdb_bgsave_in_progress:0" in running.ask("INFO", "persistence"))  # type: ignore[operator]
    backup.mkdir()
    shutil.copy(folder / "dump.rdb", backup)


def back_up_aof(running: Running, folder: Path, backup: Path) -> None:
    running.ask("CONFIG", "SET", "auto-aof-rewrite-percentage", "0")
    until("no rewriting", lambda: b"aof_rewrite_in_progress:0" in running.ask("INFO", "persistence"))  # type: ignore[operator]
    shutil.copytree(folder / "appendonlydir", backup / "appendonlydir")
    running.ask("CONFIG", "SET", "auto-aof-rewrite-percentage", "100")


WAYS = {
    "RDB": (back_up_rdb, {"appendonly": "no"}),
    "AOF": (back_up_aof, {"appendonly": "yes"}),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_of_a_busy_server_is_whole(start: Any, tmp_path: Path, way: str) -> None:
    back_up, options = WAYS[way]
    first, stop = start(tmp_path / "data", **options), threading.Event()
    with tarry.Client(first.url) as client:
        held = fill(client)
        busy = threading.Thread(target=add_all_the_time, args=(client, stop))
        busy.start()
        try:
            until("a busy server", lambda: client.topic("orders").stats().delayed > 200)
            before = {job.id for job in client.topic("orders").list(limit=1000)}
            back_up(first, tmp_path / "data", tmp_path / "backup")
        finally:
            stop.set()
            busy.join()
        client.topic("orders").add("after the backup", id="later", delay="1d")
    first.stop()

    restored = start(tmp_path / "backup", **options)
    with tarry.Client(restored.url) as client:
        topic = client.topic("orders")
        found = topic.check()
        assert found.ok, found.faults
        assert before <= {job.id for job in _all(topic)}
        assert topic.get("later") is None
        assert (topic.stats().reserved, topic.stats().dead) == (1, 1)
        assert [one.id for one in client.schedules.list("orders")] == ["report"]
        topic.finish(held)  # whoever has it in hand, and is still there
        topic.add("new", id="new")
        job = topic.pop()
        assert job is not None
        assert (job.id, job.receipt > held.receipt) == ("new", True)


def test_an_rdb_file_alone_is_read_by_a_server_without_an_append_only_file(start: Any, tmp_path: Path) -> None:
    """With one, the server begins empty: so it is switched on afterwards."""
    first = start(tmp_path / "data", appendonly="no")
    with tarry.Client(first.url) as client:
        fill(client)
        back_up_rdb(first, tmp_path / "data", tmp_path / "backup")
    shutil.copytree(tmp_path / "backup", tmp_path / "trap")
    with tarry.Client(start(tmp_path / "trap", appendonly="yes").url) as client:
        assert client.topic("orders").stats().delayed == 0
    restored = start(tmp_path / "backup", appendonly="no")
    with tarry.Client(restored.url) as client:
        assert client.topic("orders").stats().delayed == 100
        assert restored.ask("CONFIG", "SET", "appendonly", "yes") == b"OK"
        until("a first append-only file", lambda: b"aof_rewrite_in_progress:0" in restored.ask("INFO", "persistence"))  # type: ignore[operator]
    restored.stop()
    with tarry.Client(start(tmp_path / "backup", appendonly="yes").url) as client:
        assert client.topic("orders").stats().delayed == 100


def _all(topic: Any) -> Iterator[Any]:
    cursor = None
    while True:
        page = topic.list(limit=1000, cursor=cursor)
        yield from page
        cursor = page.cursor
        if cursor is None:
            return
