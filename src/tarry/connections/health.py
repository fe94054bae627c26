"""Reads and assesses a server: version, persistence, memory, clock, response time; with notes on problems."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any

from tarry.connections import fitness
from tarry.connections.faults import Fault
from tarry.connections.resp import AnyReplies
from tarry.core.requests import Asking

if TYPE_CHECKING:
    from tarry.connections.server_changes import ServerChanges

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
    info: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The fields of its INFO."""

    @property
    def redis_version(self) -> tuple[int, ...]:
        """Major and minor of a Redis; nothing of a Valkey."""
        return () if "valkey_version" in self.info else fitness.numbers(self.info.get("redis_version", ""))

    @property
    def slow_ms(self) -> float | None:
        """Its response time if that is slow."""
        return self.answer_ms if self.answer_ms > SLOW_MS else None


class NodeReader:
    """Reads the servers behind a client; its steps are for ``ask_servers``. ``watched``: by Sentinels. Not thread-safe."""

    def __init__(self, *, cluster: bool, watched: bool = False) -> None:
        self._cluster, self._watched = cluster, watched

    @cached_property
    def changes(self) -> ServerChanges:
        """The notes on changes of the servers that it has read, as far as it was told."""
        from tarry.connections.server_changes import ServerChanges

        return ServerChanges()

    def ping(self) -> Asking[float]:
        """Asks whether it is reachable and runs scripts. Returns in how many ms it answered."""
        began = time.perf_counter()
        yield (b"PING",), (b"EVAL", b"return 1", b"0")
        return (time.perf_counter() - began) * 1000

    def read_info(self) -> Asking[Node]:
        """A judgement by its INFO and its response time alone."""
        answer_ms = yield from self.ping()
        [info] = yield ((b"INFO",),)
        return assess_node(
            fitness.parse_info(info), None, None, cluster=self._cluster, answer_ms=answer_ms, clock_ms=None
        )

    def read(self, *, pings: int = 1) -> Asking[Node]:
        """All that can be found out; the response time is the median of ``pings``."""
        replies = yield AnyReplies(fitness.probe_commands())
        if fitness.wants_save(replies):
            replies += yield AnyReplies((fitness.SAVE,))
        info, save, scripting = fitness.parse_probe(replies)
        spans: list[float] = []
        for _ in range(pings):
            began = time.perf_counter()
            yield AnyReplies(((b"PING",),))
            spans.append((time.perf_counter() - began) * 1000)
        node = assess_node(
            info, save, scripting, cluster=self._cluster, answer_ms=median(spans), clock_ms=(yield from _clock_ms())
        )
        if not self._watched:
            return node
        found = alone(info, (yield from _replica_settings()))
        loses_jobs = node.loses_jobs or any(note != UNREADABLE for note in found)
        return replace(node, notes=(*node.notes, *found, *without_replica(info)), loses_jobs=loses_jobs)


def _clock_ms() -> Asking[float | None]:
    """The difference of the server's clock to ours, assuming it was read in the middle of the round trip."""
    before = time.time()
    [reply] = yield AnyReplies(((b"TIME",),))
    after = time.time()
    if isinstance(reply, Fault):
        return None
    server_time: Any = int(reply[0]) + int(reply[1]) / 1e6
    return round(float(server_time - (before + after) / 2) * 1000, 3)


def _replica_settings() -> Asking[dict[str, str] | None]:
    """Its settings about replicas; ``None`` if this user may not read them."""
    [reply] = yield AnyReplies(((b"CONFIG", b"GET", b"min-replicas-*"),))
    if not isinstance(reply, list):
        return None
    words = [word.decode() for word in reply]
    return dict(zip(words[::2], words[1::2], strict=True))


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
        info=info,
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


def without_replica(info: dict[str, str]) -> list[str]:
    """A note on a master behind Sentinels that no replica follows, for example since a fail-over."""
    if info.get("role") == "master" and info.get("connected_slaves") == "0":
        return ["no replica follows it, so nothing takes over if it is lost; start the one that is away, or add one"]
    return []


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
