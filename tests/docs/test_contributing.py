"""CONTRIBUTING's "Add a verb" names files that exist, and leaves out none."""

from __future__ import annotations

import re

import pytest

from doc_pages import ROOT

SRC = ROOT / "src" / "tarry"
SECTION = re.search(r"^## Add a verb\n(.*?)^## ", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.M | re.S)
assert SECTION is not None
NAMED = set(re.findall(r"`([\w./-]+/[\w./-]+\.(?:py|lua|md|html))`", SECTION[1]))
MADE = "clients/blocking"
"""Made by ``make blocking``."""
MORE = ("programs/dashboard", "worker")
"""Only for a button, or for users of tasks."""
LEAVES = {SRC / "celery", SRC / "programs" / "beanstalk"}
# Files that know a verb for a reason of their own.
OTHERS = {
    "bury": {
        "errors.py",  # its docstring explains the verb
        "lua/topic/pop.lua",  # includes lua/lib/bury.lua
        "lua/lib/hand_out.lua",
        "lua/topic/release.lua",
        "lua/topic/release_holder.lua",
        "lua/migration/depart.lua",
        "verbs/jobs/job_values.py",  # names lua/lib/bury.lua
        "worker/targets.py",  # tarry.Bury
    },
    "reschedule": set(),
}


def test_the_named_files_exist() -> None:
    gone = [file for file in NAMED if "snooze" not in file and not any((at / file).exists() for at in (SRC, ROOT))]
    assert gone == []


def files_with(name: str) -> set[str]:
    """The files below src/tarry that mention a verb or an option."""
    word = re.compile(rf"\b{name}\b")
    files = [file for file in SRC.rglob("*") if file.suffix in {".py", ".lua", ".html"} and file.parent not in LEAVES]
    return {str(file.relative_to(SRC)) for file in files if word.search(file.read_text(encoding="utf-8"))}


def files_of(verb: str) -> set[str]:
    """The files of a verb."""
    return (files_with(verb) | {f"lua/topic/{verb}.lua"}) - OTHERS[verb]


@pytest.mark.parametrize("verb", list(OTHERS))
def test_every_file_that_mentions_a_verb_is_named(verb: str) -> None:
    assert files_of(verb) - NAMED - {f"lua/topic/{verb}.lua"} == set()


@pytest.mark.parametrize(("verb", "most"), [("reschedule", 8), ("bury", 8)])
def test_a_verb_with_all_doors_is_written_in_few_files(verb: str, most: int) -> None:
    """Counted without the files that a tool makes, and without buttons and tasks, which few verbs have."""
    by_hand = [file for file in files_of(verb) if not file.startswith((MADE, *MORE))]
    assert len(by_hand) <= most, sorted(by_hand)


@pytest.mark.parametrize("option", ["if_exists", "durability"])
def test_an_option_of_add_is_written_in_few_files(option: str) -> None:
    by_hand = [file for file in files_with(option) if not file.startswith(MADE)]
    assert len(by_hand) <= 14, sorted(by_hand)
