"""The vectors of the contract: how one is loaded, called and read again.

A vector is a line of JSON (src/tarry/lua/contract.md has the fields). Its strings are bytes as latin-1.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha1
from operator import itemgetter
from typing import Any, NamedTuple

import redis
from hiredis import pack_command

from vectors import sources

FOLDER = sources.LUA / "vectors"
"""A file for each folder of scripts."""
SERVER_ID = "0" * 40
"""What stands in a vector for the `master_replid` of the server that it runs on."""
Assemble = Callable[[str], str]
Vector = dict[str, Any]


class Step(NamedTuple):
    """A call of a script at a moment; ``script`` is "" for a command of the server. ``more`` are keys after those that it names;
    of these the last ``fewer`` are left out."""

    script: str
    args: tuple[str, ...]
    more: tuple[str, ...] = ()
    fewer: int = 0


class Case(NamedTuple):
    """A line of the table: what is done before, and the call that is looked at. Another connection is ``subscribed`` to these parts."""

    name: str
    before: Sequence[Step]
    call: Step
    subscribed: Sequence[str] = ()


def key(part: str) -> str:
    return f"tarry:{{vectors/t}}:{part}"


class Outcome(NamedTuple):
    """What a transaction answers, and what it leaves besides the keys."""

    reply: Any
    """Of the last command."""
    kept: list[list[Any]]
    """Of all keys that are there then: name, kind and value."""
    expires: dict[str, int]
    """Of keys, in seconds."""
    field_expires: dict[str, dict[str, int]]
    """Of fields of a key, in seconds."""


class Server:
    """A server whose strings are bytes as latin-1, one command at a time, or several at the same moment."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url, protocol=2)
        self._id = str(self._client.info("replication")["master_replid"])
        self._own = self._client.connection_pool.get_connection()
        self._other = self._client.connection_pool.get_connection()
        self._loaded: dict[str, str] = {}

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._own.disconnect()
        self._other.disconnect()
        self._client.close()

    def ask(self, *command: Any) -> Any:
        return self.ask_at_once([command])[0]

    def ask_at_once(self, commands: Sequence[Sequence[Any]], transaction: bool = False) -> list[Any]:
        """Written and read without the driver's pipeline, which costs as much as all the rest of a vector."""
        asked = [[str(word).replace(SERVER_ID, self._id).encode("latin-1") for word in command] for command in commands]
        if transaction:
            asked = [[b"MULTI"], *asked, [b"EXEC"]]
        packed = b"".join(pack_command(tuple(words)) for words in asked)  # type: ignore[arg-type]  # of any length
        self._own.send_packed_command([packed], check_health=False)
        replies = [self._reply() for _ in asked]
        if transaction and isinstance(replies[-1], redis.ResponseError):
            raise next(one for one in replies if isinstance(one, redis.ResponseError))
        return [self._decoded(one) for one in (replies[-1] if transaction else replies)]

    def _reply(self) -> Any:
        """As it comes from the server."""
        try:
            return self._own.read_response()
        except redis.ResponseError as error:
            return error

    def load(self, text: str) -> str:
        """The hash of a script that the server has."""
        if text not in self._loaded:
            self.ask("SCRIPT", "LOAD", text.encode().decode("latin-1"))
            self._loaded[text] = sha1(text.encode(), usedforsecurity=False).hexdigest()
        return self._loaded[text]

    @contextmanager
    def subscribed(self, channels: Sequence[str]) -> Iterator[list[list[str]]]:
        """What is published meanwhile on channels and shards' channels: the command, the channel, the message."""
        found: list[list[str]] = []
        names = [channel.encode("latin-1") for channel in channels]
        self._tell_other("SUBSCRIBE", names)
        yield found
        for kind, *told in self._tell_other("UNSUBSCRIBE", names):
            if kind in ("message", "smessage"):
                found.append(["PUBLISH" if kind == "message" else "SPUBLISH", *told])
        found.sort(key=itemgetter(1))  # several channels have no order

    def _tell_other(self, verb: str, channels: Sequence[bytes]) -> list[Any]:
        """What the connection that subscribes hears until all are subscribed or not."""
        heard: list[Any] = []
        if channels:
            self._other.send_command(verb, *channels)
            self._other.send_command(f"S{verb}", *channels)
        while sum(kind.endswith("subscribe") for kind, *_ in heard) < 2 * len(channels):
            heard.append(self._decoded(self._other.read_response()))
        return heard

    def _decoded(self, reply: Any) -> Any:
        if isinstance(reply, bytes):
            return reply.decode("latin-1").replace(self._id, SERVER_ID)
        if isinstance(reply, list):
            return [self._decoded(one) for one in reply]
        if isinstance(reply, redis.ResponseError):
            return {"error": str(reply).partition(" script: ")[0]}
        return reply


def pairs(flat: Sequence[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def perform(server: Server, commands: Sequence[Sequence[Any]], keys: Sequence[str], fields: Sequence[str]) -> Outcome:
    """All at one moment, on a server that is emptied first: the commands, and what expires then, of the keys and of their fields."""
    asked: list[tuple[Any, ...]] = [("TTL", one) for one in keys]
    if fields:
        asked += [("HTTL", one, "FIELDS", len(fields), *fields) for one in keys]
    _, *replies, kept = server.ask_at_once([("FLUSHALL",), *commands, *asked, ("EVAL", KEPT, 0)], transaction=True)
    seconds, of_fields = replies[len(commands) :][: len(keys)], replies[len(commands) + len(keys) :]
    for reply in replies[: len(commands) - 1]:
        assert not isinstance(reply, dict), reply
    return Outcome(
        reply=replies[len(commands) - 1],
        kept=sorted(kept),
        expires={one: left for one, left in zip(keys, seconds, strict=True) if left > 0},
        field_expires={
            one: found
            for one, told in zip(keys, of_fields, strict=False)
            if isinstance(told, list)
            and (found := {field: left for field, left in sorted(zip(fields, told, strict=True)) if left > 0})
        },
    )


def loading(before: dict[str, Any]) -> Iterator[list[Any]]:
    """Makes the keys that are there before the call."""
    for name, kept in before.items():
        if "hash" in kept:
            yield ["HSET", name, *(one for field in kept["hash"].items() for one in field)]
        elif "zset" in kept:
            yield ["ZADD", name, *(one for member, score in kept["zset"].items() for one in (score, member))]
        elif "list" in kept:
            yield ["RPUSH", name, *kept["list"]]
        else:
            yield ["SET", name, kept["string"]]
        for field, seconds in kept.get("field_expires", {}).items():
            yield ["HEXPIRE", name, seconds, "FIELDS", 1, field]
        if "expires" in kept:
            yield ["EXPIRE", name, kept["expires"]]


RESULTS = ("reply", "after", "published")
KEPT = """
local READS = {hash = {'HGETALL'}, zset = {'ZRANGE', 0, -1, 'WITHSCORES'}, list = {'LRANGE', 0, -1}, string = {'GET'}, set = {'SMEMBERS'}}
local found = {}
for i, name in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', name).ok
  found[i] = {name, kind, redis.call(READS[kind][1], name, unpack(READS[kind], 2))}
end
return found
"""


def dump(outcome: Outcome) -> dict[str, Any]:
    """All keys with their values."""
    found: dict[str, Any] = {}
    for name, kind, told in outcome.kept:
        value = dict(sorted(pairs(told).items())) if kind == "hash" else pairs(told) if kind == "zset" else told
        found[name] = {kind: value}
        if name in outcome.expires:
            found[name]["expires"] = outcome.expires[name]
        if name in outcome.field_expires:
            found[name]["field_expires"] = outcome.field_expires[name]
    return found


def run(server: Server, vector: Vector, text: str) -> Outcome:
    """Performs the call of a vector."""
    before, keys, args = vector["before"], vector["keys"], vector["args"]
    fields = [*args, *before.get(keys[0], {}).get("hash", {})] if has_fields_that_expire(vector["script"]) else []
    return perform(server, [*loading(before), ("EVALSHA", server.load(text), len(keys), *keys, *args)], keys, fields)


def has_fields_that_expire(script: str) -> bool:
    return "/native_" in script


def take(server: Server, vector: Vector, assemble: Assemble = sources.assembled) -> dict[str, Any]:
    """Performs the call of a vector; returns what it answers and leaves."""
    with server.subscribed(vector.get("subscribed", ())) as published:
        outcome = run(server, vector, assemble(vector["script"]))
    found = {"reply": outcome.reply, "after": dump(outcome)}
    return found | ({"published": published} if "subscribed" in vector else {})


def faults(server: Server, vectors: Sequence[Vector], assemble: Assemble = sources.assembled) -> Iterator[str]:
    """The names of those that do not come out as they are written."""
    for vector in vectors:
        if take(server, vector, assemble) != {one: vector[one] for one in RESULTS if one in vector}:
            yield vector["name"]


def made(server: Server, case: Case, assemble: Assemble = sources.assembled) -> Vector:
    """The vector of a line of the table; ``assemble`` returns the script that is looked at."""
    commands: list[tuple[Any, ...]] = []
    keys: dict[str, None] = {}
    for script, args, more, fewer in case.before:
        if script:
            own = keys_of(script, more, fewer)
            keys |= dict.fromkeys(own)
            commands.append(("EVALSHA", server.load(sources.assembled(script)), len(own), *own, *args))
        else:
            keys[args[1]] = None
            commands.append(args)
    script, args, more, fewer = case.call
    fields = [one for step in case.before for one in step.args] if has_fields_that_expire(script) else []
    before = perform(server, [*commands, ("PING",)], list(keys), fields)  # so that each of its own is judged
    vector = {
        "name": case.name,
        "before": dump(before),
        **({"subscribed": [key(part) for part in case.subscribed]} if case.subscribed else {}),
        "script": script,
        "keys": keys_of(script, more, fewer),
        "args": list(args),
    }
    return vector | take(server, vector, assemble)


def keys_of(script: str, more: Sequence[str], fewer: int) -> list[str]:
    parts = sources.parts(script)
    return [key(part) for part in (*parts[: len(parts) - fewer], *more)]


@cache
def written() -> list[Vector]:
    """Those in the repository."""
    return [json.loads(line) for path in sorted(FOLDER.iterdir()) for line in path.read_text("ascii").splitlines()]


def lines(vectors: Sequence[Vector]) -> str:
    return "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in vectors)
