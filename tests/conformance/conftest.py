"""The kinds of server that programs are tried on."""

from __future__ import annotations

import pytest

ALONE = "valkey"
PLACES = [
    ALONE,
    *(
        pytest.param(place, marks=[pytest.mark.otherserver, pytest.mark.slow])
        for place in ("cluster of valkey", "sentinels of valkey")
    ),
]


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(request: pytest.FixtureRequest, place: str) -> str:
    if place == ALONE:
        return str(request.getfixturevalue("valkey_url"))
    return str(request.getfixturevalue("constellation")(place).url)
