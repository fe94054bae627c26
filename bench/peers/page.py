"""The page: a table of everything, a table a row with the spread and the limit, the peers, the notes; and the chart."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import table
from bench.harness import Effort
from bench.peers import chart
from bench.peers.catalogue import PEERS, Peer
from bench.peers.readings import Readings
from bench.peers.rows import ROWS, Line, Row
from bench.results import Reading
from tarry.connections.embedded.server_process import find_binary

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence"
PAGE, DATA, CHART = EVIDENCE / "peers.md", EVIDENCE / "peers.json", EVIDENCE / "peers.svg"
BEGIN, END = "<!-- bench: peers -->", "<!-- bench: end -->"
NONE = "—"
LIMIT = "raw"
BUSY = (
    "**The machine did other things meanwhile.** Compare the columns of a row with each other, not with another run: "
    "every time is longer, and every rate lower, than on a quiet machine."
)


def machine(effort: Effort, rounds: int, *, busy: bool) -> dict[str, Any]:
    """When and where the run was, and what it measured with."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "server": " ".join(_said(str(find_binary()), "--version").split()[:3]),
        "beanstalkd": _said("beanstalkd", "-v"),
        "node": _said("node", "--version"),
        "load before": round(os.getloadavg()[0], 1),
        "busy": busy,
        "effort": effort,
        "rounds": rounds,
    }


def _said(*words: str) -> str:
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=10, check=False).stdout.strip()
    except OSError:
        return "not installed"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


class Notes:
    """The footnotes of a page, each once, numbered as they are met, with the peers that they are about."""

    def __init__(self) -> None:
        self._peers: dict[str, list[str]] = {}

    def mark(self, peer: Peer, text: str) -> str:
        if not text:
            return ""
        peers = self._peers.setdefault(text, [])
        if peer.title not in peers:
            peers.append(peer.title)
        return f" <sup>{list(self._peers).index(text) + 1}</sup>"

    def lines(self) -> list[str]:
        return [f"{at}. {', '.join(peers)}: {text}." for at, (text, peers) in enumerate(self._peers.items(), 1)]


def number(value: float) -> str:
    """Three digits that count."""
    if abs(value) >= 100:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}"


def shown_peers(readings: Readings) -> list[Peer]:
    missing = readings.about.get("missing", {})
    return [peer for name, peer in PEERS.items() if name in readings.rounds or name in missing]


def shown_lines(readings: Readings, name: str, row: Row) -> dict[str, Line]:
    return {key: line for key, line in row.lines.items() if readings.has(name, key)}


def reason_of(readings: Readings, peer: Peer, row: str, line: str) -> str:
    missing: str = readings.about.get("missing", {}).get(peer.name, "")
    return missing or readings.note(peer.name, row, line) or "not measured in this run"


def cell(readings: Readings, notes: Notes, peer: Peer, row: str, line: str, *, spread: bool) -> str:
    reading = readings.reading(peer.name, row, line)
    if reading is None:
        return NONE + notes.mark(peer, reason_of(readings, peer, row, line))
    text = number(reading.median)
    if spread and len(reading.values) > 1:
        text += f" ± {reading.spread / 2:.0%}"
    return text + notes.mark(peer, readings.note(peer.name, row, line))


def as_markdown(readings: Readings) -> str:
    notes, peers = Notes(), shown_peers(readings)
    rows = {name: row for name, row in ROWS.items() if any(name in kept for kept in readings.rounds.values())}
    parts = [*_summary(readings, notes, peers, rows)]
    for name, row in rows.items():
        parts += ["", f"### {row.title}", "", row.told, "", *_row_table(readings, notes, peers, name, row)]
    parts += ["", "### The peers", "", *_peer_list(readings, peers)]
    parts += ["", "### Notes", ""]
    parts += notes.lines() or ["None."]
    parts += ["", _measured(readings.about)]
    return "\n".join(parts)


def _summary(readings: Readings, notes: Notes, peers: list[Peer], rows: dict[str, Row]) -> list[str]:
    """Lines as rows and peers as columns: the limit is the first column."""
    lines = _head(["", *(_titled(peer) for peer in peers)])
    for name, row in rows.items():
        for key, line in shown_lines(readings, name, row).items():
            cells = [cell(readings, notes, peer, name, key, spread=False) for peer in peers]
            lines.append(_joined([f"{row.title}: {line.title}, {line.unit}", *cells]))
    return lines


def _row_table(readings: Readings, notes: Notes, peers: list[Peer], name: str, row: Row) -> list[str]:
    lines = shown_lines(readings, name, row)
    heads = [f"{line.title}, {line.unit}" for line in lines.values()]
    details = [(key, detail) for key, line in lines.items() for detail in line.details]
    heads += [f"{lines[key].title}: {detail}" for key, detail in details]
    table_lines = _head(["", *heads])
    for peer in peers:
        cells = [
            cell(readings, notes, peer, name, key, spread=True) + _of_limit(readings, peer, name, key, line)
            for key, line in lines.items()
        ]
        for key, detail in details:
            reading = readings.detail(peer.name, name, key, detail)
            cells.append(number(reading.median) if reading else NONE)
        table_lines.append(_joined([_titled(peer), *cells]))
    return table_lines


def _of_limit(readings: Readings, peer: Peer, row: str, key: str, line: Line) -> str:
    """How much of the rate of the bare commands it reaches."""
    mine, limit = readings.reading(peer.name, row, key), readings.reading(LIMIT, row, key)
    if peer.name == LIMIT or mine is None or limit is None or line.better == "less" or not limit.median:
        return ""
    return f", {ratio(mine, limit)} ×"


def ratio(one: Reading, other: Reading) -> str:
    return f"{one.median / other.median:.2g}"


def _peer_list(readings: Readings, peers: Iterable[Peer]) -> list[str]:
    return [f"- **{peer.title}**{_versions(readings, peer)}: {peer.setup}. It does not {peer.lacks}." for peer in peers]


def _versions(readings: Readings, peer: Peer) -> str:
    if peer.name == "beanstalkd":
        return f" ({readings.about['beanstalkd']}, {', '.join(peer.packages)})"
    return f" ({', '.join(peer.packages)})" if peer.packages else ""


def _titled(peer: Peer) -> str:
    return f"**{peer.title}**" if peer.name == "tarry" else peer.title


def _head(cells: list[str]) -> list[str]:
    return [_joined(cells), "|---" + "|--:" * (len(cells) - 1) + "|"]


def _joined(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _measured(about: dict[str, Any]) -> str:
    where = f"{about['processor']}, {about['cores']} cores, {about['system']}"
    tools = f"Python {about['python']}, {about['server']}, node {about['node']}"
    text = (
        f"Measured on {about['date']}: {where}; {tools}; effort {about['effort']}, {about['rounds']} rounds, "
        f"load of the machine before: {about['load before']}."
    )
    return "\n\n".join(filter(None, (text, BUSY if about["busy"] else "", about.get("remark"))))


def write(readings: Readings) -> None:
    """Puts the tables into the page, and the readings and the chart beside it."""
    table.write(PAGE, BEGIN, END, as_markdown(readings))
    readings.save(DATA)
    CHART.write_text(chart.draw(readings), "utf-8")
