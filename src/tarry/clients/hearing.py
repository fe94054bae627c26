"""What those who listen in both clients have in common: channels on the server that has them, and who wants to hear them.

A message is a hint: what is said while the connection is lost is lost. Whoever listens is told by an empty message that
there may have been some, whenever a channel is heard (again).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tarry.connections.blocking import Args

Hear = Callable[[bytes, bytes], None]
"""Called with a channel and a message; an empty one: messages may have been missed."""
QUIET_S = 10.0
"""A line on which nothing came for so long is asked whether it lives; without an answer it is hung up."""
HEARD = (b"message", b"smessage")
TAKEN_AWAY = b"sunsubscribe"


class Ear:
    """Somebody who wants to hear some channels, which lie where ``key`` does."""

    __slots__ = ("channels", "confirmed", "hear", "key", "open")

    def __init__(self, key: bytes, channels: tuple[bytes, ...], hear: Hear, confirmed: Any) -> None:
        self.key = key
        self.channels = channels
        self.hear = hear
        self.confirmed = confirmed
        self.open = True


class Roll:
    """Who hears what on one line. Not thread-safe: its line guards it."""

    def __init__(self, *, sharded: bool) -> None:
        self.sharded = sharded
        self.ears: list[Ear] = []
        self._wanted: dict[bytes, list[Ear]] = {}
        self._confirmed: set[bytes] = set()

    def add(self, ear: Ear) -> list[Args]:
        """What is to be said on the line."""
        self.ears.append(ear)
        new = [channel for channel in ear.channels if channel not in self._wanted]
        for channel in ear.channels:
            self._wanted.setdefault(channel, []).append(ear)
        self._tell(ear)
        return self._words("SUBSCRIBE", new)

    def remove(self, ear: Ear) -> list[Args]:
        """What is to be said on the line."""
        if ear not in self.ears:
            return []
        self.ears.remove(ear)
        gone: list[bytes] = []
        for channel in ear.channels:
            self._wanted[channel].remove(ear)
            if not self._wanted[channel]:
                del self._wanted[channel]
                self._confirmed.discard(channel)
                gone.append(channel)
        return self._words("UNSUBSCRIBE", gone)

    def anew(self) -> list[Args]:
        """What is to be said on a new line."""
        self._confirmed.clear()
        return self._words("SUBSCRIBE", list(self._wanted))

    def read(self, reply: Any) -> list[tuple[Ear, bytes, bytes]]:
        """Whom a reply concerns: ears, with the channel and the message."""
        if not isinstance(reply, list) or len(reply) != 3:
            return []
        kind, channel, message = reply
        if kind == (b"ssubscribe" if self.sharded else b"subscribe"):
            self._confirmed.add(channel)
            for ear in self._wanted.get(channel, ()):
                self._tell(ear)
            return [(ear, channel, b"") for ear in self._wanted.get(channel, ())]
        if kind in HEARD and message:
            return [(ear, channel, message) for ear in self._wanted.get(channel, ())]
        return []

    def _tell(self, ear: Ear) -> None:
        if ear.confirmed is not None and self._confirmed.issuperset(ear.channels):
            ear.confirmed()

    def _words(self, verb: str, channels: list[bytes]) -> list[Args]:
        """On a Cluster both kinds of a channel: who publishes decides. Sharded ones one by one: those of one command must
        share a slot."""
        if not channels:
            return []
        sharded = [(b"S" + verb.encode(), channel) for channel in channels] if self.sharded else []
        return [(verb.encode(), *channels), *sharded]
