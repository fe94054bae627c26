"""The scripts of the shared queue declare their keys and arguments, as those of the topics do."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from tarry.core.scripts import Script
from tarry.values.keys import QUEUE_PARTS
from tarry.verbs.redisson.delayed import elements, offers, stats, transfer
from tarry.verbs.redisson.delayed import queue_migration as migration

BOUND = {
    value.name: value
    for module in (offers, elements, transfer, migration, stats)
    for value in vars(module).values()
    if isinstance(value, Script)
}
NAMES = sorted(
    "redisson/delayed/" + path.name.removesuffix(".lua")
    for path in files("tarry").joinpath("lua/redisson/delayed").iterdir()
)


def test_every_script_has_a_verb() -> None:
    assert sorted(BOUND) == NAMES


def test_undeclared_keys_of_a_script_fail_at_import() -> None:
    with pytest.raises(AssertionError, match=r"lua/redisson/delayed/add_poison\.lua declares the keys"):
        Script("redisson/delayed/add_poison", item=("payload", "reason"))


@pytest.mark.parametrize("name", NAMES)
def test_a_script_declares_all_its_keys(name: str) -> None:
    text = BOUND[name].source.decode()
    for command, key in re.findall(r"redis\.p?call\('([A-Z]+)', ([\w\[\]]+)", text):
        assert key in {*QUEUE_PARTS, "seats", "target", "leaving", "departed", "elements"}, f"{command} {key}"
    assert not re.search(r"tostring\(|\.\. *(now|alarm)\b", text)
