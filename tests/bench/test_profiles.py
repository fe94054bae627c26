"""The profiles count something, and the same twice."""

from __future__ import annotations

import shutil
import sys
from collections import Counter

import pytest

from bench import profiles
from bench.harness import private_server
from bench.profiles import __main__ as program
from bench.profiles import bytecodes
from bench.profiles.callgrind import CountedProcess, Counts
from bench.profiles.processes import python
from doc_pages import ROOT

needs_valgrind = pytest.mark.skipif(not shutil.which("valgrind"), reason="needs valgrind")
FEW = {
    name: (words, 4 if name.startswith(("add", "pop")) else 2, jobs)
    for name, (words, _, jobs) in program.OPERATIONS.items()
}
"""Half of what is popped is released, the other half finished."""
SUMS = """
import sys
for line in sys.stdin:
    name, times = line.split()
    sum(map(abs, range(1_000 * int(times))))
    print("done", flush=True)
"""
CALLGRIND = """
ob=(1) /usr/bin/server
fn=(1) main
10 5
cob=(2) /lib/libc.so.6
cfn=(2) malloc
calls=3 40
+2 30
cfn=(3) addCommand
calls=1 7
* 60

fn=(3)
7 50
cob=(2)
cfn=(2)
calls=1 40
-1 10

ob=(2)
fn=(2)
40 40
"""


def test_a_function_has_the_instructions_of_what_it_calls():
    counts = Counts(CALLGRIND)
    assert counts.total == 95
    assert counts.by_library == {"server": 55, "libc.so.6": 40}
    assert counts.by_function == {"main": 95, "addCommand": 60, "malloc": 40}
    assert counts.by_call["main", "addCommand"] == 60
    assert counts.calls == {"malloc": 4, "addCommand": 1}


def test_layers_are_packages_and_libraries():
    assert bytecodes.layer_of(f"{bytecodes.SOURCE}/verbs/jobs/add.py") == "tarry: verbs"
    assert bytecodes.layer_of(f"{bytecodes.SOURCE}/errors.py") == "tarry: values"
    assert bytecodes.layer_of("/x/site-packages/redis/client.py") == "redis-py"
    assert bytecodes.layer_of(str(profiles.__file__)) == bytecodes.CALLER


@pytest.mark.long
def test_bytecodes_of_a_client_are_counted_by_layer(monkeypatch):
    monkeypatch.setattr(program, "OPERATIONS", FEW)
    found = program.clients("bytecodes")
    assert found.keys() == FEW.keys()
    for name in ("add", "pop", "finish"):
        layers = found[name]
        assert isinstance(layers, Counter)
        assert {"tarry: clients", "tarry: verbs", "tarry: connections"} <= layers.keys(), name
    assert found["empty_script"]["redis-py"] > 0


@pytest.mark.long
@needs_valgrind
def test_instructions_are_counted_and_are_the_same_twice(tmp_path):
    """Of a program that needs no second to start there, as a client does."""
    counted = CountedProcess([sys.executable, "-IS", "-c", SUMS], tmp_path)
    try:
        counted.do("sum", 20)
        first, second = (counted.measure(lambda: counted.do("sum", 20)) for _ in range(2))
    finally:
        counted.stop()
    assert first.total == pytest.approx(second.total, rel=0.05)
    assert first.total > 20_000 * 20


@pytest.mark.long
@needs_valgrind
def test_instructions_of_a_client_are_the_same_twice():
    """The fewest of three: a client that waits longer for a busy server needs more."""
    with private_server() as server, python("instructions", "bench.profiles.client", server.url) as client:
        assert isinstance(client, CountedProcess)
        client.read_line()
        client.do("add_for_tomorrow", 20)
        counts = [client.measure(lambda: client.do("add_for_tomorrow", 20)).total for _ in range(6)]
    assert min(counts[::2]) == pytest.approx(min(counts[1::2]), rel=0.05)
    assert min(counts) > 20_000 * 20


@pytest.mark.long
@needs_valgrind
def test_the_whole_page_is_made(monkeypatch):
    monkeypatch.setattr(program, "OPERATIONS", FEW)
    monkeypatch.setattr(program, "TIMED", 20)
    monkeypatch.setattr(program, "BURST", 50)
    monkeypatch.setattr(program, "REQUESTS", 3)
    text = program.tables()
    assert sum(line.startswith("| --- ") for line in text.splitlines()) == 6
    for part in program.PARTS:
        row = next(line for line in text.splitlines() if line.startswith(f"| {part} "))
        assert "-" not in row.removeprefix(f"| {part} "), (
            "a part is larger than its whole: the server's functions have other names"
        )


def test_the_page_has_a_place_for_the_tables():
    text = (ROOT / "docs" / "evidence" / "performance.md").read_text("utf-8")
    assert text.index(program.BEGIN) < text.index(program.END)
