"""The known topics of a namespace: a hint for lists and dashboards, in a key outside the topics' slots."""

from __future__ import annotations

from tarry.core.requests import Command, Reply
from tarry.values import names
from tarry.values.keys import topics_key


def register(namespace: str, topic: str) -> Command[None]:
    """Adds a topic to the list, before its first job. Raises ``BadInput`` for names that are not allowed for new topics."""
    names.refuse_dots(namespace, "namespace")
    names.refuse_dots(topic, "topic")
    return register_existing(namespace, topic)


def register_existing(namespace: str, topic: str) -> Command[None]:
    """Adds an existing topic to the list."""
    return Command((b"SADD", topics_key(namespace), names.check_name(topic, "topic")), lambda _: None)


def list_names(namespace: str) -> Command[list[str]]:
    def decode(reply: Reply) -> list[str]:
        return sorted(name.decode() for name in reply)

    return Command((b"SMEMBERS", topics_key(namespace)), decode)
