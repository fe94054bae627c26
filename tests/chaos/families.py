"""The families of faults: what is done, on which servers, by whom, and what is promised meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from . import environment, worker_faults
from .environment import Environment, Fault

KILL = "Everything acknowledged is kept, except for what `everysec` may lose: the last second or two."
BACK = "A killed worker's jobs are ready again within two seconds; a living worker keeps its jobs while one of its connections works."
ALWAYS = "Never early; no old receipt accepted; no job twice without a promised reason; nothing acknowledged is lost."


@dataclass(frozen=True)
class Family:
    """One row of the page."""

    name: str
    fault: str
    """What is done, for people."""
    promise: str
    make_environment: Callable[[], AbstractContextManager[Environment]]
    faults: dict[Fault, int]
    """And how often each, against the others."""
    gap_s: tuple[float, float] = (1.0, 4.0)
    """From the end of one to the beginning of the next."""
    topics: tuple[str, ...] = ("one", "two")
    workload: str = "all"
    partitions: int = 0
    min_replicas: int = 0
    server_clock: bool = True
    clients_off: int = 0
    """So many seconds every other client's clock is wrong."""
    confined: bool = False
    """Runs in a network and a mount namespace of its own."""
    options: dict[str, Any] = field(default_factory=dict)
    rate: float = 1.0
    """Of the adds, against the usual."""

    @property
    def limits_of_keys(self) -> dict[str, int]:
        return {name: self.options[name] for name in ("keys", "key_concurrency") if name in self.options}


def _family(*given: Any, **named: Any) -> Family:
    return Family(*given, **named)


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        _family("calm", "nothing", ALWAYS, environment.one_server, {}),
        _family(
            "server-killed", "the server is killed (kill -9) and started again, `appendfsync everysec`", KILL,
            environment.one_server, {environment.server_killed: 1},
        ),
        _family(
            "redis-8", "Redis 8.2 instead of Valkey 9: server killed, processes killed, server frozen", KILL,
            lambda: environment.one_server("redis8"), {environment.server_killed: 3, environment.client_killed: 3, environment.frozen_server: 1},
        ),
        _family(
            "redis-7", "Redis 7.0: server killed, processes killed, server frozen", KILL,
            lambda: environment.one_server("redis7"), {environment.server_killed: 3, environment.client_killed: 3, environment.frozen_server: 1},
        ),
        _family(
            "processes-killed", "producers, consumers, workers, their children and the service are killed (kill -9)",
            "The jobs of a dead process are handed out again after their time to run, or at once if a parent process releases them. A killed worker's jobs go to "
            "another running worker within two seconds if the server sees its connection end, otherwise after their time to run.",
            environment.one_server, {environment.client_killed: 6, environment.all_of_a_role_killed: 1, environment.service_killed: 1},
            gap_s=(0.2, 1.5),
        ),
        _family(
            "frozen", "workers, producers, consumers, the service and the server are suspended (SIGSTOP) and continued",
            "A process that continues too late is refused and does no harm.", environment.one_server,
            {environment.client_frozen: 4, environment.frozen_server: 1},
        ),
        _family(
            "line", "a proxy delays, cuts, resets and refuses connections, or leaves them half open",
            "A call is repeated safely. If the answer to an add is lost, and the job is finished before the add is repeated, the job runs once more.", environment.proxied,
            {environment.line_slow: 2, environment.line_cut: 2, environment.line_reset: 3, environment.line_half_open: 1, environment.line_refused: 2},
        ),
        _family(
            "cluster", "Cluster of 3 + 3: masters killed, CLUSTER FAILOVER, slots moved under load",
            "A planned fail-over and a moved slot lose nothing; a killed master loses what it had not replicated.",
            environment.a_cluster, {environment.cluster_master_killed: 2, environment.cluster_failover: 2, environment.cluster_slot_moved: 3},
            gap_s=(2, 4), topics=("one", "two", "three", "four", "five", "six"), rate=0.6,
        ),
        _family(
            "sentinel", "Sentinels: master killed, frozen, planned switches",
            "What is acknowledged later than 1 s after the switch is kept. Of what was acknowledged earlier, the part that was not yet replicated is lost.",
            lambda: environment.under_sentinels(0),
            {environment.sentinel_master_killed: 2, environment.sentinel_master_frozen: 1, environment.sentinel_planned: 2}, gap_s=(3, 6),
        ),
        _family(
            "sentinel-safe", "Sentinels with `min-replicas-to-write 1`: planned switches, master killed",
            "A planned switch loses nothing; a killed master loses what it had not replicated.",
            lambda: environment.under_sentinels(1), {environment.sentinel_planned: 4, environment.sentinel_master_killed: 1},
            gap_s=(3, 6), min_replicas=1,
        ),
        _family(
            "memory-full", "`maxmemory` reached, `noeviction`",
            "Adds are refused with an error, popping and finishing still work, nothing is half done.", environment.one_server,
            {environment.memory_full: 1},
        ),
        _family(
            "server-clock", "the server's clock steps forwards and backwards, by up to an hour",
            "Never early by the server's own clock; receipts rise whatever the clock does.", environment.faked_clock,
            {environment.clock_stepped: 1}, server_clock=False,
        ),
        _family(
            "client-clocks", "every other client's clock is an hour ahead or behind; processes killed",
            "Only the server's clock decides.", environment.one_server, {environment.client_killed: 1}, clients_off=3600,
        ),
        _family(
            "disk-full", "the disk of the append-only file is full for a while",
            "Calls are refused with an error; everything acknowledged stays.", environment.small_disk, {environment.disk_full: 1},
            gap_s=(3, 6), confined=True,
        ),
        _family(
            "torn-tail", "the server is killed and the end of its append-only file is torn off",
            "Everything before the torn end is intact; what is lost was acknowledged in the last second or two.",
            environment.one_server, {environment.tail_torn: 1},
        ),
        _family(
            "zookeeper", "guarded queues and locks under a ZooKeeper that is restarted and frozen; processes killed",
            "One holder at a time, tokens rise, an item is polled once.", environment.with_zookeeper,
            {environment.zookeeper_restarted: 2, environment.zookeeper_frozen: 1, environment.client_killed: 2}, gap_s=(2, 5), workload="guarded",
        ),
        _family(
            "partitions", "topics of 8 partitions: server killed, processes killed, server frozen", KILL,
            environment.one_server, {environment.server_killed: 2, environment.client_killed: 2, environment.frozen_server: 1}, partitions=8,
        ),
        _family(
            "keys", "jobs of 20 keys that take turns, four of each at a time: server killed, processes killed and frozen, lines cut and reset",
            "Never more jobs of a key are reserved than its limit; no job is lost where it waits.", environment.proxied,
            {
                environment.server_killed: 1, environment.client_killed: 3, environment.client_frozen: 1, environment.line_reset: 2, environment.line_cut: 1,
            },
            gap_s=(0.5, 2), options={"keys": 20, "key_concurrency": 4}, rate=0.5,
        ),
        _family(
            "migrate", "`tarry migrate` moves topics to partitions on another server, is killed and started again; processes killed",
            "A job is never lost, and never handed out in both places.", environment.two_servers,
            {environment.migrated: 3, environment.client_killed: 2}, gap_s=(0.2, 1), topics=("old",), workload="migrating",
            options={"no_deletes": True}, rate=0.8,
        ),
        _family(
            "packets-lost", "1 to 25 % of all packets are lost, in a network namespace of its own",
            "A call is repeated safely.", environment.one_server, {environment.packets_lost: 1}, confined=True,
        ),
        _family(
            "upgrade", "processes of an older version and of this one use one server; they are replaced one by one, forwards and back, by SIGTERM and kill -9",
            "Both versions keep all promises side by side.", environment.one_server, {environment.upgraded: 1}, gap_s=(0.2, 1.5), workload="mixed",
        ),
        _family(
            "half-open-lines", "subscriptions, blocked connections and others of workers end without their notice, alone and together, for 1 to 30 s; "
            "workers killed", BACK, lambda: environment.proxied_workers(worker_faults.WORKERS), {worker_faults.lines_half_open: 1}, gap_s=(0.5, 3), workload="workers",
        ),
        _family(
            "observers-killed", "the workers that look for others are killed and suspended, and all workers of a host, while new ones start", BACK,
            environment.one_server,
            {
                worker_faults.one_worker_killed: 2, worker_faults.one_observer_killed: 2, worker_faults.observers_killed: 4,
                worker_faults.observers_frozen: 2, worker_faults.most_workers_killed: 1, worker_faults.all_workers_killed: 2,
            },
            gap_s=(0.5, 3), workload="workers",
        ),
        _family(
            "starts", "workers are killed by their first jobs, and at any moment of their start; all but a newcomer are killed", BACK,
            environment.one_server,
            {worker_faults.killed_at_the_start: 3, worker_faults.killed_before_the_start: 2, worker_faults.one_newcomer: 1},
            gap_s=(0.5, 2), workload="workers",
        ),
        _family(
            "clock-steps", "the server's clock is set back and forth, up to 5 minutes, before, while and after workers are killed", BACK,
            environment.faked_clock, {worker_faults.clock_stepped_while_killed: 1}, gap_s=(1, 3), workload="workers", server_clock=False,
        ),
        _family(
            "mixed", "connections broken by a proxy, server killed, processes killed and frozen, memory full: all in one run", KILL, environment.proxied,
            {
                environment.server_killed: 1, environment.client_killed: 3, environment.client_frozen: 1, environment.line_reset: 1, environment.line_cut: 1,
                environment.line_refused: 1, environment.memory_full: 1,
            },
            gap_s=(0.5, 2),
        ),
    )
}  # fmt: skip
