"""An add, a pop and a finish cost what is recorded: calls of functions in the clients, commands in the server (costs.py)."""

from __future__ import annotations

import json

import pytest

import servers
from clients import costs

TOLERANCE = 0.05
RECORD = "If that is meant, say why in the commit, and record it: python tests/clients/costs.py"
RECORDED = json.loads(costs.RECORDED.read_text("utf-8"))


@pytest.fixture(scope="module")
def found() -> costs.Costs:
    with servers.server(servers.valkey_binary()) as running:
        return costs.measure(running.url, "costs")


def test_nothing_costs_more_than_recorded(found: costs.Costs) -> None:
    """Promise: One verb, one script, one round trip."""
    risen = [
        f"{name}: {number} {counted}, {RECORDED[counted][name]} recorded"
        for counted, numbers in found.items()
        for name, number in numbers.items()
        if number > RECORDED[counted][name] * (1 + TOLERANCE)
    ]
    assert not risen, "\n".join([*risen, RECORD])


def test_what_costs_less_is_recorded_too(found: costs.Costs) -> None:
    """Otherwise it could rise again unnoticed. The calls are those of one version of Python; later ones make fewer."""
    fallen = [
        f"{name}: only {number} {counted}, {RECORDED[counted][name]} recorded"
        for counted, numbers in found.items()
        for name, number in numbers.items()
        if number < RECORDED[counted][name] * (1 - TOLERANCE)
        and (counted == costs.COMMANDS or RECORDED["python"] == costs.PYTHON)
    ]
    assert not fallen, "\n".join([*fallen, RECORD])
