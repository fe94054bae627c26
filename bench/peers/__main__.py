"""``python -m bench.peers``: measures the peers, prints the tables, writes the page."""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from bench.harness import Effort
from bench.peers import page, processes
from bench.peers.catalogue import ENVIRONMENTS, PEERS, Peer
from bench.peers.installs import install
from bench.peers.processes import PeerFailed
from bench.peers.readings import Found, Readings
from bench.peers.rows import ROWS, SIZES, Row, Sizes
from bench.peers.turns import Turn

KEPT = ENVIRONMENTS / "readings.json"


def measure(readings: Readings, peers: list[Peer], rows: list[str], sizes: Sizes, kept: Path) -> None:
    """Row by row, round by round, all peers in turn, so that a busy machine affects them alike."""
    for name in rows:
        row = ROWS[name]
        for number in range(1 if row.once else sizes.rounds):
            due = [peer for peer in peers if readings.done(peer.name, name) == number]
            began = time.monotonic()
            side_by_side = ThreadPoolExecutor(len(due) or 1 if row.together else 1)
            with side_by_side, processes.ended_with_the_block():
                for peer, found in zip(due, side_by_side.map(partial(take, row=row, sizes=sizes), due), strict=True):
                    readings.put(peer.name, name, found)
                    readings.save(kept)
                    print(f"{name} {number + 1} {peer.name}: {shown(found)}", file=sys.stderr, flush=True)
            if due:
                print(f"{name} {number + 1}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def take(peer: Peer, row: Row, sizes: Sizes) -> dict[str, Found] | str:
    """One turn: its lines, or why there are none."""
    try:
        with Turn(peer) as turn:
            return row.measure(turn, sizes)
    except PeerFailed as reason:
        return str(reason)
    except Exception as error:  # noqa: BLE001  # go on with the others
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"


def shown(found: dict[str, Found] | str) -> str:
    if isinstance(found, str):
        return f"— ({found})"
    values = {line: "—" if one.value is None else page.number(one.value) for line, one in found.items()}
    return ", ".join(f"{line} {values[line]}{f' ({one.note})' if one.note else ''}" for line, one in found.items())


def main() -> None:
    parser = argparse.ArgumentParser("python -m bench.peers", description="Measures tarry beside other job queues.")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer rounds, shorter waits")
    parser.add_argument(
        "--only", action="append", choices=PEERS, metavar="PEER", help=f"of {', '.join(PEERS)}; repeat it"
    )
    parser.add_argument("--row", action="append", choices=ROWS, metavar="ROW", help=f"of {', '.join(ROWS)}; repeat it")
    parser.add_argument("--resume", action="store_true", help=f"go on with what is in {KEPT.relative_to(Path.cwd())}")
    parser.add_argument(
        "--write", action="store_true", help="write peers.md, peers.json and peers.svg in docs/evidence"
    )
    parser.add_argument(
        "--busy", action="store_true", help="say on the page that the machine did other things meanwhile"
    )
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    effort: Effort = "quick" if given.quick else "full"
    about = page.machine(effort, SIZES[effort].rounds, busy=given.busy)
    readings = Readings.load(KEPT) if given.resume and KEPT.exists() else Readings(about)
    try:
        peers = installed(readings.about, [PEERS[name] for name in given.only or PEERS])
        measure(readings, peers, given.row or list(ROWS), SIZES[effort], KEPT)
    except KeyboardInterrupt:
        print("Stopped; --resume goes on.", file=sys.stderr)
    print(page.as_markdown(readings))
    if given.write:
        page.write(readings)


def installed(about: dict[str, Any], peers: list[Peer]) -> list[Peer]:
    """Installs what is missing; a peer that cannot be installed has its reason in every row."""
    found: list[Peer] = []
    for peer in peers:
        try:
            about.setdefault("versions", {})[peer.name] = install(peer)
            about.setdefault("missing", {}).pop(peer.name, None)
            found.append(peer)
        except PeerFailed as reason:
            about.setdefault("missing", {})[peer.name] = str(reason)
            print(f"{peer.name}: {reason}", file=sys.stderr)
    return found


if __name__ == "__main__":
    main()
