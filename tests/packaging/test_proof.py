"""`make prove` on a small repository, with a list of short real commands; and the proof of this one, whose page is what it says."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.families import FAMILIES
from doc_pages import ROOT
from tools import prove
from until import until

pytestmark = pytest.mark.slow
PLAN = """
[suite]
what = "runs of the suite"
command = ["{python}", "-IS", "it.py"]
times = 2
minutes = 1

[tests]
what = "runs of tests, beside busy loops"
command = ["{python}", "-m", "pytest", "--disable-plugin-autoload", "-p", "no:cacheprovider", "test_it.py"]
times = 1
minutes = 0.6
busy = "all"

[portions]
what = "portions of faults"
command = ["{python}", "-IS", "portion.py", "{family}", "{json}"]
minutes = 1
events = 100
acknowledged = 10

[portions.families]
calm = 20
slow = 10

[bits]
what = "bits"
command = ["{python}", "-IS", "bits.py"]
again = ["{python}", "-IS", "bits.py", "again"]
times = 1
minutes = 0.01
unfinished = '\\d+ left'
green = 'all of {src} done'
"""
PORTION = """
import json, sys
json.dump({"runs": [{"family": sys.argv[1], "events": 30, "acknowledged": 9, "breaches": {}}]}, open(sys.argv[2], "w"))
"""
BITS = """
import subprocess, sys
if "again" not in sys.argv: print("3 left"); sys.exit()
src = subprocess.run(["git", "rev-parse", "HEAD:src"], capture_output=True, text=True).stdout[:12]
print("all of", src, "done")
"""


class Small:
    """A repository with a tree of src, a test, and a plan."""

    def __init__(self, at: Path) -> None:
        self.at = at
        (at / "src/tarry/values").mkdir(parents=True)
        self.write("src/tarry/one.py", "one = 1\n")
        self.write(prove.VERSION, '__version__ = "1.0.0rc1"\n')
        self.write("CHANGELOG.md", "# Changes\n\n## 1.0.0rc1, not yet released\n")
        self.write("it.py", "print('2 passed')\n")
        self.write("test_it.py", "def test_it():\n    assert False\n")
        self.write("portion.py", PORTION)
        self.write("bits.py", BITS)
        self.write(".gitignore", "build\n__pycache__\n")
        self.write("plan.toml", PLAN)
        self.git("init", "--quiet")
        self.commit("first")

    def write(self, name: str, text: str) -> None:
        (self.at / name).parent.mkdir(parents=True, exist_ok=True)
        (self.at / name).write_text(text, encoding="utf-8")

    def git(self, *words: str) -> str:
        by = ("-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")
        return subprocess.run(
            ["git", *by, *words], cwd=self.at, check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(self, subject: str) -> None:
        self.git("add", ".")
        self.git("commit", "--quiet", "-m", subject)

    def command(self, *words: str) -> list[str]:
        return [
            sys.executable,
            str(ROOT / "tools/prove.py"),
            "--root",
            str(self.at),
            "--plan",
            str(self.at / "plan.toml"),
            *words,
        ]

    def prove(self, *words: str) -> tuple[int, str]:
        done = subprocess.run(self.command(*words), capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.at / prove.RECORD).read_text(encoding="utf-8"))
        return record

    def page(self) -> str:
        return (self.at / prove.PAGE).read_text(encoding="utf-8")

    def released(self) -> None:
        self.write("CHANGELOG.md", "# Changes\n\n## 1.0.0rc1, 2026-12-01\n")
        self.commit("release")


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path)


def test_all_parts_run_until_nothing_is_left(small: Small) -> None:
    code, first = small.prove("--minutes", "30", "--only", "suite,portions,bits")
    assert (code, "bits 1  to be continued" in first) == (0, True), first
    code, second = small.prove("--minutes", "30", "--only", "suite,portions,bits")
    assert (code, [line.split()[0] for line in second.partition("left:")[2].splitlines()[1:]]) == (0, ["tests"]), second
    record = small.record()
    assert record["src"] == small.git("rev-parse", "HEAD:src")
    many = {name: [one for one in record["runs"] if one["part"] == name] for name in ("suite", "portions", "bits")}
    assert [one["passed"] for one in many["suite"]] == [2, 2]
    assert [one["finished"] for one in many["bits"]] == [False, True]
    # Each family has its least, and all together what is wanted.
    assert sorted(one["family"] for one in many["portions"]) == ["calm", "calm", "slow", "slow"]
    assert f"The tree is `{record['src']}`" in small.page()
    assert (
        "| portions of faults | 100 events, 10 acknowledged adds | 120 events, 36 acknowledged adds | 0 |"
        in small.page()
    )


def test_what_does_not_fit_is_left_for_the_next_call(small: Small) -> None:
    code, said = small.prove("--minutes", "0.5", "--only", "suite,portions")
    assert code == 0
    assert "suite    2 of 2" in said, said
    assert not (small.at / prove.RECORD).exists()


def test_a_red_part_is_recorded_and_fails_the_proof(small: Small) -> None:
    code, said = small.prove("--minutes", "30", "--only", "tests")
    assert (code, said.count("RED")) == (1, 1), said
    assert [(one["busy"], one["failed"]) for one in small.record()["runs"]] == [(True, ["test_it.py::test_it"])]
    assert "`test_it.py::test_it` failed" in small.page()
    code, said = small.prove("--only", "tests")
    assert (code, "RED" in said) == (1, False)  # it is not tried until it is green
    small.write("test_it.py", "def test_it():\n    pass\n")
    small.commit("mended")
    code, said = small.prove("--once-more", "tests")
    assert (code, "tests 2  green" in said) == (1, True), said
    assert [one["red"] for one in small.record()["runs"]] == [True, False]  # what failed stays in the record


def test_portions_that_do_not_come_to_be_are_red_and_not_tried_without_an_end(small: Small) -> None:
    small.write("portion.py", "raise SystemExit(3)")
    small.commit("broken")
    code, said = small.prove("--minutes", "30", "--only", "portions")
    assert (code, said.count("RED"), "it wrote no results" in said) == (1, 2, True), said


def test_another_tree_of_src_begins_again_and_says_so(small: Small) -> None:
    small.prove("--minutes", "30", "--only", "suite")
    small.write("docs/page.md", "a page\n")
    small.commit("a page")
    assert "begins again" not in small.prove("--minutes", "30", "--only", "suite")[1]
    small.write("src/tarry/one.py", "one = 2\n")
    small.commit("another src")
    code, said = small.prove("--minutes", "30", "--only", "suite")
    assert (code, "another tree of src" in said) == (0, True)
    assert len(small.record()["runs"]) == 2


def test_what_is_not_committed_is_refused(small: Small) -> None:
    small.write("src/tarry/one.py", "one = 2\n")
    code, said = small.prove()
    assert (code, "src/tarry/one.py" in said) == (1, True)


def test_an_interrupted_part_is_run_again(small: Small) -> None:
    small.write("it.py", "import pathlib, time\npathlib.Path('build/begun').touch()\ntime.sleep(600)\n")
    small.commit("long")
    running = subprocess.Popen(
        small.command("--only", "suite"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    until((small.at / "build/begun").exists)
    running.send_signal(signal.SIGTERM)
    said = running.communicate()[0]
    assert (running.returncode, "begins it again" in said) == (1, True), said
    assert not (small.at / prove.RECORD).exists()


def test_a_release_has_the_proof_of_its_own_tree(small: Small) -> None:
    assert small.prove("--check") == (0, "")  # not released: nothing is compared
    small.released()
    assert small.prove("--check") == (1, "nothing has been proved yet: make prove")
    small.prove("--minutes", "30", "--only", "suite")
    small.write(prove.VERSION, '__version__ = "1.0.0"\n')
    small.write("README.md", "tarry\n")
    small.commit("version and pages")
    assert small.prove("--check") == (0, "")
    small.write("bits.py", "")
    small.commit("another part")
    assert small.prove("--check") == (
        1,
        "commits after the proof change more than pages, changes and the version: bits.py",
    )
    small.write("src/tarry/one.py", "one = 3\n")
    small.commit("another src")
    assert "the proof is of an older tree of src: src/tarry/one.py changed since" in small.prove("--check")[1]


def test_the_page_is_made_from_the_record() -> None:
    parts = prove.plan(ROOT / "tools/prove.toml")
    assert (ROOT / prove.PAGE).read_text(encoding="utf-8") == prove.page(prove.read(ROOT), parts)


def test_every_family_has_its_least_events() -> None:
    parts = {part.name: part for part in prove.plan(ROOT / "tools/prove.toml")}
    assert parts["chaos"].families.keys() == FAMILIES.keys()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="an sdist has no commits")
def test_this_tree_has_been_proved_if_it_is_a_release() -> None:
    assert prove.verdict(ROOT) == []
