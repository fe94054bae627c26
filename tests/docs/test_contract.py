"""The contract of the scripts: every script and every argument is in it. That the page is not stale is told by test_reference.py."""

from __future__ import annotations

import contract
from contract_words import ARGUMENTS, IN_SCRIPT


def declared() -> set[tuple[str, str]]:
    """Script and argument, of all."""
    found = set()
    for name in contract.scripts():
        text = (contract.LUA / f"{name}.lua").read_text(encoding="utf-8")
        found |= {(name, one) for one in contract.names(contract.ARGS, text) + contract.names(contract.ITEM, text)}
    return found


def test_every_script_is_in_the_contract_and_says_what_it_does() -> None:
    files = {
        path.relative_to(contract.LUA).as_posix() for path in contract.LUA.rglob("*.lua") if path.parent.name != "lib"
    }
    assert {f"{name}.lua" for name in contract.scripts()} == files
    for name in contract.scripts():
        assert contract.header((contract.LUA / f"{name}.lua").read_text(encoding="utf-8")), name


def test_every_argument_has_a_meaning_and_no_meaning_is_left_over() -> None:
    found = declared() - {(name, "clock") for name in contract.scripts()}
    assert {argument for _, argument in found if argument not in ARGUMENTS} == set()
    assert ARGUMENTS.keys() - {argument for _, argument in found} == set()
    assert IN_SCRIPT.keys() - found == set()
