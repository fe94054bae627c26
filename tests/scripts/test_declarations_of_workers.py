"""The scripts about live workers and about holders declare their keys and arguments, as those of the topics do."""

from __future__ import annotations

import re

import pytest

from scripts.bound_scripts import keys_used, names_in, scripts_of
from tarry.values.keys import HOLDER_PARTS, WORKER_PARTS
from tarry.verbs import liveness, workers

BOUND = scripts_of(workers, liveness)
OF_ONE_HOLDER = {(command, "channels") for command in ("PUBLISH", "DEL", "RPUSH", "PEXPIRE", "EXISTS")}
"""A holder's channel, and the list of that name. The script itself finds out whose; it is in the slot of the keys."""
KEYS = {"workers": WORKER_PARTS, "holders": HOLDER_PARTS}
NAMES = names_in(*KEYS)


def test_every_script_has_a_verb() -> None:
    assert sorted(BOUND) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_script_declares_all_its_keys(name: str) -> None:
    text = BOUND[name].source.decode()
    for command, key in keys_used(BOUND[name]):
        assert key in KEYS[name.partition("/")[0]] or (command, key) in OF_ONE_HOLDER, f"{command} {key}"
    assert not re.search(r"tostring\(|\.\. *(now|at)\b", text)
