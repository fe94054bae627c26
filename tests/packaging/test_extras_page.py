"""`pip install tarry` stays small, and the table of extras names what they install."""

from __future__ import annotations

import re

import pytest

from tools import extras

MOST = 6
SHOWN = re.findall(
    r"^\| `tarry(?:\[(\w+)\])?` \| (\d+) \| [\d.]+ \| (.*) \|$", extras.PAGE.read_text(encoding="utf-8"), re.M
)


def test_the_library_alone_is_six_packages() -> None:
    core = set(extras.rows()[""]) - {"async-timeout"}  # redis-py's, before Python 3.11.3
    assert len(core) <= MOST, core


def test_the_table_has_a_row_for_each_extra() -> None:
    assert [name for name, _, _ in SHOWN] == list(extras.rows())


@pytest.mark.long
def test_the_table_names_what_is_installed() -> None:
    """When a dependency has another one: `.venv/bin/python tools/extras.py`."""
    shown = {name: re.findall(r"([\w.-]+) [\d.]+(?:,|$)", packages) for name, _, packages in SHOWN}
    assert shown == extras.rows()
