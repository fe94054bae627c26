"""Is a server fit to keep jobs? Judged from its own words, once for each connection to a new server.

Refused: older than Redis 6.2 or Valkey 7.2; no scripting; an eviction policy that may drop any key.
Warned of: a policy that drops keys with an expiry; no persistence.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from tarry.errors import ServerUnfit
from tarry.links.faults import Later, Lost, NoScript

logger = logging.getLogger("tarry")

PROBE = ((b"INFO",), (b"CONFIG", b"GET", b"save"), (b"EVALSHA", b"0" * 40, b"0"))
"""What is asked; a script that nobody knows answers NOSCRIPT where scripting works."""

OLDEST_REDIS, OLDEST_VALKEY = (6, 2), (7, 2)


@dataclass(slots=True)
class Verdict:
    refusals: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def judge(info: dict[str, str], save: str | None, scripting: str | None, *, cluster: bool = False) -> Verdict:
    """``info`` of the server, its ``save`` setting (``None``: not told), and why it runs no scripts (``None``: it does)."""
    verdict = Verdict()
    refuse, warn = verdict.refusals.append, verdict.warnings.append
    name, version, oldest = "Redis", info.get("redis_version", ""), OLDEST_REDIS
    if "valkey_version" in info:
        name, version, oldest = "Valkey", info["valkey_version"], OLDEST_VALKEY
    if version and _numbers(version) < oldest:
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
    if info.get("cluster_enabled") == "1" and not cluster:
        refuse("it is a node of a Cluster; use redis+cluster://host:port")
    return verdict


def check(replies: list[object], shown: str, *, cluster: bool = False, scripts: bool = True) -> None:
    """``scripts=False``: for a use that needs none. Raises ``ServerUnfit`` or logs warnings, from the answers to ``PROBE``; a ``Fault`` when it cannot be judged yet."""
    info, save, scripting = read(replies)
    verdict = judge(info, save, scripting if scripts else None, cluster=cluster)
    if verdict.refusals:
        raise ServerUnfit(f"The server at {shown} cannot be used: {'; '.join(verdict.refusals)}.")
    for warning in verdict.warnings:
        logger.warning("The server at %s: %s.", shown, warning)


def read(replies: list[object]) -> tuple[dict[str, str], str | None, str | None]:
    """The answers to ``PROBE`` as what ``judge`` wants. Raises a ``Fault`` that tells nothing of the server."""
    info, save, scripting = replies
    for reply in replies:
        if isinstance(reply, (Later, Lost)):  # it loads, or a script holds it up
            raise reply
    told = _parse(info) if isinstance(info, bytes) else {}
    saves = save[1].decode() if isinstance(save, list) and len(save) == 2 else None
    return told, saves, None if isinstance(scripting, NoScript) else str(scripting)


def _parse(info: bytes) -> dict[str, str]:
    pairs = (line.partition(":") for line in info.decode("utf-8", "replace").splitlines() if not line.startswith("#"))
    return {name: value for name, _, value in pairs}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
