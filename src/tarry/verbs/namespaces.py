"""The verbs of a namespace: its known topics (a hint for lists and dashboards, in a key outside the slots of the topics), numbers and
locks, the tokens of its services, and the users of its server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tarry.core.requests import Asking, Command, Reply, ScriptCall
from tarry.values import keys, names
from tarry.values.keys import numbers_key, topics_key

if TYPE_CHECKING:
    from tarry.verbs import tokens
    from tarry.verbs.locks.lock_values import LockId


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


class NamespaceVerbs:
    """The verbs of a namespace that no handle has. Raises ``BadInput`` for a name that is not allowed."""

    def __init__(self, namespace: str) -> None:
        names.check_namespace(namespace)
        self.namespace = namespace

    def check_shared_name(self, name: str, what: str) -> None:
        """Raises ``BadInput`` for a key, shared with Java, that is inside tarry or Redisson."""
        names.check_shared_name(name, what)

    # ── topics ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def reserve_numbers(self, n: int) -> Command[int]:
        """Reserves ``n`` numbers for ids, and returns the last one. They rise. Numbers of a lost reply are given to nobody."""
        return Command((b"INCRBY", numbers_key(self.namespace), b"%d" % n), int)

    def find_topics(self) -> Asking[set[tuple[str, int]]]:
        """The topics that have jobs on a server, by their keys, each with the number of a partition that has some, or -1."""
        begin, end = keys.topic_keys(self.namespace, "x").jobs.split(b"x}")[0], b"}:jobs"
        found = set[tuple[str, int]]()
        for key in (yield from _scan(b"tarry:{*}:jobs")):
            if key.startswith(begin) and key.endswith(end):
                name, number = keys.partition_of(key[len(begin) : -len(end)])
                if not name.startswith(b" "):  # a part of tarry has it (OwnTopic)
                    found.add((name.decode(), number))
        return found

    def all_keys(self, *topics: str) -> Iterator[bytes]:
        """The keys of these topics, of the known topics and of the workers, whether they are there or not."""
        for topic in topics:
            yield from keys.all_keys(keys.topic_keys(self.namespace, topic))
        yield keys.topics_key(self.namespace)
        yield from keys.worker_keys(self.namespace)

    # ── locks ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def scan_locks(self, cursor: bytes, *, shared: bool) -> tuple[bytes, ...]:
        """A SCAN step over the keys that locks of the last week have left: its own, or those shared with Java."""
        from tarry.verbs.locks import lock_scripts

        return lock_scripts.scan_locks(cursor, self.namespace, shared=shared)

    def find_locks(self, *, shared: bool) -> Asking[set[str]]:
        """The names of the locks that a server knows."""
        from tarry.verbs.locks import lock_scripts

        found = yield from _scan(lock_scripts.token_pattern(self.namespace, shared=shared))
        return {self.lock_of(key).name for key in found}

    @property
    def lock_pattern(self) -> bytes:
        """The pattern of the keys that its own locks have left."""
        from tarry.verbs.locks import lock_scripts

        return lock_scripts.token_pattern(self.namespace)

    def lock_of(self, key: bytes) -> LockId:
        """The lock that has left a key."""
        from tarry.verbs.locks import lock_scripts

        return lock_scripts.lock_of(key, self.namespace)

    # ── tokens ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def create_token(self, scopes: Sequence[str], note: str, **options: Any) -> tuple[str, str, tokens.Record]:
        """A new token, which is not stored yet: its text, its id and its record; see ``tarry.verbs.tokens.create_token``."""
        from tarry.verbs import tokens

        return tokens.create_token(os.urandom, scopes, note, **options)

    def store_token(self, id: str, record: tokens.Record) -> ScriptCall[bool]:
        from tarry.verbs import tokens

        return tokens.store_token(self.namespace, id, record)

    def delete_token(self, id: str) -> ScriptCall[bool]:
        """Deletes a token. Returns whether it existed."""
        from tarry.verbs import tokens

        return tokens.delete_token(self.namespace, id)

    def token_version(self) -> Command[int]:
        """The version of the table of tokens, which rises with every change; 0 before the first."""
        from tarry.verbs import tokens

        return tokens.table_version(self.namespace)

    def list_tokens(self) -> Command[tuple[int, list[tokens.Token]]]:
        """The version of the table, and all tokens, the oldest first."""
        from tarry.verbs import tokens

        return tokens.list_tokens(self.namespace)

    # ── users ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def acl_lines(self, objects: str, version: tuple[int, ...], also: Sequence[str]) -> dict[str, str]:
        """By role, the line of a user for the server's ACL; see ``tarry.verbs.acl.line``."""
        from tarry.verbs import acl

        return {role: acl.line(role, self.namespace, objects, version, also) for role in acl.ROLES}


def _scan(pattern: bytes) -> Asking[list[bytes]]:
    """All keys of a server that match."""
    found, cursor = list[bytes](), b"0"
    while True:
        [(cursor, some)] = yield ((b"SCAN", cursor, b"MATCH", pattern, b"COUNT", b"1000"),)
        found += some
        if cursor == b"0":
            return found
