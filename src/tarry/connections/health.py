"""Assesses a server: version, persistence, memory, clock, response time; with notes on problems. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from tarry.connections import fitness

SLOW_MS, SKEWED_MS, FULL, LAG_S = 20.0, 1000.0, 0.9, 5
"""Limits above which there is a note: response time, difference of the clocks, fraction of maxmemory in use, and for how long
a master accepts writes without its replicas."""
PAGE = "docs/how-to/choose-a-server.md"
UNREADABLE = "whether its min-replicas-to-write equals its number of replicas can only be read with +config|get"


@dataclass(frozen=True, slots=True)
class Node:
    """The assessment of one server. ``clock_ms`` is how far its clock is ahead of this machine's."""

    version: str
    policy: str | None
    persistence: str | None
    memory: int | None
    max_memory: int | None
    answer_ms: float
    clock_ms: float | None
    notes: tuple[str, ...]
    loses_jobs: bool = False
    """Whether a restart or a fail-over loses jobs that it has accepted."""
    unfit: tuple[str, ...] = ()
    """Those notes for which it cannot keep, take or hand out jobs as it should."""

    @property
    def slow_ms(self) -> float | None:
        """Its response time if that is slow."""
        return self.answer_ms if self.answer_ms > SLOW_MS else None


def assess_node(
    info: dict[str, str],
    save: str | None,
    scripting: str | None,
    *,
    cluster: bool,
    answer_ms: float,
    clock_ms: float | None,
) -> Node:
    """Assesses a server by the answers to ``fitness.probe_commands()``, its ``save`` setting (``None``: unknown) and two measurements."""
    verdict = fitness.assess(info, save, scripting, cluster=cluster)
    memory, most = _number(info, "used_memory"), _number(info, "maxmemory")
    notes, unfit = [*verdict.refusals, *verdict.warnings], list(verdict.refusals)
    if info.get("aof_enabled") == "0" and save is None:
        notes.append(
            "it has no append-only file, and it is unknown whether it saves snapshots: this user may not CONFIG GET; the "
            "server's administrator may"
        )
    if info.get("aof_enabled") == "0" and save:
        notes.append("it saves snapshots only: after a crash the jobs since the last one are lost; set appendonly yes")
    if info.get("role") == "slave":
        unfit.append("it is a replica, and takes no jobs")
    failing = "err" in (info.get("rdb_last_bgsave_status"), info.get("aof_last_write_status"))
    if failing:
        unfit.append("its last write to disk failed; its log has the reason")
    if memory and most and memory > FULL * most:
        unfit.append(f"{memory / most:.0%} of its maxmemory are used; it will soon refuse new jobs")
    notes += unfit[len(verdict.refusals) :]
    if answer_ms > SLOW_MS:
        notes.append(
            f"it took {answer_ms:.0f} ms to answer this machine: it is busy, or the network is slow; SLOWLOG GET names its slow "
            "commands, and ping measures the network"
        )
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
        unfit=tuple(unfit),
        loses_jobs=failing or (info.get("aof_enabled", "1") == "0" and save == ""),
    )


def alone(info: dict[str, str], settings: dict[str, str] | None) -> list[str]:
    """Notes on a master behind Sentinels: whether it accepts writes without its replicas, and so loses jobs. ``settings``: its
    ``min-replicas-…``; ``None`` if they cannot be read."""
    if info.get("role") != "master":
        return []
    replicas = _number(info, "connected_slaves") or 0
    if settings is None and "min_slaves_good_slaves" in info:
        return [UNREADABLE]
    wanted = int((settings or {}).get("min-replicas-to-write", "0"))
    if not wanted or (settings is None and "min_slaves_good_slaves" not in info):
        lost = "cut off from its replicas it still accepts jobs, which are lost when a replica becomes the master"
        return [f"it has no min-replicas-to-write: {lost}; set it to {max(replicas, 1)} ({PAGE})"]
    notes = list[str]()
    if wanted < replicas:
        notes.append(
            f"its min-replicas-to-write is {wanted}, and it has {replicas} replicas: jobs that it accepts while one of them becomes the "
            f"master are lost; set it to {replicas} ({PAGE})"
        )
    if (lag := int((settings or {}).get("min-replicas-max-lag", "0"))) > LAG_S:
        notes.append(
            f"its min-replicas-max-lag is {lag}: it accepts jobs for so many seconds without its replicas; set it to 2"
        )
    return notes


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
