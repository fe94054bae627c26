"""The lists of faults fit today's source: a fault whose text is gone would never be tried again."""

from __future__ import annotations

import tomllib

from mutants import __main__ as mutants
from mutants import reach

SOURCE = mutants.ROOT / "src" / "tarry"


def occurrences(fault: dict[str, str]) -> int:
    path = SOURCE / fault["file"]
    return path.read_text("utf-8").count(fault["old"]) if path.exists() else 0


def listed() -> dict[str, dict[str, str]]:
    faults: dict[str, dict[str, str]] = {}
    for file in mutants.LISTS:
        faults |= tomllib.loads((mutants.HERE / file).read_text("utf-8"))
    return faults


def test_the_text_of_every_fault_occurs_exactly_once() -> None:
    faults = listed()
    assert len(faults) >= 160
    assert {name: fault["old"] for name, fault in faults.items() if occurrences(fault) != 1} == {}
    assert [name for name, fault in faults.items() if fault["old"] == fault["new"]] == []


def test_every_fault_is_noticed_or_harmless() -> None:
    """After a change of a list: ``make mutants``."""
    results = mutants.results()
    for name, fault in listed().items():
        assert "new" in results.get(name, {}), f"{name} has not been tried"
        assert bool(results[name]["new"]["by"]) != ("harmless" in fault), name
    assert results.keys() == listed().keys()


def test_the_named_files_and_tests_exist() -> None:
    parts = [str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*")]
    assert [begin for begin in mutants.BESIDE if not any(part.startswith(begin) for part in parts)] == []
    tests = [place for places in mutants.BESIDE.values() for place in places.split()]
    assert [place for place in (*tests, *reach.FOLDERS) if not (mutants.ROOT / "tests" / place).exists()] == []
