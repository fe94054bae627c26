"""Input of connections without a token is worked on a little in each turn of the loop: counted, turn by turn."""

from __future__ import annotations

import asyncio
import math
from itertools import pairwise
from typing import Any

import pytest

from service.test_upgrade_offers import Connection, request
from tarry.programs.service.paced_input import MOST_KEPT
from tarry.programs.serving.connection_limits import FileShares, PortLimits, connection_of
from tarry.programs.serving.turns import CROWDED_TURNS, MOST_IN_A_TURN

pytestmark = pytest.mark.anyio
MOST_TURNS = 10_000
KNOWN = {"tarry_1_x-y", "65af"}
"""A token, and the id of one."""
AWS4 = b"Authorization: AWS4-HMAC-SHA256 Credential=%b/20270101/x/sqs/aws4_request\r\n"


class Client(Connection):
    """A connection that shares its port with others. Its paths say what the service does."""

    def __init__(self, limits: PortLimits) -> None:
        self.begun = 0
        super().__init__(limits)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        self.begun += 1
        if scope["path"] in ("/trusted", "/held"):
            connection_of(scope).authorize(None)
        if scope["path"] == "/held":
            connection_of(scope).hold(True)
            await receive()
            await receive()
            self.gone.append("/held")
            return
        await super()._app(scope, receive, send)


@pytest.fixture
async def limits() -> PortLimits:
    return PortLimits(FileShares(math.inf), KNOWN.__contains__, bool)


async def turns_until(answered: int, *clients: Client) -> list[int]:
    """Lets the loop turn until the clients have so many answers. Returns how many requests had begun after each turn."""
    begun = [0]
    while sum(len(client.got) for client in clients) < answered:
        await asyncio.sleep(0)
        begun.append(sum(client.begun for client in clients))
        assert len(begun) < MOST_TURNS
    return begun


async def test_one_request_of_a_stranger_is_parsed_at_a_time(limits: PortLimits) -> None:
    stranger = Client(limits)
    paths = [f"/{number}" for number in range(60)]
    stranger.protocol.data_received(b"".join(request("POST", path, b"1") for path in paths))
    most_open = 0
    while len(stranger.got) < 60:
        await asyncio.sleep(0)
        most_open = max(most_open, len(stranger.protocol._open))  # no one else knows how far the parser is
    assert most_open <= 2, "a body of one, and the head behind it"
    assert [path for _, path, _ in stranger.got] == paths
    assert not stranger.wire.paused
    await stranger.end()


async def test_many_strangers_begin_few_requests_in_a_turn_and_others_come_before_them(limits: PortLimits) -> None:
    trusted = Client(limits)
    await trusted.read(request("GET", "/trusted"))
    strangers = [Client(limits) for _ in range(10 * MOST_IN_A_TURN)]
    for stranger in strangers:
        stranger.protocol.data_received(request("GET", "/a") * 60)
    trusted.protocol.data_received(request("GET", "/trusted"))
    await turns_until(2, trusted)
    assert sum(stranger.begun for stranger in strangers) <= 4 * MOST_IN_A_TURN
    begun = await turns_until(3 * len(strangers), *strangers)
    assert max(after - before for before, after in pairwise(begun[1:])) <= MOST_IN_A_TURN
    counts = [stranger.begun for stranger in strangers]
    assert max(counts) - min(counts) <= 1, "each has its turn"
    for client in (*strangers, trusted):
        await client.end()


async def test_a_new_client_waits_for_one_request_of_each_stranger_at_most(limits: PortLimits) -> None:
    strangers = [Client(limits) for _ in range(10 * MOST_IN_A_TURN)]
    for stranger in strangers:
        stranger.protocol.data_received(request("GET", "/a") * 60)
    await turns_until(len(strangers), *strangers)
    before, new = sum(stranger.begun for stranger in strangers), Client(limits)
    new.protocol.data_received(request("GET", "/trusted"))
    await turns_until(1, new)
    assert sum(stranger.begun for stranger in strangers) - before <= len(strangers) + 4 * MOST_IN_A_TURN
    for client in (*strangers, new):
        await client.end()


@pytest.mark.parametrize(
    ("more", "invented"),
    [
        (b"Authorization: Bearer tarry_1_x-y\r\n", b"Authorization: Bearer tarry_1_x\r\n"),
        (b"cookie: a=b; tarry-dashboard=tarry_1_x-y\r\n", b"Cookie: a=b\r\n"),
        (AWS4 % b"65af", AWS4 % b"65ae"),
        (b"Authorization: bearer tarry_1_x-y\r\n", b""),
    ],
)
async def test_while_connections_are_admitted_requests_without_a_valid_token_leave_them_the_turns(
    limits: PortLimits, more: bytes, invented: bytes
) -> None:
    """uvloop accepts one a turn: who waits behind two thousand others waits for two thousand turns."""
    strangers = [Client(limits) for _ in range(10 * MOST_IN_A_TURN)]
    for stranger in strangers:
        stranger.protocol.data_received(request("GET", "/a", more=invented) * 60)
    admitted, begun = [Client(limits)], list[int]()
    for _ in range(10 * CROWDED_TURNS):
        admitted.append(Client(limits))
        await asyncio.sleep(0)
        begun.append(sum(stranger.begun for stranger in strangers))
    assert begun[-1] - begun[2] <= 10, "one in every fourth turn"
    known, turns = admitted[0], 0
    known.protocol.data_received(request("GET", "/trusted", more=more))
    while not known.begun:
        admitted.append(Client(limits))
        await asyncio.sleep(0)
        turns += 1
    assert turns <= 2, "what shows a valid token waits for nothing else"
    await turns_until(len(strangers), *strangers)
    for client in (*strangers, *admitted):
        await client.end()


async def test_a_body_in_the_read_of_its_head_comes_before_an_early_answer(limits: PortLimits) -> None:
    early, admitted = Client(limits), list[Client]()
    early.protocol.data_received(request("POST", "/early", b"12"))
    while not early.answers:
        admitted.append(Client(limits))
        await asyncio.sleep(0)
    assert not early.wire.closed
    for client in (early, *admitted):
        await client.end()


async def test_a_request_that_waits_for_its_turn_makes_room_after_silent_ones(limits: PortLimits) -> None:
    limits = PortLimits(FileShares(MOST_IN_A_TURN + 2), bool, bool)
    strangers = [Client(limits) for _ in range(MOST_IN_A_TURN + 1)]
    for stranger in strangers:
        stranger.protocol.data_received(request("GET", "/a"))
    silent = Client(limits)
    assert not strangers[-1].begun
    new = Client(limits)
    assert (silent.wire.closed, strangers[-1].wire.closed) == (True, False)
    await turns_until(len(strangers), *strangers)
    for client in (*strangers, silent, new):
        await client.end()


async def test_a_request_in_the_same_read_behind_a_held_one_ends_it(limits: PortLimits) -> None:
    client = Client(limits)
    await client.read(request("GET", "/held") + request("GET", "/b"))
    assert client.gone == ["/held"]
    assert client.wire.closed
    await client.end()


async def test_behind_a_refused_request_the_end_of_the_connection_is_read(limits: PortLimits) -> None:
    client = Client(limits)
    await client.read(b"nonsense\r\n\r\n" + request("GET", "/a") * 2)
    assert client.answers == [b"400"]
    assert not client.wire.paused
    await client.end()


async def test_what_is_kept_is_bounded(limits: PortLimits) -> None:
    """Reading is paused; but what comes all the same ends the connection."""
    client = Client(limits)
    client.protocol.data_received(request("GET", "/a") * 2)
    assert client.wire.paused
    client.protocol.data_received(b"x" * (MOST_KEPT + 1))
    await turns_until(1, client)
    await client.read(b"")
    assert client.answers == [b"200", b"400"]
    assert client.wire.closed
    await client.end()
