"""``tarry map-cache``, as processes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import tarry

Cli = Callable[..., subprocess.CompletedProcess[str]]
Answers = Callable[..., list[Any]]


def test_an_entry_goes_through_its_life_on_the_command_line(
    answers: Answers, cli: Cli, namespace: str, client: tarry.Client
) -> None:
    name = f"cli-{namespace}"
    java = ("--codec", "json")
    assert answers("map-cache", "put", name, "tea", '{"kind": "green"}', "--ttl", "1h", *java) == [
        {"key": "tea", "was": None}
    ]
    [found] = answers("map-cache", "get", name, "tea", *java)
    assert (found["key"], found["value"]) == ("tea", {"kind": "green"})
    assert 3_500_000 < found["ttl_ms"] <= 3_600_000
    assert answers("map-cache", "get", name, "milk", *java) == [None]
    assert answers("map-cache", "put", name, "tea", '"black"', "--if-absent", *java) == [
        {"key": "tea", "was": {"kind": "green"}}
    ]
    assert answers("map-cache", "list", name, *java) == [{"key": "tea", "value": {"kind": "green"}}]
    [size] = answers("map-cache", "stats", name)
    assert (size["size"], size["expired"], size["max_size"], size["evictors"]) == (1, 0, None, 0)
    shared = client.map_cache(name, codec="json", policy=None)
    assert shared.get("tea") == {"kind": "green"}
    shared.put("gone", 1, ttl="1ms")
    while shared.contains_key("gone"):
        pass
    assert answers("map-cache", "evict", name) == [{"map": name, "evicted": 1}]
    assert answers("map-cache", "delete", name, "tea", "milk", *java) == [{"map": name, "deleted": 1}]
    assert answers("map-cache", "clear", name) == [{"map": name, "cleared": False}]


def test_map_commands_print_readable_output(cli: Cli, namespace: str) -> None:
    name = f"words-{namespace}"
    put = cli("map-cache", "put", name, "7", "seven", "--raw", "--json-key", "--max-idle", "10m")
    assert (put.returncode, put.stdout) == (0, "7  there was none\n")
    cli("map-cache", "put", name, "8", "8")
    listed = cli("map-cache", "list", name, "--limit", "1")
    assert listed.stdout in ('7  "seven"\n', '"8"  8\n')
    assert listed.stderr == "1 of 2 entries; --limit 2 shows all\n"
    size = cli("map-cache", "stats", name).stdout
    assert size.startswith(f"{name}  size 2  expired 0  evictors 0  next in 9m 5")
    refused = cli("map-cache", "put", name, "a", "null")
    assert refused.returncode == 2
    assert "cannot contain null" in refused.stderr
    native = cli("map-cache", "put", f"n-{name}", "a", "1", "--ttl", "1h", "--backend", "native")
    assert native.returncode == 0, native.stderr
    assert cli("map-cache", "stats", f"n-{name}", "--backend", "native").stdout == f"n-{name}  size 1\n"
    assert cli("map-cache", "stats", f"n-{name}", "--backend", "redisson-native").stdout == f"n-{name}  size 0\n"
    assert cli("map-cache", "clear", f"n-{name}").stdout == f"n-{name}  was empty\n"
    assert cli("map-cache", "clear", f"n-{name}", "--backend", "native").stdout == f"n-{name}  cleared\n"
