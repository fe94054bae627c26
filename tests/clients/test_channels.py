"""What a connection of subscribers sends, when it is pinged or lost, and who is called: without a server, in imaginary time."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import redis.exceptions as driver

from tarry.clients.channels import PING_AFTER_S, ChannelTable, Subscriber, SubscriptionLoop
from tarry.connections.faults import ConnectionLost

NEWS, OTHER = b"news", b"other"
UNKNOWN = driver.ResponseError("unknown command 'SSUBSCRIBE'")
PING = [(b"PING",)]


class Listener(Subscriber):
    """A subscriber that notes what it gets."""

    def __init__(self, *channels: bytes) -> None:
        self.heard: list[bytes] = []
        self.lost: list[Any] = []
        self.confirmations: list[bool] = []
        super().__init__(
            channels[0],
            channels,
            lambda _, message: self.heard.append(message),
            lambda: self.confirmations.append(True),
            self.lost.append,
        )


def loop_of(*listeners: Listener, sharded: bool = False, now: float = 0.0) -> SubscriptionLoop:
    loop = SubscriptionLoop(ChannelTable(sharded=sharded), 1.0)
    for listener in listeners:
        loop.add(listener)
    loop.start(now)
    return loop


def deliver(loop: SubscriptionLoop, *reply: Any, now: float = 0.0) -> None:
    for subscriber, channel, message in loop.on_reply(list(reply), now):
        subscriber.receive(channel, message)


def test_a_new_connection_subscribes_to_all_once_and_then_to_what_is_new() -> None:
    one = Listener(NEWS)
    loop = loop_of(one)
    loop.add(Listener(NEWS, OTHER))
    loop.start(0.0)
    assert loop.commands() == [(b"SUBSCRIBE", NEWS, OTHER)], "not what was queued for the last one"
    assert loop.commands() == []
    loop.add(Listener(b"third"))
    loop.remove(one)
    assert loop.commands() == [(b"SUBSCRIBE", b"third")], "another still listens to the first one's channel"
    loop.lost(ConnectionLost("gone"))
    loop.start(0.0)
    assert loop.commands() == [(b"SUBSCRIBE", NEWS, OTHER, b"third")]


def test_a_message_is_for_those_who_listen_and_an_empty_one_says_that_some_may_be_missing() -> None:
    one, deaf = Listener(NEWS), Listener(NEWS)
    loop = loop_of(one, deaf)
    assert not one.confirmations
    deliver(loop, b"subscribe", NEWS, 1)
    assert one.confirmations
    deaf.open = False
    deliver(loop, b"message", NEWS, b"tea")
    deliver(loop, b"message", OTHER, b"nobody's")
    deliver(loop, b"pong", b"", b"")
    assert (one.heard, deaf.heard) == ([b"", b"tea"], [b""])


def test_an_error_of_a_listener_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    one = Listener(NEWS)
    one.on_message = lambda *_: 1 / 0  # type: ignore[assignment, return-value]
    deliver(loop_of(one), b"message", NEWS, b"tea")
    assert "ZeroDivisionError" in caplog.text


def test_a_server_that_is_silent_is_pinged_and_then_lost() -> None:
    loop = loop_of(Listener(NEWS), now=100.0)
    loop.commands()
    assert loop.seconds_to_wait(104.0) == PING_AFTER_S - 4.0
    loop.on_reply([b"subscribe", NEWS, 1], 105.0)
    assert loop.seconds_to_wait(105.0) == PING_AFTER_S
    assert loop.seconds_to_wait(114.0) == 1.0
    assert loop.commands() == []
    assert loop.seconds_to_wait(115.0) == 0.0
    assert loop.commands() == PING
    assert loop.seconds_to_wait(116.0) == PING_AFTER_S - 1.0
    loop.on_reply([b"pong", b"", b""], 124.0)
    assert loop.seconds_to_wait(134.0) == 0.0, "it has answered: the next silence is pinged again"
    assert loop.commands() == PING
    assert loop.seconds_to_wait(143.0) == 1.0
    with pytest.raises(ConnectionLost, match="silent for too long"):
        loop.seconds_to_wait(144.0)
    loop.start(200.0)
    assert loop.seconds_to_wait(200.0) == PING_AFTER_S, "a new connection is new"


def test_a_half_open_connection_is_lost_at_the_next_command() -> None:
    loop = loop_of(Listener(NEWS))
    loop.half_open = True
    with pytest.raises(ConnectionLost, match="does not know this line"):
        loop.commands()
    loop.start(0.0)
    assert loop.commands() == [(b"SUBSCRIBE", NEWS)]


def test_an_older_cluster_is_subscribed_to_again_without_sharded_channels() -> None:
    loop = loop_of(Listener(NEWS), sharded=True)
    assert loop.commands() == [(b"SUBSCRIBE", NEWS), (b"SSUBSCRIBE", NEWS)]
    assert loop.on_reply(UNKNOWN, 5.0) == []
    assert loop.commands() == [(b"SUBSCRIBE", NEWS)]
    assert loop.seconds_to_wait(5.0) == PING_AFTER_S, "it was an answer"
    with pytest.raises(driver.ResponseError):
        loop.on_reply(UNKNOWN, 5.0)


def test_any_other_refusal_is_raised() -> None:
    with pytest.raises(driver.ResponseError, match="NOPERM"):
        loop_of(Listener(NEWS), sharded=True).on_reply(driver.ResponseError("NOPERM"), 0.0)


def test_a_channel_whose_slot_has_moved_is_a_lost_connection_while_somebody_wants_it() -> None:
    one = Listener(NEWS)
    loop = loop_of(one, sharded=True)
    assert loop.on_reply([b"sunsubscribe", OTHER, 0], 0.0) == []
    with pytest.raises(ConnectionLost, match="slot has moved"):
        loop.on_reply([b"sunsubscribe", NEWS, 0], 0.0)
    loop.remove(one)
    assert loop.on_reply([b"sunsubscribe", NEWS, 0], 0.0) == []


def test_a_lost_connection_is_told_and_pauses_grow_until_the_server_answers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    one, fault = Listener(NEWS), ConnectionLost("gone")
    loop = loop_of(one, sharded=True)
    assert not loop.was_lost
    assert [loop.lost(fault) for _ in range(8)] == [0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0]
    assert (loop.was_lost, one.lost) == (True, [fault] * 8)
    assert [record.getMessage().rpartition(" (")[2] for record in caplog.records] == [
        f"try {n}): gone" for n in (1, 2, 4, 8)
    ]
    loop.on_reply(UNKNOWN, 0.0)
    with pytest.raises(ConnectionLost):
        loop.on_reply([b"sunsubscribe", NEWS, 0], 0.0)
    assert loop.lost(fault) == 1.0, "who may connect but not subscribe tries less and less often"
    loop.on_reply([b"subscribe", NEWS, 1], 0.0)
    assert loop.lost(fault) == 0.02
    assert caplog.messages[-1].endswith("calling again (try 1): gone")
