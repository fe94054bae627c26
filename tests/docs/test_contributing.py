"""CONTRIBUTING's "Add a verb" names files that exist, and leaves out none."""

from __future__ import annotations

import re

import pytest

from doc_pages import ROOT

SRC = ROOT / "src" / "tarry"
SECTION = re.search(r"^## Add a verb\n(.*?)^## ", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.M | re.S)
assert SECTION is not None
NAMED = set(re.findall(r"`([\w./-]+/[\w./-]+\.(?:py|lua|md|html))`", SECTION[1]))
LEAVES = {SRC / "celery", SRC / "programs" / "beanstalk"}
# Files that know a verb for a reason of their own.
OTHERS = {
    "bury": {
        "errors.py",  # its docstring explains the verb
        "lua/topic/pop.lua",  # includes lua/lib/bury.lua
        "lua/topic/release.lua",
        "lua/topic/release_holder.lua",
        "programs/worker/targets.py",  # tarry.Bury
    },
    "reschedule": set(),
}


def test_the_named_files_exist() -> None:
    gone = [file for file in NAMED if "snooze" not in file and not any((at / file).exists() for at in (SRC, ROOT))]
    assert gone == []


@pytest.mark.parametrize("verb", list(OTHERS))
def test_every_file_that_mentions_a_verb_is_named(verb: str) -> None:
    word = re.compile(rf"\b{verb}\b")
    files = [file for file in SRC.rglob("*") if file.suffix in {".py", ".lua", ".html"} and file.parent not in LEAVES]
    known = {str(file.relative_to(SRC)) for file in files if word.search(file.read_text(encoding="utf-8"))}
    assert known - NAMED - OTHERS[verb] - {f"lua/topic/{verb}.lua"} == set()
