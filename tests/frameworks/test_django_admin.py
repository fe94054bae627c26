"""The page of topics and dead jobs in Django's admin site: the cases run in a process that has its settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent / "django_admin"


@pytest.mark.slow
def test_the_admin_site_shows_topics_and_kicks_and_deletes_dead_jobs(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, django_python: Path
) -> None:
    monkeypatch.chdir(PROJECT)
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "settings")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (PROJECT, PROJECT.parents[1]))), prepend=os.pathsep)
    unneeded = [
        part
        for name in ("asyncio", "schemathesis", "hypothesispytest", "cacheprovider")
        for part in ("-p", f"no:{name}")
    ]
    words = (
        *unneeded,
        "-W",
        "error",
        "-c",
        os.devnull,
        "--rootdir",
        str(PROJECT),
        "--confcutdir",
        str(PROJECT),
        "--nomigrations",
    )
    done = pytester.run(django_python, "-m", "pytest", *words, PROJECT / "cases.py")
    assert done.ret == 0, done.stdout.str()
