"""Ends what a run has started when the run itself is gone, however it went: ``python reaper.py``.

Reads ``pid START`` (a process, by the tick it was started at, so that nobody else's is ever meant) and ``folder PATH`` line by
line. When its input ends, the processes that still live are killed, and the folders are removed.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path


def began(pid: int) -> str:
    """The tick at which a process was started; empty: there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    known: dict[int, str] = {}
    folders: list[str] = []
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "folder":
            folders.append(rest)
        else:
            known[int(word)] = rest
    for pid, tick in known.items():
        if tick and began(pid) == tick:
            for one in (*children(pid), pid):
                with suppress(OSError):
                    os.kill(one, signal.SIGKILL)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
