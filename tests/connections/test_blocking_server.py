"""A blocking client's connections to one server: closed when it is closed, left to the parent after a fork."""

from __future__ import annotations

import servers
from tarry.connections.blocking import Server
from tarry.connections.blocking_blpop import BlpopConnection
from tarry.connections.embedded.server_process import ServerProcess

PING = ((b"PING",),)


def test_close_closes_the_connections_without_a_timeout_too(running: ServerProcess) -> None:
    server = Server(running.url)
    assert server.exchange(PING) == server.without_timeout.exchange(PING) == [b"PONG"]
    server.close()
    clients = running.ask("CLIENT", "LIST")
    assert isinstance(clients, bytes)
    assert b"name=tarry " not in clients


def test_a_wait_moves_to_another_server_with_its_connection(running: ServerProcess) -> None:
    former, wait = Server(running.url), BlpopConnection()
    with servers.server(servers.valkey_binary()) as other:
        now = Server(other.url)
        wait.connect_to(former)
        wait.begin((b"wake",))
        wait.connect_to(now)
        wait.begin((b"wake",))
        other.ask("RPUSH", "wake", "1")
        assert wait.wait(5) == (True, b"wake")
        wait.drop()
        former.close()
        now.close()


def test_a_forked_child_uses_no_connection_of_its_parent(running: ServerProcess) -> None:
    server = Server(running.url)
    parents = server.without_timeout
    server.forget()
    assert server.without_timeout is not parents
