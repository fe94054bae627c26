"""The vectors of the contract hold, are those of the table, reach every line, and find planted faults by themselves."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

import pytest

import contract
import servers
from vectors import calls, sources
from vectors.calls import Server, Vector
from vectors.cases import CASES
from vectors.planted import FAULTS, Fault
from walked import cases

NEAR = 2
"""Marks."""
SCRIPTS = sorted({case.call.script for case in CASES})
UNREACHED = tomllib.loads((Path(__file__).parent / "unreached.toml").read_text("utf-8"))["line"]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Its own: a vector begins on an empty one."""
    with servers.server(servers.valkey_binary()) as running, Server(running.url) as connected:
        yield connected


@cache
def of(script: str) -> list[Vector]:
    return [one for one in calls.written() if one["script"] == script]


@pytest.fixture(scope="module")
def made(server: Server) -> list[tuple[Vector, set[str]]]:
    """The vectors of the table, each with the marks that it passes: the script marks its statements in one more key. Without marks,
    test_node.py calls them."""
    vectors = [calls.made(server, case, partial(sources.assembled, text=sources.marked)) for case in CASES]
    return [(one, {*one["after"].pop(sources.HITS, {"set": ()})["set"]}) for one in vectors]


@pytest.fixture(scope="module")
def reached(made: list[tuple[Vector, set[str]]]) -> dict[tuple[str, str], set[str]]:
    """The marks by the vector's script and name."""
    return {(one["script"], one["name"]): marks for one, marks in made}


@cases("script", SCRIPTS)
def test_the_vectors_are_those_of_the_table(made: list[tuple[Vector, set[str]]], script: str) -> None:
    """So they hold, too."""
    of_table = calls.lines([one for one, _ in made if one["script"] == script])
    assert of_table == calls.lines(of(script)), "write them: `.venv/bin/python tests/vectors/write.py`"


def test_a_script_is_put_together_as_the_contract_says() -> None:
    for name, script in contract.scripts().items():
        assert sources.assembled(name).encode() == script.source


def test_the_vectors_reach_every_line_but_those_that_are_listed(reached: dict[tuple[str, str], set[str]]) -> None:
    wanted = set[str]().union(*map(sources.marks, SCRIPTS))
    missing = {(mark.partition(":")[0], line_of(mark)) for mark in wanted.difference(*reached.values())}
    listed = [(one["file"], one["text"]) for one in UNREACHED]
    assert [
        one for one in missing if not any(one[0] == file and one[1].startswith(text) for file, text in listed)
    ] == []
    assert [
        one for one in listed if not any(file == one[0] and line.startswith(one[1]) for file, line in missing)
    ] == []


def line_of(mark: str) -> str:
    return sources.text_of(mark.partition(":")[0]).splitlines()[number_of(mark) - 1].strip()


def number_of(mark: str) -> int:
    return int(mark.partition(":")[2].split()[0])


@cases("fault", FAULTS, ids=lambda fault: f"{fault.script} {fault.old[:40]}")
def test_the_vectors_notice_a_planted_fault(
    server: Server, reached: dict[tuple[str, str], set[str]], fault: Fault
) -> None:
    """Those that pass next to it are asked first."""

    def planted(file: str) -> str:
        text = sources.text_of(file)
        assert file != fault.file or fault.old in text
        return text.replace(fault.old, fault.new) if file == fault.file else text

    place = sources.text_of(fault.file).partition(fault.old)[0].count("\n") + 1
    marks = sorted(
        (one for one in sources.marks(fault.script) if one.partition(":")[0] == fault.file),
        key=lambda mark: abs(number_of(mark) - place),
    )[:NEAR]
    vectors = sorted(of(fault.script), key=lambda one: -len(reached[fault.script, one["name"]].intersection(marks)))
    assemble = partial(sources.assembled, text=planted)
    assert next(calls.faults(server, vectors, assemble), None) is not None


def test_every_script_has_vectors_and_planted_faults() -> None:
    assert SCRIPTS == sorted(contract.scripts()) == sorted({fault.script for fault in FAULTS})


def test_a_vector_is_on_an_empty_and_on_a_prepared_server() -> None:
    for script in SCRIPTS:
        assert {bool(one["before"]) for one in of(script)} == {True, False}
        names = [one["name"] for one in of(script)]
        assert len(names) == len(set(names))


@cases("script", SCRIPTS)
def test_the_contract_has_the_errors_and_the_changed_keys(script: str) -> None:
    source = contract.scripts()[script].source.decode()
    errors = {"WRONGTYPE", *(said.split()[0] for said in contract.errors(source))}
    keys = contract.writes(source)
    for vector in of(script):
        if isinstance(vector["reply"], dict):
            assert vector["reply"]["error"].split()[0] in errors, vector["name"]
        before, after = vector["before"], vector["after"]
        changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        parts = {key.rpartition("}:")[2] for key in changed & set(vector["keys"])}
        assert parts <= keys.keys() or "a key" in keys, vector["name"]
