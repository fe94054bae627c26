"""The scripts of a map cache declare their keys and arguments, as those of the topics do."""

from __future__ import annotations

import re
from importlib.resources import files

from scripts.bound_scripts import keys_used, names_in, scripts_of
from tarry.values.keys import MAP_PARTS
from tarry.verbs.redisson.mapcache import eviction, load, native_layout, redisson_layout
from walked import cases

BOUND = scripts_of(redisson_layout, native_layout, eviction, load)
NAMES = names_in("redisson/mapcache")
GIVEN = {"set", "seats", "channel"}  # a part's own name for a key that it was given


def test_every_script_has_a_verb() -> None:
    assert sorted(BOUND) == NAMES


@cases("name", NAMES)
def test_a_script_declares_all_its_keys(name: str) -> None:
    text = BOUND[name].source.decode()
    for command, key in keys_used(BOUND[name]):
        assert key in {*MAP_PARTS, *GIVEN, "memo", "lease", "latch"}, f"{command} {key}"
    assert not re.search(r"tostring\(|\.\. *(now|alarm)\b", text)


@cases("name", NAMES)
def test_a_script_fits_on_a_screen(name: str) -> None:
    own = files("tarry").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
    assert len(own.splitlines()) <= 50
    assert own.count("\n--") >= 2, "it says what it does and what it answers"
