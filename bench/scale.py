"""``python -m bench.scale``: the capacity of one shard, and the shards for higher rates, computed from the last full run.

    docs/evidence/benchmarks.json ──▶ µs, bytes and memory a job ──▶ docs/explanation/scale.md, between its markers

Nothing is measured here. Assumptions are in ``Assumed`` and on the page.
"""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from bench import table
from bench.rows.cluster import LIFE, MASTERS, PARTITIONS

ROOT = Path(__file__).resolve().parent.parent
READINGS, PAGE = ROOT / "docs" / "evidence" / "benchmarks.json", ROOT / "docs" / "explanation" / "scale.md"
BEGIN, END = "<!-- scale: tables -->", "<!-- scale: end -->"
RATES, PENDING = (1_000, 100_000, 1_000_000), 1_000_000_000
MILLION, GIGA = 1_000_000, 1_000_000_000


@dataclass(frozen=True)
class Assumed:
    """The assumptions: values that are not measured."""

    busy: float = 0.6
    """The load of a server's thread and of a client's core; above it, waiting times grow fast."""
    headroom: float = 1.5
    """The factor of memory for fragmentation, and for pages that are copied while a snapshot is written."""
    shard_gb: float = 25
    """The data of one master; more takes long to snapshot, to copy to a replica, and to load."""
    partition_jobs: int = MILLION
    """The jobs of one partition; moving its hash to another node blocks the server for 1.2 to 1.6 s."""


@dataclass(frozen=True)
class Style:
    """One way of adding, popping and finishing jobs."""

    name: str
    add_server_us: float
    add_client_us: float
    out_server_us: float
    out_client_us: float
    bytes_in: float
    bytes_out: float

    @property
    def server_us(self) -> float:
        return self.add_server_us + self.out_server_us

    @property
    def client_us(self) -> float:
        return self.add_client_us + self.out_client_us


class Readings:
    """The readings of one run, by row and a part of the measure's name."""

    def __init__(self, output: dict[str, Any]) -> None:
        self._results = output["results"]
        self.about = output["about"]

    def value(self, row: str, measure: str) -> float:
        return statistics.median(self._find(row, measure)["tarry"])

    def yardstick(self, row: str, measure: str) -> float:
        return statistics.median(self._find(row, measure)["yardstick"])

    def detail(self, row: str, measure: str, name: str) -> float:
        return float(self._find(row, measure)["details"][name])

    def _find(self, row: str, measure: str) -> dict[str, Any]:
        for one in self._results:
            if one["row"] == row and measure in one["measure"]:
                found: dict[str, Any] = one
                return found
        sys.exit(
            f"{READINGS.name} has no row {row!r} with {measure!r}; python -m bench --write docs/evidence/benchmarks.md makes it."
        )


def styles(run: Readings) -> list[Style]:
    def out(slots: str, what: str) -> float:
        return run.detail("burst", f"{slots} in hand", f"tarry {what}")

    def style(name: str, row: str, slots: str) -> Style:
        server, client = (run.detail(row, "", f"tarry {side} µs") for side in ("server", "client"))
        sent, answered = (run.detail("add_many", "", f"tarry bytes {way}") for way in ("in", "out"))
        return Style(
            name, server, client, out(slots, "server µs"), out(slots, "client µs"),
            sent + out(slots, "bytes in"), answered + out(slots, "bytes out"),
        )  # fmt: skip

    return [
        style("added one by one, blocking; worker with 100 slots", "add", " 100"),
        style("added by 64 tasks of one process; worker with 1,000 slots", "add_tasks", "1,000"),
        style("added 1,000 at a time; worker with 1,000 slots", "add_many", "1,000"),
    ]


def over_masters(run: Readings, assumed: Assumed) -> list[str]:
    """The throughput of several masters with partitions: a job's whole life in batches, limited by the busiest master."""
    busiest = {1: run.yardstick("cluster", LIFE), MASTERS: run.value("cluster", LIFE)}
    lines = [
        "| one topic, a job's life in batches | masters | client µs | masters' µs | busiest master's µs | jobs/s that the masters carry |"
    ]
    lines.append("|---|---|---|---|---|---|")
    plain = "plain topic"
    for name, label, masters in (
        (plain, "plain, on one server", 1),
        ("1 master", f"{PARTITIONS} partitions", 1),
        (f"{MASTERS} masters", f"{PARTITIONS} partitions", MASTERS),
    ):
        client, servers = (run.detail("cluster", LIFE, f"{name} {whose} µs") for whose in ("client", "servers"))
        most = servers if name == plain else busiest[masters]
        carry = assumed.busy * MILLION / most
        lines.append(f"| {label} | {masters} | {client:.1f} | {servers:.1f} | {most:.1f} | {carry:,.0f} |")
    return lines


def as_markdown(run: Readings, assumed: Assumed) -> str:
    memory = run.value("memory", "")
    found = styles(run)
    lines = ["| a job's life | server µs | client µs | bytes to and from the server | jobs/s that one shard carries |"]
    lines.append("|---|---|---|---|---|")
    for style in found:
        carries = assumed.busy * MILLION / style.server_us
        traffic = f"{style.bytes_in:.0f} + {style.bytes_out:.0f}"
        lines.append(f"| {style.name} | {style.server_us:.1f} | {style.client_us:.1f} | {traffic} | {carries:,.0f} |")
    lines += ["", "| jobs/s | way of adding | masters | client cores | network in total |", "|---|---|---|---|---|"]
    for rate in RATES:
        for style in found:
            masters = ceil(rate * style.server_us / MILLION / assumed.busy)
            cores = ceil(rate * style.client_us / MILLION / assumed.busy)
            traffic = rate * (style.bytes_in + style.bytes_out) * 8 / GIGA
            name = style.name.partition(";")[0]
            lines.append(f"| {rate:,} | {name} | {masters:,} | {cores:,} | {traffic:,.2f} Gbit/s |")
    raw, needed = PENDING * memory / GIGA, PENDING * memory * assumed.headroom / GIGA
    pending = (
        f"**{PENDING:,} pending jobs** of 200 bytes: {memory:.0f} bytes each, {raw:,.0f} GB of data, "
        f"{needed:,.0f} GB with headroom; {ceil(raw / assumed.shard_gb)} masters of {assumed.shard_gb:g} GB of data, "
        f"as many replicas, and {ceil(PENDING / assumed.partition_jobs):,} partitions."
    )
    from_what = (
        f"Computed from a run with {run.about['processors']} processors, Python {run.about['python']}. Assumed: processors "
        f"{assumed.busy:.0%} busy, memory × {assumed.headroom:g} as headroom, {assumed.shard_gb:g} GB of data a master, "
        f"{assumed.partition_jobs:,} jobs a partition."
    )
    lines += ["", *over_masters(run, assumed), "", pending, "", from_what]
    return "\n".join(lines)


def main() -> None:
    run = Readings(json.loads(READINGS.read_text("utf-8")))
    table.write(PAGE, BEGIN, END, as_markdown(run, Assumed()))
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
