"""Environment variables that nothing reads are named, and those that are meant for others are not."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import tarry
from tarry.values import variables

INTERFACE = Path(__file__).parents[2] / "docs" / "interface.txt"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(variables, "_warned", {})
    caplog.set_level(logging.WARNING, "tarry")


def test_the_list_is_that_of_the_interface() -> None:
    lines = INTERFACE.read_text(encoding="utf-8").splitlines()
    assert sorted(variables.VARIABLES) == sorted(line for line in lines if line.startswith("TARRY_"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: tarry.Client("redis://none"),
        lambda: tarry.AsyncClient("redis://none"),
        lambda: tarry.HTTPClient("http://none"),
        lambda: tarry.Worker("shop", url="redis://none").client,
    ],
)
def test_a_variable_that_nothing_reads_is_named_once_in_a_process(
    make: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TARRY_PATIENCE", "2")
    monkeypatch.setenv("TARRY_URI", "redis://elsewhere")
    for _ in range(2):
        make()
    assert sorted(line.partition(" There are ")[0] for line in caplog.messages) == [
        "TARRY_PATIENCE is no variable of tarry, and changes nothing.",
        "TARRY_URI is no variable of tarry, and changes nothing. Did you mean TARRY_URL?",
    ]
    assert "TARRY_NAMESPACE, TARRY_REDISSON" in caplog.text
    assert "elsewhere" not in caplog.text, "a value may be a secret"


@pytest.mark.parametrize(
    "name",
    [
        *variables.VARIABLES,
        "TARRY_WORKER_SOCKET", "TARRY_SERVICE_PARENT",
        # Kubernetes sets these for the services tarry, tarry-service and tarry-web
        "TARRY_SERVICE_HOST", "TARRY_SERVICE_PORT", "TARRY_SERVICE_PORT_HTTP", "TARRY_PORT", "TARRY_PORT_7070_TCP",
        "TARRY_PORT_7070_TCP_ADDR", "TARRY_SERVICE_SERVICE_HOST", "TARRY_WEB_SERVICE_HOST", "TARRY_WEB_SERVICE_PORT",
        "TARRY_WEB_PORT_7070_TCP_PROTO", "MY_TARRY_PATIENCE", "tarry_patience",
    ],
)  # fmt: skip
def test_a_variable_that_something_reads_is_not_named(name: str, caplog: pytest.LogCaptureFixture) -> None:
    variables.warn_of_unknown({name: "7"})
    assert not caplog.messages


@pytest.mark.parametrize("word", ["maybe", "never", "2", " no"])
def test_a_word_that_is_neither_yes_nor_no_is_refused(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TARRY_EMBEDDED", word)
    monkeypatch.delenv("TARRY_URL", raising=False)
    with pytest.raises(tarry.BadInput, match=r"TARRY_EMBEDDED: .*; it is yes or no"):
        tarry.Client()
    tarry.Client("redis://none").close()  # which asks for no embedded server
