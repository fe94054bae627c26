"""Requests that a client sends before it has the responses to those before them."""

from __future__ import annotations

from typing import Any

import pytest

from service.test_upgrade_offers import Connection, request
from tarry.programs.service.open_requests import MOST_BEHIND, MOST_OPEN
from tarry.programs.serving.connection_limits import connection_of


class Busy(Connection):
    """A service that answers ``/busy`` when its client has gone. It needs no token."""

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        connection_of(scope).authorize(None)
        if scope["path"] == "/busy":
            while (await receive())["type"] != "http.disconnect":
                pass
            self.gone.append(scope["path"])
        else:
            await super()._app(scope, receive, send)


@pytest.mark.anyio
async def test_the_running_request_learns_of_the_end_behind_others() -> None:
    seen = Busy()
    await seen.read(request("POST", "/busy", b"1") + request("POST", "/b", b"2") + request("POST", "/c", b"3"))
    assert not seen.wire.paused, "only who reads learns that the client has gone"
    await seen.end()
    assert (seen.gone, seen.got, seen.answers) == (["/busy"], [], [])


@pytest.mark.anyio
async def test_what_comes_behind_an_open_response_is_limited() -> None:
    seen = Busy()
    await seen.read(request("POST", "/busy", b"1"))
    part, sent = request("POST", "/b", b"x" * 1000), 0
    while sent <= MOST_BEHIND:
        assert not seen.wire.paused
        seen.protocol.data_received(part)
        sent += len(part)
    assert seen.wire.paused
    await seen.end()


@pytest.mark.anyio
async def test_requests_beyond_the_most_open_ones_are_refused_behind_them() -> None:
    seen = Busy()
    await seen.read(request("GET", "/c"), request("GET", "/c") * (MOST_OPEN + 5))
    for _ in range(1000):
        await seen.read(b"")
    assert seen.answers == [b"200"] * (1 + MOST_OPEN) + [b"400"]
    assert seen.wire.closed
    await seen.end()


@pytest.mark.anyio
async def test_an_error_is_answered_behind_the_open_responses() -> None:
    seen = Connection()
    await seen.read(request("POST", "/b", b"1") + b"no request\r\n\r\n" + request("POST", "/b", b"2"))
    await seen.read(request("POST", "/b", b"3"))
    assert (seen.got, seen.answers, seen.wire.closed) == ([("POST", "/b", b"1")], [b"200", b"400"], True)
    await seen.end()


CHUNKED = b"POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"


@pytest.mark.anyio
@pytest.mark.parametrize("late", [False, True])
async def test_a_body_that_cannot_be_read_is_answered(late: bool) -> None:
    seen = Connection()
    await seen.read(*((CHUNKED, b"no chunk\r\n") if late else (CHUNKED + b"no chunk\r\n",)))
    assert (seen.gone, seen.got, seen.answers, seen.wire.closed) == (["/b"], [], [b"400"], True)
    await seen.end()


@pytest.mark.anyio
async def test_a_body_that_cannot_be_read_behind_an_open_response_ends_the_connection() -> None:
    seen = Busy()
    await seen.read(request("POST", "/busy", b"1") + CHUNKED + b"no chunk\r\n")
    assert (seen.gone, seen.got, seen.answers, seen.wire.closed) == (["/busy"], [], [], True)
    await seen.end()
