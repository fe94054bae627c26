"""The scripts about live workers declare their keys and arguments, as those of the topics do."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from tarry.core.scripts import Script
from tarry.values.keys import WORKER_PARTS
from tarry.verbs import workers

BOUND = {value.name: value for value in vars(workers).values() if isinstance(value, Script)}
NAMES = sorted("workers/" + path.name.removesuffix(".lua") for path in files("tarry").joinpath("lua/workers").iterdir())


def test_every_script_has_a_verb() -> None:
    assert sorted(BOUND) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_script_declares_all_its_keys(name: str) -> None:
    text = BOUND[name].source.decode()
    for command, key in re.findall(r"redis\.p?call\('([A-Z]+)', ([\w\[\]]+)", text):
        assert key in WORKER_PARTS, f"{command} {key}"
    assert not re.search(r"tostring\(|\.\. *(now|at)\b", text)
