"""A server as people judge it: version, what may be lost, memory, clock, how soon it answers. Pure: its own words go in."""

from __future__ import annotations

from dataclasses import dataclass

from tarry.links import fitness

SLOW_MS, SKEWED_MS, FULL = 20.0, 1000.0, 0.9
"""Worth a word: an answer that takes so long, a clock so far from this machine's, so much of the memory that it may have."""


@dataclass(frozen=True, slots=True)
class Node:
    """One server. ``clock_ms``: so far is its clock ahead of this machine's."""

    version: str
    policy: str | None
    persistence: str | None
    memory: int | None
    max_memory: int | None
    answer_ms: float
    clock_ms: float | None
    notes: tuple[str, ...]


def judged(
    info: dict[str, str],
    save: str | None,
    scripting: str | None,
    *,
    cluster: bool,
    answer_ms: float,
    clock_ms: float | None,
) -> Node:
    """From the answers to ``fitness.probe()``, and two measurements."""
    verdict = fitness.judge(info, save, scripting, cluster=cluster)
    memory, most = _number(info, "used_memory"), _number(info, "maxmemory")
    notes = [*verdict.refusals, *verdict.warnings]
    if info.get("role") == "slave":
        notes.append("it is a replica, and takes no jobs")
    if "err" in (info.get("rdb_last_bgsave_status"), info.get("aof_last_write_status")):
        notes.append("it could not write its data to disk the last time; its log says why")
    if memory and most and memory > FULL * most:
        notes.append(f"{memory / most:.0%} of its maxmemory are used; soon it refuses new jobs")
    if answer_ms > SLOW_MS:
        notes.append(f"it takes {answer_ms:.0f} ms to answer")
    if clock_ms is not None and abs(clock_ms) > SKEWED_MS:
        notes.append(
            f"its clock is {abs(clock_ms) / 1000:.1f} s {'ahead of' if clock_ms > 0 else 'behind'} this machine's; "
            "due times are by its clock"
        )
    return Node(
        version=_version(info),
        policy=info.get("maxmemory_policy"),
        persistence=_persistence(info, save),
        memory=memory,
        max_memory=most or None,
        answer_ms=round(answer_ms, 3),
        clock_ms=clock_ms,
        notes=tuple(notes),
    )


def _version(info: dict[str, str]) -> str:
    if "valkey_version" in info:
        return f"Valkey {info['valkey_version']}"
    return f"Redis {info['redis_version']}" if "redis_version" in info else ""


def _persistence(info: dict[str, str], save: str | None) -> str | None:
    if info.get("aof_enabled") == "1":
        return "append-only file"
    return "snapshots" if save else None if save is None else "no persistence"


def _number(info: dict[str, str], name: str) -> int | None:
    text = info.get(name, "")
    return int(text) if text.isdigit() else None
