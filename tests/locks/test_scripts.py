"""The scripts of locks and guarded queues: declarations, a full memory, foreign keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import tarry
from scripts.bound_scripts import keys_used, names_in, scripts_of
from tarry.connections.embedded.server_process import ServerProcess
from tarry.errors import ServerUnfit, Unavailable
from tarry.values.keys import GUARDED_PARTS, LOCK_PARTS
from tarry.verbs.guarded import guarded_scripts
from tarry.verbs.locks import lock_scripts

BOUND = scripts_of(lock_scripts, guarded_scripts)
PARTS = {"locks": LOCK_PARTS, "guarded": GUARDED_PARTS}
NAMES = names_in(*PARTS)


def test_every_script_has_a_verb() -> None:
    assert sorted(BOUND) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_script_uses_declared_keys_only_and_keeps_large_numbers_exact(name: str) -> None:
    text = BOUND[name].source.decode()
    parts = PARTS[name.partition("/")[0]]
    assert f"local {', '.join(parts)} = unpack(KEYS)" in text
    for command, key in keys_used(BOUND[name]):
        assert key in parts, f"{command} {key}"
    assert "tostring" not in text
    assert not re.search(r"\.\. *(now|due|mine)\b", text)


def test_locks_can_be_released_when_memory_is_full(own_server: Callable[..., ServerProcess], name: str) -> None:
    server = own_server()
    with tarry.Client(server.url, patience=0.1) as client:
        grant = client.lock(name).acquire()
        assert grant is not None
        queue = client.guarded_queue("orders")
        queue.push([("a", 0), ("b", 0)])
        server.ask("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(Unavailable, match="memory is full"):
            client.lock("another").acquire(wait=0)
        with pytest.raises(Unavailable, match="memory is full"):
            queue.push([("c", 0)])
        assert [item.value for item in queue.poll_many(5)] == ["a", "b"]
        grant.check()
        grant.release()
        server.ask("CONFIG", "SET", "maxmemory", "0")
        with client.lock(name, wait=0), client.lock("another", wait=0):
            pass


def test_a_key_of_another_type_is_left_alone(valkey_url: str, server: Any, name: str) -> None:
    server.set(name, "precious")
    with tarry.Client(valkey_url, patience=0.1) as client:
        with pytest.raises(ServerUnfit, match="WRONGTYPE"):
            client.lock(name, shared=True).acquire()
        for verb in ("state", "force_release"):
            with pytest.raises(tarry.BadInput, match="something else has this name"):
                getattr(client.lock(name, shared=True), verb)()
    assert server.get(name) == b"precious"


def test_an_invalid_guarded_queue_name_is_refused(valkey_url: str) -> None:
    with tarry.Client(valkey_url) as client:
        for layout in ("tarry", "java"):
            with pytest.raises(tarry.BadInput, match="queue"):
                client.guarded_queue("a{b", layout=layout)
