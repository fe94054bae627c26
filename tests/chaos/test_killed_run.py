"""Nothing is left of a run that ends without a word."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from chaos import reaper
from chaos.test_chaos import ROOT, command
from until import until


def family_of(pid: int) -> list[int]:
    """A process and all that it started, and they."""
    found = [pid]
    for one in found:
        found += reaper.children(one)
    return found


@pytest.mark.slow
def test_a_killed_run_leaves_no_processes_or_folders(tmp_path: Path) -> None:
    words = command("--family", "line", "--minutes", "5", "--seed", "1", "--few", "--json", str(tmp_path / "run.json"))
    run = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: len(family_of(run.pid)) > 10, "everybody at work")
        pids = {pid: reaper.began(pid) for pid in family_of(run.pid)}
        folders = folders_of(pids)
        assert folders
    finally:
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
    until(lambda: all(not tick or reaper.began(pid) != tick for pid, tick in pids.items()), "all of them ended")
    until(lambda: not any(folder.exists() for folder in folders), "their folders gone")


def folders_of(pids: dict[int, str]) -> set[Path]:
    """Where the histories are, beside the address of the process from which the clients are forked: said on its command line."""
    words = list[str]()
    for pid in pids:
        with suppress(OSError):  # it has ended meanwhile
            words += Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return {Path(word).parent for word in words if word.endswith("/warm")}
