"""What a client is before it talks: its settings, its name, its ids. The same for both worlds."""

from __future__ import annotations

import os
import random
import time
from typing import Any

from tarry.errors import BadInput
from tarry.idea.patience import Patience
from tarry.links.address import Address, find
from tarry.verbs.codecs import Bodies
from tarry.verbs.jobs.face import TopicVerbs
from tarry.verbs.jobs.topic import TopicDesk
from tarry.words import keys, names
from tarry.words.durations import SECOND, Duration, microseconds

MAX_BODY = 1 << 20
LARGEST_BODY = 512 << 20
PATIENCE: Duration = 10


class Origin:
    """Checked settings; makes the verbs of a topic. Raises ``BadInput`` or ``ServerUnfit`` in words."""

    def __init__(self, url: str | None, namespace: str, max_body: int, patience: Duration) -> None:
        if not isinstance(max_body, int) or isinstance(max_body, bool) or not 1 <= max_body <= LARGEST_BODY:
            raise BadInput(f"max_body: {max_body!r}; it is a number of bytes, at most 512 MiB.")
        names.namespace(namespace)
        self.namespace = namespace
        self.address: Address = find(url, os.environ)
        self.patience = Patience(microseconds(patience, "patience") / SECOND)
        self.name = names.word(os.urandom)
        self._max_body = max_body
        self._ids = names.Ids(lambda: time.time_ns() // 1_000_000, os.urandom)

    def verbs(self, topic: str, kind: Any) -> TopicVerbs[Any]:
        """The verbs of a topic whose bodies are of a kind."""
        desk = TopicDesk(topic, keys.topic_keys(self.namespace, topic), Bodies(kind, self._max_body), self._ids)
        return TopicVerbs(desk, self.name, random.random)

    def watcher(self) -> bytes:
        """A name for a waiter, new for each process and connection."""
        return self.name + b"." + names.word(os.urandom)[:6]


def seconds_of(wait: Duration | None) -> float:
    """A wait in seconds; ``None`` is for ever."""
    return float("inf") if wait is None else microseconds(wait, "wait") / SECOND
