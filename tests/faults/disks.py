"""A real disk that is really full."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import servers
from tarry.connections.embedded import plain_client
from tarry.connections.embedded.server_process import ServerProcess
from until import until


class Disk:
    """A server whose folder can be full: a file system of two megabytes, and a file that fills it."""

    def __init__(self, server: ServerProcess, folder: Path) -> None:
        self.server = server
        self._filler = folder / "filler"

    def fill(self) -> None:
        with self._filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"x" * 4096):
                pass
        until(self._is_refused)

    def _is_refused(self) -> bool:
        try:
            self.server.ask("SET", "other:filler", "x" * 10_000)
        except plain_client.ErrorReply as refusal:
            return "MISCONF" in str(refusal)
        return False

    def free(self) -> None:
        self._filler.unlink()

        def is_well() -> bool:
            try:
                self.server.ask("SET", "other:filler", "")
            except plain_client.ErrorReply:
                return False
            return True

        until(is_well)


@contextlib.contextmanager
def full_disks() -> Iterator[Disk]:
    """On a tmpfs of its own, where the kernel allows one."""
    with servers.short_folder() as folder:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=2m", "tarry-tests", str(folder)], capture_output=True, check=False
        )
        if mounted.returncode:
            pytest.skip("needs the right to mount a tmpfs")
        try:
            options = ("--dir", str(folder), "--appendonly", "yes", "--appendfsync", "everysec")
            with servers.server(servers.valkey_binary(), options=options) as running:
                yield Disk(running, folder)
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=True)
