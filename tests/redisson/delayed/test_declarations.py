"""The scripts of the shared queue declare their keys and arguments, as those of the topics do."""

from __future__ import annotations

import re

import pytest

from scripts.bound_scripts import keys_used, names_in, scripts_of
from tarry.core.scripts import Script
from tarry.values.keys import QUEUE_PARTS
from tarry.verbs.redisson.delayed import elements, offers, stats, transfer
from tarry.verbs.redisson.delayed import queue_migration as migration
from walked import cases

BOUND = scripts_of(offers, elements, transfer, migration, stats)
NAMES = names_in("redisson/delayed")


def test_every_script_has_a_verb() -> None:
    assert sorted(BOUND) == NAMES


def test_undeclared_keys_of_a_script_fail_at_import() -> None:
    with pytest.raises(AssertionError, match=r"lua/redisson/delayed/add_poison\.lua declares the keys"):
        Script("redisson/delayed/add_poison", item=("payload", "reason"))


@cases("name", NAMES)
def test_a_script_declares_all_its_keys(name: str) -> None:
    text = BOUND[name].source.decode()
    for command, key in keys_used(BOUND[name]):
        assert key in {*QUEUE_PARTS, "seats", "target", "leaving", "departed", "elements"}, f"{command} {key}"
    assert not re.search(r"tostring\(|\.\. *(now|alarm)\b", text)
