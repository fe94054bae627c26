"""The drill's table: whose jobs are whose, and what counts as said. `make drill` itself takes five minutes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chaos.drill import HERE, LOUD, MOMENTS, Jobs, Moment, count, table


def test_a_job_belongs_to_the_moment_in_which_it_was_added(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.write_text("1 100.5\n2 111.0\n2 121.0\n4 133.0\n")
    jobs = Jobs("", notes)
    jobs.added = {"1": 100.0, "2": 110.0, "3": 112.0, "4": 120.0}
    jobs.due = {"1": 100.2, "2": 110.2, "3": 112.2, "4": 120.2}
    calm, killed, full = moments = [
        Moment("calm", 99.0, 110.0),
        Moment("killed", 110.0, 120.0),
        Moment("full", 120.0, 140.0),
    ]
    count(moments, jobs)
    assert calm.counts == {"jobs": 1, "lost": 0, "late": 0}
    assert killed.counts == {"jobs": 2, "lost": 1, "late": 0}
    assert full.counts == {"jobs": 1, "lost": 0, "late": 1, "repeated": 1}
    full.said["log"] = (2.34, "a | b")
    assert table(moments).splitlines()[-1] == "| full | 20 | – | – | 2.3 s: a / b | 1 | 0 | 1 | 1 |"


@pytest.mark.parametrize(
    ("line", "loud"),
    [
        ('{"at":"…","level":"warning","logger":"tarry.worker"}', True),
        ('{"at":"…","level":"info","logger":"tarry.worker","message":"▶ it works"}', False),
        ("00:13:20.825 WARNING The server at redis://… answers again; a call waited 2.4 s for it.", True),
        ("00:13:20.825 INFO ▶ it works", False),
        ('{"level":"info","message":"The server at redis://… does not answer. Trying again for 10 s."}', True),
    ],
)
def test_a_warning_is_said_and_the_usual_is_not(line: str, loud: bool) -> None:
    assert bool(LOUD.search(line)) is loud


def test_a_moment_that_is_not_there_is_refused_with_those_that_are() -> None:
    done = subprocess.run([sys.executable, str(HERE), "earthquake"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert all(name in done.stdout for name in MOMENTS)
