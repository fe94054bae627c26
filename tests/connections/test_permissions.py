"""Missing permissions are reported with an error that names them, and no password is ever shown; on a real server."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import tarry
from tarry import ServerUnfit, Unavailable
from tarry.connections.embedded.server_process import ServerProcess


def with_user(url: str, user: str, password: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{user}:{password}@{rest}"


def test_a_password_in_the_url_works_and_is_never_shown(
    own_server: Callable[..., ServerProcess], caplog: pytest.LogCaptureFixture
) -> None:
    server = own_server(port=True)
    server.ask("ACL", "SETUSER", "me", "on", ">geheim#1", "~*", "&*", "+@all")
    server.ask("ACL", "SETUSER", "default", "off")
    caplog.set_level(logging.DEBUG)
    with tarry.Client(with_user(server.url, "me", "geheim%231")) as client:
        client.topic("a").add("tea")
    wrong = "user or password"
    for url, said in (
        (server.url, "wants a password, and the URL has none"),
        (with_user(server.url, "me", "falsch"), wrong),
        (with_user(server.url, "", "falsch"), "write redis://USER:PASSWORD@host"),
    ):
        with tarry.Client(url, patience=0.1) as client, pytest.raises(ServerUnfit, match=said) as told:
            client.topic("a").add("tea")
        shown = "".join(traceback.format_exception(told.value)) + caplog.text + repr(client)
        assert "falsch" not in shown
        assert "geheim" not in shown


def test_an_unreachable_server_is_named_without_its_password() -> None:
    with tarry.Client("redis://me:geheim@127.0.0.1:1", patience=0.05) as client, pytest.raises(Unavailable) as told:
        client.topic("a").add("tea")
    assert "redis://127.0.0.1:1" in str(told.value)
    assert "geheim" not in "".join(traceback.format_exception(told.value))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("-evalsha", "evalsha"),
        ("-eval", "eval"),
        ("-zadd", "zadd|ACL"),
        ("-sadd", "sadd"),
        ("-blpop", "blpop"),
        ("-client", "client"),
        ("resetkeys ~other:*", "key"),
    ],
)
def test_a_missing_permission_is_named(
    missing: str, words: str, own_server: Callable[..., ServerProcess], kind: str, make_client: Any
) -> None:
    server = own_server()
    server.ask("ACL", "SETUSER", "me", "on", "nopass", "~*", "&*", "+@all", *missing.split())
    url = server.url.replace("unix://", "unix://me:x@")
    any_client = make_client(kind, url, imaginary=False)

    def use() -> None:
        any_client.call(any_client.topic("a"), "add", "tea")
        any_client.call(any_client.topic("b"), "pop", wait=0.3)

    with pytest.raises(ServerUnfit, match=f"(?i){words}"):
        use()
