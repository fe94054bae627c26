"""A URL whose login does not fit the server: no password, a wrong one, one where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

import servers
import tarry
from tarry.connections.embedded.server_process import ServerProcess

NO_LOGIN = (
    "The server wants a password, and the URL has none; write redis://:PASSWORD@host, or redis://USER:PASSWORD@host, with @ / ? # in a "
    "password as %40 %2F %3F %23."
)

NEEDLESS_LOGIN = (
    "The URL has a password and no user, and the server's default user has no password or is switched off; write "
    "redis://USER:PASSWORD@host, or take the password out of the URL."
)


@pytest.fixture
def strict_sentinel() -> Iterator[str]:
    """A Sentinel with a password, which watches nobody."""
    (port,) = servers.free_ports(1)
    with servers.short_folder() as folder:
        (folder / "s.conf").write_text(f"port {port}\nbind 127.0.0.1\nrequirepass secret\n")
        words = [str(servers.valkey_binary()), str(folder / "s.conf"), "--sentinel"]
        running = ServerProcess(folder, words, (servers.LOOPBACK, port))
        try:
            yield f"127.0.0.1:{port}"
        finally:
            running.kill()


def error_of(any_client: Any) -> str:
    with pytest.raises(tarry.ServerUnfit) as told:
        any_client.call(any_client.topic("orders"), "add", "tea")
    return str(told.value)


@servers.ON_BOTH
def test_a_missing_a_wrong_and_a_needless_password_are_three_answers(
    own_server: Callable[..., ServerProcess], kind: str, make_client: Any
) -> None:
    url = own_server(port=True).url
    assert error_of(make_client(kind, url.replace("//", "//:word@"))) == NEEDLESS_LOGIN
    url = own_server(port=True, requirepass="secret").url.rpartition("//")[2].rpartition("@")[2]
    assert error_of(make_client(kind, f"redis://{url}")) == NO_LOGIN
    for wrong in (":word@", "somebody:secret@"):
        assert error_of(make_client(kind, f"redis://{wrong}{url}")) == (
            "The server refused the user or password; correct the URL."
        )


@servers.ON_BOTH
def test_a_password_without_its_user_is_told_from_a_wrong_one(
    own_server: Callable[..., ServerProcess], kind: str, make_client: Any
) -> None:
    """A server whose default user is off, which many set up with an ACL file."""
    url = own_server(port=True).url
    with redis.Redis.from_url(url) as server:
        server.acl_setuser("app", enabled=True, passwords="+secret", keys="*", channels="*", categories=["+@all"])
        server.acl_setuser("default", enabled=False)
    assert error_of(make_client(kind, url.replace("//", "//:secret@"))) == NEEDLESS_LOGIN
    assert error_of(make_client(kind, url)) == NO_LOGIN
    app = make_client(kind, url.replace("//", "//app:secret@"))
    assert app.call(app.topic("orders"), "add", "tea").is_new


def test_a_login_that_a_sentinel_refuses_is_said_with_its_options(
    strict_sentinel: str, kind: str, make_client: Any
) -> None:
    url = f"redis+sentinel://{strict_sentinel}/mymaster"
    assert error_of(make_client(kind, url)) == (
        "The Sentinels want a password; give theirs as ?sentinel_password= in the URL."
    )
    assert "refused the user or password; give theirs as ?sentinel_username=" in error_of(
        make_client(kind, f"{url}?sentinel_password=word")
    )
