"""A script declares its keys and arguments; its verb must agree, or tarry does not import."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import pytest

from scripts.bound_scripts import keys_used, names_in, scripts_of
from tarry.connections.embedded.server_process import ServerProcess
from tarry.core.scripts import Script
from tarry.values.keys import (
    CANCELLING_PARTS,
    COUNTING_PARTS,
    DELETING_PARTS,
    DEPARTING_PARTS,
    FINISHING_PARTS,
    GETTING_PARTS,
    KEY_PARTS,
    LATER_PARTS,
    LISTING_PARTS,
    ONCE_PARTS,
    POPPING_PARTS,
    PURGING_PARTS,
    RETRYING_PARTS,
    SOON_PARTS,
    TOPIC_PARTS,
    TOUCHING_PARTS,
    WAITING_PARTS,
)
from tarry.verbs.jobs import (
    add,
    by_id,
    by_key,
    ends,
    holders,
    pop,
    settings,
    settle,
    steps,
    throughput,
    topic_context,
    views,
)
from walked import cases

BOUND = scripts_of(add, topic_context, pop, settle, holders, by_id, by_key, ends, views, settings, steps, throughput)
NAMES = names_in("topic")
EVERY = cases("name", NAMES)
OF_SEVERAL_TOPICS = "topic/look"


def test_every_script_has_a_verb() -> None:
    assert sorted(BOUND) == NAMES


@cases(
    ("name", "args", "item", "what"),
    [
        ("topic/touch", (), ("id", "receipt"), "arguments"),
        ("topic/touch", ("is_replay", "more"), ("id", "receipt"), "arguments"),
        ("topic/touch", ("is_replay",), ("receipt", "id"), "items"),
        ("topic/touch", ("is_replay",), (), "items"),
        ("topic/get", ("history",), (), "items"),
        ("topic/list", ("place", "side", "to", "from", "past", "limit"), (), "arguments"),
    ],
)
def test_a_verb_with_other_arguments_than_its_script_fails_at_import(
    name: str, args: Any, item: Any, what: str
) -> None:
    with pytest.raises(AssertionError, match=f"lua/{name}.lua declares the {what}"):
        Script(
            name,
            args=args,
            item=item,
            keys={
                "topic/get": (*GETTING_PARTS, *KEY_PARTS),
                "topic/touch": TOUCHING_PARTS,
                "topic/list": (*LISTING_PARTS, *KEY_PARTS),
            }.get(name, TOPIC_PARTS),
        )


def test_a_missing_script_fails_at_import() -> None:
    with pytest.raises(FileNotFoundError):
        Script("topic/snooze")


def test_a_script_of_several_topics_takes_their_keys_from_those_that_are_declared() -> None:
    text = BOUND[OF_SEVERAL_TOPICS].source.decode()
    assert "tarry:" not in text
    assert "is_quiet(KEYS[i], KEYS[i + 1], KEYS[i + 2])" in text
    assert set(re.findall(r"redis\.p?call\('[A-Z]+', ([\w\[\]]+)", text)) <= {"meta", "key", "clock"}


@cases("name", [name for name in NAMES if name != OF_SEVERAL_TOPICS])
def test_a_script_declares_all_its_keys(name: str) -> None:
    """Promise: Declared keys."""
    text = BOUND[name].source.decode()
    declared = text.partition("local ")[2].partition(" = unpack(KEYS)")[0]
    known_parts = (
        TOPIC_PARTS,
        RETRYING_PARTS,
        WAITING_PARTS,
        POPPING_PARTS,
        DEPARTING_PARTS,
        FINISHING_PARTS,
        DELETING_PARTS,
        GETTING_PARTS,
        LISTING_PARTS,
        ONCE_PARTS,
        PURGING_PARTS,
        CANCELLING_PARTS,
        COUNTING_PARTS,
        LATER_PARTS,
        SOON_PARTS,
        TOUCHING_PARTS,
    )
    assert declared.removesuffix(", " + ", ".join(KEY_PARTS)) in [", ".join(parts) for parts in known_parts]
    assert "tarry:" not in text
    for command, key in keys_used(BOUND[name]):
        known = {
            *declared.split(", "),
            "SETS[place]",
            "parts[part]",
            "places[i]",
            "set",
            "list",
            "records",
            "index",
            "INDEXES[priority]",
        }
        assert key in known, f"{command} {key}"


@EVERY
def test_no_name_hides_that_of_a_key(name: str) -> None:
    first, *others = re.findall(r"^local ([\w, ]+?) *=", BOUND[name].source.decode(), re.M)
    keys = set(first.split(", "))
    assert not keys & {word for names in others for word in names.split(", ")}


@EVERY
def test_a_script_keeps_large_numbers_exact(name: str) -> None:
    """`..` and tostring round 15 digits and more."""
    text = BOUND[name].source.decode()
    assert not re.search(r"tostring\(", text)
    assert not re.search(r"\.\. *(now|receipt|alarm|at|start|stop)\b", text)


@EVERY
def test_a_script_fits_on_two_screens(name: str) -> None:
    own = files("tarry").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
    assert len(own.splitlines()) <= 140
    assert own.count("\n--") >= 2, "it says what it does and what it answers"


@EVERY
def test_an_imaginary_clock_is_refused_on_a_real_server(name: str, unmarked: ServerProcess) -> None:
    from tarry import BadInput, Client

    script = BOUND[name]
    with Client(unmarked.url) as client:
        client.engine.runner.clock = b"1800000000000000"
        keys = client.topic("t").verbs.keys
        arguments = {"add": (b"each", b"0"), "purge": (b"all", b"", b"0"), "check": (b"jobs", b"0", b"10")}
        from tarry.core.requests import ScriptCall

        call: ScriptCall[Any] = ScriptCall(script, keys, arguments.get(name.removeprefix("topic/"), (b"1",) * 6), list)
        with pytest.raises(BadInput, match="not started for tests"):
            client.engine.run(call)
        assert unmarked.ask("DBSIZE") == 0


@pytest.fixture(scope="module")
def unmarked() -> Any:
    """A server as it would be anywhere."""
    import servers
    from tarry.connections.embedded.server_process import launch

    with servers.short_folder() as folder:
        running = launch(folder, binary=servers.valkey_binary(), socket=folder / "s", options=("--save", ""))
        yield running
        running.stop()
