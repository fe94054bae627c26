"""docs/explanation/what-runs-in-a-worker.md names every thread and task of the background, and every script that a worker calls has a file."""

from __future__ import annotations

import re

from doc_pages import ROOT

PAGE = (ROOT / "docs" / "explanation" / "what-runs-in-a-worker.md").read_text(encoding="utf-8")
SRC = ROOT / "src" / "tarry"
WORK = re.compile(r'"(tarry [a-z ]+)"')


def work() -> set[str]:
    """The names under which errors are counted and threads are shown."""
    return {name for file in (SRC / "worker").glob("*.py") for name in WORK.findall(file.read_text(encoding="utf-8"))}


def test_every_thread_and_task_is_on_the_page() -> None:
    assert len(work()) >= 10
    assert sorted(name for name in work() if f"`{name}`" not in PAGE) == []


def test_every_heading_says_what_it_costs_or_when_it_runs_and_what_ends_it() -> None:
    parts = [part for part in re.split(r"^## ", PAGE, flags=re.M)[1:] if not part.startswith(("Scripts", "With"))]
    headings = [one for part in parts for one in re.split(r"^### ", part, flags=re.M)[1:]]
    assert len(headings) >= 15
    short = {one.partition("\n")[0] for one in headings if not re.search(r"\*\*Ends?\*\*", one)}
    assert short == {"`tarry handlers`"}, "it is no thread and no task"


def test_every_script_on_the_page_has_a_file() -> None:
    named = re.findall(r"`((?:topic|holders|workers)/\w+)`", PAGE)
    assert len(named) >= 8
    assert [name for name in named if not (SRC / "lua" / f"{name}.lua").exists()] == []
