"""The known topics of a namespace, a hint for lists and dashboards, in a key outside the slots of the topics."""

from __future__ import annotations

from tarry.core.requests import Command, Reply
from tarry.values import names
from tarry.values.keys import topics_key


def register_topic(namespace: str, topic: str) -> Command[bool]:
    """Adds a topic to the list, before its first job; whether it is new. Raises ``BadInput`` for a name that is not allowed."""
    return Command((b"SADD", topics_key(namespace), names.check_name(topic, "topic")), bool)


def announce_topic(namespace: str, topic: str, *, sharded: bool) -> Command[None]:
    """Tells workers that listen to a pattern that there is a new topic; ``sharded`` on a Cluster."""
    verb = b"SPUBLISH" if sharded else b"PUBLISH"
    return Command((verb, topics_key(namespace), topic.encode()), lambda _: None)


def count_topics(namespace: str) -> Command[int]:
    return Command((b"SCARD", topics_key(namespace)), int)


def list_topics(namespace: str) -> Command[list[str]]:
    def decode(reply: Reply) -> list[str]:
        return sorted(name.decode() for name in reply)

    return Command((b"SMEMBERS", topics_key(namespace)), decode)
