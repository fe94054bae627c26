"""Whether a server is fit to keep jobs: checked once for each server, from its own replies.

Refused: older than Redis 6.2 or Valkey 7.2; no scripting; an eviction policy that may drop any key.
Warned about: a policy that drops keys with an expiry; no persistence, if the user may ask.

And whether it is the master, which each new connection asks if another server can become it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar
from weakref import ref

from tarry.connections.faults import ConnectionLost, Fault, IsReplica, NoScript, TryLater
from tarry.connections.resp import Replies
from tarry.errors import ServerUnfit

T = TypeVar("T")
logger = logging.getLogger("tarry")

COMMANDS = tuple(
    b"TIME/0 DEL EXISTS GET HGETALL HLEN LLEN LPOP PERSIST PTTL RPOP TYPE UNLINK ZCARD HRANDFIELD EXPIRE/2 HDEL/2 HEXISTS/2 "
    b"HGET/2 HMGET/2 HSCAN/2 HSTRLEN/2 LINDEX/2 LPOS/2 LPUSH/2 MSET/2 PEXPIRE/2 RPUSH/2 SET/2 SETNX/2 ZMSCORE/2 ZREM/2 "
    b"ZSCAN/2 ZSCORE/2 HINCRBY/3 HINCRBYFLOAT/3 HSET/3 HSETNX/3 LRANGE/3 LREM/3 LSET/3 ZADD/3 ZCOUNT/3 ZRANGE/3 "
    b"ZREMRANGEBYSCORE/3 HPERSIST/4 HPTTL/4 HPEXPIRE/5".split()
)
"""Every command that tarry's scripts use, and its minimum number of arguments, the key among them (1 if none is given). They are
checked in advance: a script that an ACL stops in the middle would leave half of its work."""
ACL_CHECK_SCRIPT = b"""
local no = {}
if not redis.acl_check_cmd then return no end  -- Redis 6.2 does not have it
local function may(command, ...) return select(2, pcall(redis.acl_check_cmd, command, ...)) ~= false end
if not may('CONFIG', 'GET', 'save') then no[1] = 'CONFIG' end
if not may('EXISTS', ARGV[1]) and not may('ZADD', ARGV[1], '0', '0') then return no end  -- the key itself is forbidden
for i = 2, #ARGV do
  local command, words = ARGV[i]:match('(%a+)/?(%d*)')
  local given = {ARGV[1], '0', '0', '0', '0'}
  if not may(command, unpack(given, 1, tonumber(words) or 1)) then no[#no + 1] = command end
end
return no
"""


def probe_commands(key: bytes = b"") -> tuple[tuple[bytes, ...], ...]:
    """The commands that probe a server. EVALSHA of an unknown script replies NOSCRIPT if scripting works; the last one returns
    the commands that the user may not run on a key. They are checked with all their arguments: servers crash otherwise."""
    may = (b"EVAL", ACL_CHECK_SCRIPT, b"0", key or SOME_KEY, *COMMANDS)
    return (b"INFO",), (b"EVALSHA", b"0" * 40, b"0"), may


SAVE = (b"CONFIG", b"GET", b"save")
"""A user who may run it may read all settings, passwords too; so no recommended role has it."""


def wants_save(replies: Sequence[object]) -> bool:
    """Whether to send ``SAVE`` too, and append its reply: without an append-only file, only ``save`` tells whether the server has
    persistence. Not if the user may not: each refusal would be in the server's ACL log."""
    info, _, may = replies
    return isinstance(info, bytes) and b"aof_enabled:0" in info and not (isinstance(may, list) and b"CONFIG" in may)


SOME_KEY = b"tarry:"

OLDEST_REDIS, OLDEST_VALKEY = (6, 2), (7, 2)


warned: dict[tuple[str, str], object] = {}
"""The warnings of this process: one of a kind for each run of a server, which its ``run_id`` tells, not for each client."""


@dataclass(slots=True)
class FitnessReport:
    refusals: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def assess(info: dict[str, str], save: str | None, scripting: str | None, *, cluster: bool = False) -> FitnessReport:
    """Judges a server by its INFO, its ``save`` setting (``None``: unknown), and why it runs no scripts (``None``: it does)."""
    report = FitnessReport()
    refuse, warn = report.refusals.append, report.warnings.append
    name, version, oldest = "Redis", info.get("redis_version", ""), OLDEST_REDIS
    if "valkey_version" in info:
        name, version, oldest = "Valkey", info["valkey_version"], OLDEST_VALKEY
    if version and numbers(version) < oldest:
        refuse(f"it is {name} {version}; tarry needs at least Redis 6.2 or Valkey 7.2")
    if scripting is not None:
        refuse(f"it runs no scripts ({scripting}); allow EVALSHA, EVAL and SCRIPT LOAD")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy.startswith("allkeys"):
        refuse(f"its maxmemory-policy is {policy}, which silently drops jobs; set it to noeviction")
    elif policy != "noeviction":
        warn(f"its maxmemory-policy is {policy}; only noeviction never drops a key")
    if info.get("aof_enabled", "1") == "0" and save == "":
        warn("it has no persistence: a restart loses every job; set appendonly yes")
    if info.get("redis_mode", info.get("server_mode")) == "sentinel":
        report.refusals = ["it is a Sentinel; use redis+sentinel://host:port/name"]
    if info.get("cluster_enabled") == "1" and not cluster:
        refuse("it is a node of a Cluster; use redis+cluster://host:port")
    return report


def check_fitness(
    replies: list[object], shown: str, *, cluster: bool = False, scripts: bool = True
) -> frozenset[bytes]:
    """Judges the replies to ``probe_commands``; returns the commands that this user may not run. Raises ``ServerUnfit``, logs
    warnings, or raises a ``Fault`` if the server cannot be judged yet. ``scripts=False``: for a use that needs none."""
    info, save, scripting = parse_probe(replies)
    report = assess(info, save, scripting if scripts else None, cluster=cluster)
    if report.refusals:
        raise ServerUnfit(f"The server at {shown} cannot be used: {'; '.join(report.refusals)}.")
    for warning in report.warnings:
        said, now = (info.get("run_id", shown), warning), object()
        if warned.setdefault(said, now) is now:
            logger.warning("The server at %s: %s.", shown, warning)
    forbidden = replies[2]
    return frozenset(forbidden) if isinstance(forbidden, list) else frozenset()


def parse_probe(replies: Sequence[object]) -> tuple[dict[str, str], str | None, str | None]:
    """The arguments of ``assess`` from the replies to ``probe_commands``, and to ``SAVE`` if it was sent. Raises a ``Fault`` that
    says nothing about the server's fitness."""
    info, scripting, may, *save = replies
    for reply in replies:
        if isinstance(reply, (TryLater, ConnectionLost)):  # it is loading, or a script keeps it busy
            raise reply
    saves = save[0][1].decode() if save and isinstance(save[0], list) and len(save[0]) == 2 else None
    scripting_reply = may if isinstance(scripting, NoScript) else scripting
    return parse_info(info), saves, str(scripting_reply) if isinstance(scripting_reply, Fault) else None


def parse_info(reply: object) -> dict[str, str]:
    """The fields of a reply to INFO; none of another reply."""
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else ""
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}


def numbers(version: str) -> tuple[int, ...]:
    """Major and minor of a version, for comparison."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


# ── the master ───────────────────────────────────────────────────────────────────────────────────────────────────────


class DroppableServer(Protocol):
    """A server whose connections can all be dropped."""

    url: str

    def drop_all(self) -> None:
        """Drops all connections, from any thread; requests without a reply fail."""


class MasterCheck(Protocol):
    """Knows whether a server is the master. ``confirm_master`` and ``refuse_if_replaced`` raise a ``Fault`` if it is not."""

    def register(self, server: DroppableServer) -> None:
        """Drops the server's connections when it is no longer the master."""

    def confirm_master(self, url: str, within_s: float) -> None:
        """Before a connection is made; blocks."""

    def refuse_if_replaced(self, url: str) -> None:
        """When the connection is made."""


class LiveObjects(Generic[T]):
    """Weak references to objects that still exist. Thread-safe, even while the garbage collector removes one."""

    def __init__(self) -> None:
        self._refs: dict[int, ref[T]] = {}

    def add(self, value: T) -> None:
        refs, key = self._refs, id(value)
        refs[key] = ref(value, lambda _: refs.pop(key, None))

    def all(self) -> list[T]:
        return [value for weak in self._refs.copy().values() if (value := weak()) is not None]


ROLE = ((b"ROLE",), (b"INFO", b"replication"))
"""INFO is for users whose ACL forbids ROLE."""


def judge_role(replies: Replies) -> None:
    """Raises a ``Fault`` unless the server says that it is a master, or the user may ask neither command."""
    role, info = replies
    for reply in replies:
        if isinstance(reply, (ConnectionLost, TryLater)):
            raise reply
    if (isinstance(role, list) and role[0] != b"master") or (isinstance(info, bytes) and b"role:master" not in info):
        raise IsReplica("it is a replica; waiting for its master")
