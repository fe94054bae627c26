"""Subscriptions, as far as both clients share them: channels, their subscribers, and the times of a connection. No I/O.

A message is a hint: messages that are published while the connection is lost are lost. An empty message tells a subscriber that
there may have been some, each time a channel is subscribed to (again).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from tarry.connections.faults import ConnectionLost, Fault
from tarry.connections.resp import Args
from tarry.core.patience import RetryDelay

OnMessage = Callable[[bytes, bytes], None]
"""Called with a channel and a message; an empty one: messages may have been missed."""
OnLost = Callable[[Fault], None]
"""Called when the connection breaks, and each time it cannot be made again."""
PING_AFTER_S = 10.0
"""The silence after which a connection is pinged; without an answer it is closed."""
MOST_EVENTS = 100_000
"""The most events that wait for slow handlers; further ones are dropped, and a warning is logged."""
MESSAGE_KINDS = (b"message", b"smessage")
UNSUBSCRIBED_BY_SERVER = b"sunsubscribe"
logger = logging.getLogger("tarry")


class Subscriber:
    """A subscriber of channels that are on the server of ``key``."""

    __slots__ = ("channels", "confirmed", "key", "on_lost", "on_message", "open")

    def __init__(
        self,
        key: bytes,
        channels: tuple[bytes, ...],
        on_message: OnMessage,
        confirmed: Any,
        on_lost: OnLost | None = None,
    ) -> None:
        self.key = key
        self.channels = channels
        self.on_message = on_message
        self.confirmed = confirmed
        self.on_lost = on_lost
        self.open = True

    def receive(self, channel: bytes, message: bytes) -> None:
        """Calls it, if it still listens. It stops nothing by an error of its own."""
        if self.open:
            try:
                self.on_message(channel, message)
            except Exception:
                logger.exception("Somebody who listens to %r failed.", channel)


class ChannelTable:
    """The channels of one connection, and their subscribers. Not thread-safe: the connection guards it."""

    def __init__(self, *, sharded: bool) -> None:
        self.sharded = sharded
        self.subscribers: list[Subscriber] = []
        self._subscribers_of: dict[bytes, list[Subscriber]] = {}
        self._confirmed: set[bytes] = set()

    def add(self, subscriber: Subscriber) -> list[Args]:
        """Returns the commands to send."""
        self.subscribers.append(subscriber)
        new = [channel for channel in subscriber.channels if channel not in self._subscribers_of]
        for channel in subscriber.channels:
            self._subscribers_of.setdefault(channel, []).append(subscriber)
        self._confirm(subscriber)
        return self._commands("SUBSCRIBE", new)

    def remove(self, subscriber: Subscriber) -> list[Args]:
        """Returns the commands to send."""
        if subscriber not in self.subscribers:
            return []
        self.subscribers.remove(subscriber)
        gone: list[bytes] = []
        for channel in subscriber.channels:
            self._subscribers_of[channel].remove(subscriber)
            if not self._subscribers_of[channel]:
                del self._subscribers_of[channel]
                self._confirmed.discard(channel)
                gone.append(channel)
        return self._commands("UNSUBSCRIBE", gone)

    def resubscribe(self) -> list[Args]:
        """Returns the commands to send on a new connection."""
        self._confirmed.clear()
        return self._commands("SUBSCRIBE", list(self._subscribers_of))

    def connection_lost(self, fault: Fault) -> None:
        """Tells the subscribers that want to know."""
        for subscriber in list(self.subscribers):
            if subscriber.on_lost is not None and subscriber.open:
                try:
                    subscriber.on_lost(fault)
                except Exception:
                    logger.exception("Somebody who listens to %r failed.", subscriber.channels)

    def dispatch(self, reply: Any) -> list[tuple[Subscriber, bytes, bytes]]:
        """Returns the subscribers that a reply concerns, with the channel and the message. Raises a ``Fault`` if the server has ended
        a subscription."""
        if not isinstance(reply, list) or len(reply) != 3:
            return []
        kind, channel, message = reply
        if kind == UNSUBSCRIBED_BY_SERVER and channel in self._subscribers_of:
            raise ConnectionLost("the channel's slot has moved")
        if kind == (b"ssubscribe" if self.sharded else b"subscribe"):
            self._confirmed.add(channel)
            for subscriber in self._subscribers_of.get(channel, ()):
                self._confirm(subscriber)
            return [(subscriber, channel, b"") for subscriber in self._subscribers_of.get(channel, ())]
        if kind in MESSAGE_KINDS and message:
            return [(subscriber, channel, message) for subscriber in self._subscribers_of.get(channel, ())]
        return []

    def _confirm(self, subscriber: Subscriber) -> None:
        if subscriber.confirmed is not None and self._confirmed.issuperset(subscriber.channels):
            subscriber.confirmed()

    def _commands(self, command: str, channels: list[bytes]) -> list[Args]:
        """On a Cluster both kinds of a channel: the publisher decides. Sharded ones one by one: those of one command must
        share a slot."""
        if not channels:
            return []
        sharded = [(b"S" + command.encode(), channel) for channel in channels] if self.sharded else []
        return [(command.encode(), *channels), *sharded]


class SubscriptionLoop:
    """One connection of subscribers: its thread or task learns here what to send, and how long to wait. The time is given.

    start ─▶ commands ─▶ send ─▶ seconds_to_wait ─▶ on_reply ─▶ commands …
       ▲              any error ─▶ lost ─▶ a pause, and subscribers follow their channels ─┐
       └───────────────────────────────────────────────────────────────────────────────────┘
    """

    def __init__(self, channels: ChannelTable, longest_delay_s: float) -> None:
        self.channels = channels
        self.was_lost = False
        self.half_open = False
        """Somebody has found that the server does not send on it any more."""
        self._unsent: list[Args] = []
        self._back_off = RetryDelay(longest_s=longest_delay_s)
        self._tries = 0
        self._silent_at, self._asked = 0.0, False

    def add(self, subscriber: Subscriber) -> None:
        self._unsent += self.channels.add(subscriber)

    def remove(self, subscriber: Subscriber) -> None:
        self._unsent += self.channels.remove(subscriber)

    def start(self, now: float) -> None:
        """A new connection subscribes to everything, whatever was not sent on the last one."""
        self._unsent, self.half_open = self.channels.resubscribe(), False
        self._heard(now)

    def commands(self) -> list[Args]:
        """The commands to send. Raises a ``Fault`` if the connection is half open."""
        if self.half_open:
            raise ConnectionLost("the server does not know this line any more")
        commands, self._unsent = self._unsent, []
        return commands

    def seconds_to_wait(self, now: float) -> float:
        """Nothing has come: seconds until the server is pinged, or 0 when there is a ping to send. Raises a ``Fault`` if it does not
        answer that."""
        if now < self._silent_at:
            return self._silent_at - now
        if self._asked:
            raise ConnectionLost("the line has been silent for too long")
        self._heard(now)
        self._asked = True
        self._unsent.append((b"PING",))
        return 0.0

    def on_reply(self, reply: Any, now: float) -> list[tuple[Subscriber, bytes, bytes]]:
        """Returns the subscribers to call, with the channel and the message. Raises an error of the server, or a ``Fault``."""
        self._heard(now)
        if isinstance(reply, Exception):
            if not self.channels.sharded or "unknown command" not in str(reply).lower():
                raise reply
            self.channels.sharded = False  # a Cluster that is older than sharded channels
            self._unsent = self.channels.resubscribe()
            return []
        concerned = self.channels.dispatch(reply)
        self._back_off.reset()  # a client that may connect, but not subscribe, tries less and less often
        self._tries = 0
        return concerned

    def lost(self, fault: Fault) -> float:
        """Tells the subscribers that want to know. Returns the pause before the next try. It logs the first try, the 2nd, the 4th, …: a
        worker waits for hours."""
        self.was_lost = True
        self._tries += 1
        if self._tries & (self._tries - 1) == 0:
            logger.info("The line that events come by broke, calling again (try %d): %s", self._tries, fault)
        self.channels.connection_lost(fault)
        return self._back_off.next_delay()

    def _heard(self, now: float) -> None:
        self._silent_at, self._asked = now + PING_AFTER_S, False


def log_dropped(dropped: int) -> None:
    """Logs the number of dropped events when it is 1, 2, 4, …"""
    if dropped & (dropped - 1) == 0:
        logger.warning("Handlers of events are too slow: %d events were dropped.", dropped)
