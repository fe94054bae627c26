"""The known topics of a namespace: a hint for lists and dashboards, outside the topics' slots."""

from __future__ import annotations

from tarry.idea.calls import Command, Reply
from tarry.words import names
from tarry.words.keys import topics_key


def introduce(namespace: str, topic: str) -> Command[None]:
    return Command((b"SADD", topics_key(namespace), names.name(topic, "topic")), lambda _: None)


def known(namespace: str) -> Command[list[str]]:
    def decode(reply: Reply) -> list[str]:
        return sorted(name.decode() for name in reply)

    return Command((b"SMEMBERS", topics_key(namespace)), decode)
