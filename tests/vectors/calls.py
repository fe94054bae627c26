"""The vectors of the contract: how one is loaded, called and read again.

A vector is a line of JSON (src/tarry/lua/contract.md has the fields). Its strings are bytes as latin-1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import sha1
from typing import Any, NamedTuple

import redis

from vectors import sources

FOLDER = sources.LUA / "vectors"
"""A file for each folder of scripts."""
SERVER_ID = "0" * 40
"""What stands in a vector for the `master_replid` of the server that it runs on."""
Assemble = Callable[[str], str]
Vector = dict[str, Any]


class Step(NamedTuple):
    """A call of a script at a moment; ``script`` is "" for a command of the server."""

    script: str
    args: tuple[str, ...]


class Case(NamedTuple):
    """A line of the table: what is done before, and the call that is looked at. Another connection is ``subscribed`` to these parts."""

    name: str
    before: Sequence[Step]
    call: Step
    subscribed: Sequence[str] = ()


def key(part: str) -> str:
    return f"tarry:{{vectors/t}}:{part}"


class Server:
    """A server whose strings are bytes as latin-1, one command at a time, or several at the same moment."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url, protocol=2)
        self._id = str(self._client.info("replication")["master_replid"])
        self._subscribed: list[redis.connection.AbstractConnection] = []

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, *command: Any) -> Any:
        return self.ask_at_once([command])[0]

    def ask_at_once(self, commands: Sequence[Sequence[Any]], transaction: bool = False) -> list[Any]:
        with self._client.pipeline(transaction=transaction) as both:
            both.response_callbacks = {}  # as it comes from the server
            for command in commands:
                both.execute_command(*(str(word).replace(SERVER_ID, self._id).encode("latin-1") for word in command))
            return [self._decoded(one) for one in both.execute(raise_on_error=False)]

    def _decoded(self, reply: Any) -> Any:
        if isinstance(reply, bytes):
            return reply.decode("latin-1").replace(self._id, SERVER_ID)
        if isinstance(reply, list):
            return [self._decoded(one) for one in reply]
        if isinstance(reply, redis.ResponseError):
            return {"error": str(reply).partition(" script: ")[0]}
        return reply

    def subscribe(self, channels: Sequence[str]) -> None:
        """Another connection subscribes, until ``clear``."""
        other = self._client.connection_pool.get_connection()
        self._subscribed.append(other)
        for channel in channels:
            other.send_command("SUBSCRIBE", channel.encode("latin-1"))
            other.read_response()

    def clear(self) -> None:
        """Empties the server."""
        self.ask("FLUSHALL")
        if self._subscribed:
            self.ask("CLIENT", "KILL", "TYPE", "pubsub")
        while self._subscribed:
            other = self._subscribed.pop()
            other.disconnect()
            self._client.connection_pool.release(other)


def pairs(flat: Sequence[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def call(server: Server, text: str, keys: Sequence[str], args: Sequence[str]) -> tuple[Any, dict[str, int]]:
    """The reply, and the seconds of the expiries that it set: asked in the same transaction, so time stands still."""
    sha = sha1(text.encode(), usedforsecurity=False).hexdigest()
    if server.ask("SCRIPT", "EXISTS", sha) != [1]:
        server.ask("SCRIPT", "LOAD", text.encode().decode("latin-1"))
    reply, *left = server.ask_at_once(
        [("EVALSHA", sha, len(keys), *keys, *args), *(("TTL", one) for one in keys)], transaction=True
    )
    return reply, {one: seconds for one, seconds in zip(keys, left, strict=True) if seconds > 0}


def load(server: Server, vector: Vector) -> None:
    """Makes the keys and the subscription that are there before the call."""
    commands: list[list[str]] = []
    for name, kept in vector["before"].items():
        if "hash" in kept:
            commands.append(["HSET", name, *(one for field in kept["hash"].items() for one in field)])
        elif "zset" in kept:
            commands.append(["ZADD", name, *(one for member, score in kept["zset"].items() for one in (score, member))])
        elif "list" in kept:
            commands.append(["RPUSH", name, *kept["list"]])
        else:
            commands.append(["SET", name, kept["string"]])
    server.ask_at_once(commands)
    if "subscribed" in vector:
        server.subscribe(vector["subscribed"])


READS = {
    "hash": lambda name: ("HGETALL", name),
    "zset": lambda name: ("ZRANGE", name, 0, -1, "WITHSCORES"),
    "list": lambda name: ("LRANGE", name, 0, -1),
    "string": lambda name: ("GET", name),
}


def dump(server: Server, expires: dict[str, int] | None = None) -> dict[str, Any]:
    """All keys with their values."""
    names = sorted(server.ask("KEYS", "*"))
    kinds = server.ask_at_once([("TYPE", name) for name in names])
    values = server.ask_at_once([READS[kind](name) for name, kind in zip(names, kinds, strict=True)])
    found: dict[str, Any] = {}
    for name, kind, told in zip(names, kinds, values, strict=True):
        kept = dict(sorted(pairs(told).items())) if kind == "hash" else pairs(told) if kind == "zset" else told
        found[name] = {kind: kept}
        if expires and name in expires:
            found[name]["expires"] = expires[name]
    return found


def take(server: Server, vector: Vector, assemble: Assemble = sources.assembled) -> tuple[Any, dict[str, Any]]:
    """Performs the call of a vector on an empty server; returns the reply and what is there afterwards. It leaves the server empty."""
    load(server, vector)
    try:
        reply, expires = call(server, assemble(vector["script"]), vector["keys"], vector["args"])
        return reply, dump(server, expires)
    finally:
        server.clear()


def faults(server: Server, vectors: Sequence[Vector], assemble: Assemble = sources.assembled) -> Iterator[str]:
    """The names of those that do not come out as they are written."""
    for vector in vectors:
        if take(server, vector, assemble) != (vector["reply"], vector["after"]):
            yield vector["name"]


def made(server: Server, case: Case) -> Vector:
    """The vector of a line of the table."""
    for script, args in case.before:
        if script:
            reply, _ = call(server, sources.assembled(script), [key(part) for part in sources.parts(script)], args)
            assert not isinstance(reply, dict), f"{case.name}: {script} before it: {reply}"
        else:
            server.ask(*args)
    before = dump(server)
    server.clear()
    script, args = case.call
    vector = {
        "name": case.name,
        "before": before,
        **({"subscribed": [key(part) for part in case.subscribed]} if case.subscribed else {}),
        "script": script,
        "keys": [key(part) for part in sources.parts(script)],
        "args": list(args),
    }
    vector["reply"], vector["after"] = take(server, vector)
    return vector


@cache
def written() -> list[Vector]:
    """Those in the repository."""
    return [json.loads(line) for path in sorted(FOLDER.iterdir()) for line in path.read_text("ascii").splitlines()]


def lines(vectors: Sequence[Vector]) -> str:
    return "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in vectors)
