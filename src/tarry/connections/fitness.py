"""Is a server fit to keep jobs? Judged from its own words, once for each connection to a new server.

Refused: older than Redis 6.2 or Valkey 7.2; no scripting; an eviction policy that may drop any key.
Warned of: a policy that drops keys with an expiry; no persistence, if its user may ask.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from tarry.connections.faults import ConnectionLost, Fault, NoScript, TryLater
from tarry.errors import ServerUnfit

logger = logging.getLogger("tarry")

COMMANDS = tuple(
    b"TIME/0 DEL EXISTS GET HGETALL HLEN LLEN LPOP PERSIST PTTL RPOP TYPE UNLINK ZCARD HRANDFIELD EXPIRE/2 HDEL/2 HEXISTS/2 "
    b"HGET/2 HMGET/2 HSCAN/2 HSTRLEN/2 LINDEX/2 LPOS/2 LPUSH/2 MSET/2 PEXPIRE/2 RPUSH/2 SET/2 SETNX/2 ZMSCORE/2 ZREM/2 "
    b"ZSCAN/2 ZSCORE/2 HINCRBY/3 HINCRBYFLOAT/3 HSET/3 HSETNX/3 LRANGE/3 LREM/3 LSET/3 ZADD/3 ZCOUNT/3 ZRANGE/3 "
    b"ZREMRANGEBYSCORE/3 HPERSIST/4 HPTTL/4 HPEXPIRE/5".split()
)
"""Everything that a script of tarry runs, and how many words it wants at least (1, if it does not say): its key and others.
A script that was stopped half-way would leave half of its work."""
ACL_CHECK_SCRIPT = b"""
local no = {}
if not redis.acl_check_cmd then return no end  -- Redis 6.2 cannot tell
local function may(command, ...) return select(2, pcall(redis.acl_check_cmd, command, ...)) ~= false end
if not may('CONFIG', 'GET', 'save') then no[1] = 'CONFIG' end
if not may('EXISTS', ARGV[1]) and not may('ZADD', ARGV[1], '0', '0') then return no end  -- of this key nothing can be said
for i = 2, #ARGV do
  local command, words = ARGV[i]:match('(%a+)/?(%d*)')
  local given = {ARGV[1], '0', '0', '0', '0'}
  if not may(command, unpack(given, 1, tonumber(words) or 1)) then no[#no + 1] = command end
end
return no
"""


def probe_commands(key: bytes = b"") -> tuple[tuple[bytes, ...], ...]:
    """What is asked. A script that nobody knows answers NOSCRIPT where scripting works; the last answers what the user may
    not do with a key. What is not a whole command must not be asked for: servers fall over it."""
    may = (b"EVAL", ACL_CHECK_SCRIPT, b"0", key or SOME_KEY, *COMMANDS)
    return (b"INFO",), (b"EVALSHA", b"0" * 40, b"0"), may


SAVE = (b"CONFIG", b"GET", b"save")
"""With it go all other settings, passwords among them, so it is in no role's line."""


def wants_save(replies: Sequence[object]) -> bool:
    """Whether ``SAVE`` is to be asked, too, and its answer put behind these: without an append-only file only it tells whether
    the server keeps anything. Not where the user may not: each refusal stands in the server's ACL log."""
    info, _, may = replies
    return isinstance(info, bytes) and b"aof_enabled:0" in info and not (isinstance(may, list) and b"CONFIG" in may)


SOME_KEY = b"tarry:"

OLDEST_REDIS, OLDEST_VALKEY = (6, 2), (7, 2)


@dataclass(slots=True)
class FitnessReport:
    refusals: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def assess(info: dict[str, str], save: str | None, scripting: str | None, *, cluster: bool = False) -> FitnessReport:
    """``info`` of the server, its ``save`` setting (``None``: not told), and why it runs no scripts (``None``: it does)."""
    verdict = FitnessReport()
    refuse, warn = verdict.refusals.append, verdict.warnings.append
    name, version, oldest = "Redis", info.get("redis_version", ""), OLDEST_REDIS
    if "valkey_version" in info:
        name, version, oldest = "Valkey", info["valkey_version"], OLDEST_VALKEY
    if version and numbers(version) < oldest:
        refuse(f"it is {name} {version}; tarry needs Redis 6.2 or Valkey 7.2 at least")
    if scripting is not None:
        refuse(f"it runs no scripts ({scripting}); allow EVALSHA, EVAL and SCRIPT LOAD")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy.startswith("allkeys"):
        refuse(f"its maxmemory-policy is {policy}, which drops jobs without a word; set it to noeviction")
    elif policy != "noeviction":
        warn(f"its maxmemory-policy is {policy}; noeviction is the one that never drops a key")
    if info.get("aof_enabled", "1") == "0" and save == "":
        warn("it has no persistence: a restart loses every job; set appendonly yes")
    if info.get("redis_mode", info.get("server_mode")) == "sentinel":
        verdict.refusals = ["it is a Sentinel; use redis+sentinel://host:port/name"]
    if info.get("cluster_enabled") == "1" and not cluster:
        refuse("it is a node of a Cluster; use redis+cluster://host:port")
    return verdict


def check_fitness(
    replies: list[object], shown: str, *, cluster: bool = False, scripts: bool = True
) -> frozenset[bytes]:
    """From the answers to ``probe_commands``: the commands that this user may not run. Raises ``ServerUnfit`` or logs warnings; a
    ``Fault`` when it cannot be judged yet. ``scripts=False``: for a use that needs none."""
    info, save, scripting = parse_probe(replies)
    verdict = assess(info, save, scripting if scripts else None, cluster=cluster)
    if verdict.refusals:
        raise ServerUnfit(f"The server at {shown} cannot be used: {'; '.join(verdict.refusals)}.")
    for warning in verdict.warnings:
        logger.warning("The server at %s: %s.", shown, warning)
    forbidden = replies[2]
    return frozenset(forbidden) if isinstance(forbidden, list) else frozenset()


def parse_probe(replies: Sequence[object]) -> tuple[dict[str, str], str | None, str | None]:
    """The answers to ``probe_commands``, and to ``SAVE`` if that was asked, as what ``assess`` wants. Raises a ``Fault`` that tells nothing of
    the server."""
    info, scripting, may, *save = replies
    for reply in replies:
        if isinstance(reply, (TryLater, ConnectionLost)):  # it loads, or a script holds it up
            raise reply
    told = _parse(info) if isinstance(info, bytes) else {}
    saves = save[0][1].decode() if save and isinstance(save[0], list) and len(save[0]) == 2 else None
    answered = may if isinstance(scripting, NoScript) else scripting
    return told, saves, str(answered) if isinstance(answered, Fault) else None


def _parse(info: bytes) -> dict[str, str]:
    pairs = (line.partition(":") for line in info.decode("utf-8", "replace").splitlines() if not line.startswith("#"))
    return {name: value for name, _, value in pairs}


def numbers(version: str) -> tuple[int, ...]:
    """Of a version, the first two: what came when is told by them."""
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
