"""Writes the vectors of the table: `.venv/bin/python tests/vectors/write.py`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import servers
from vectors.calls import PATH, Server, lines, made
from vectors.table import CASES


def main() -> None:
    """Write the file."""
    with servers.server(servers.valkey_binary()) as running, Server(running.url) as server:
        PATH.write_text(lines([made(server, case) for case in CASES]), "ascii")


if __name__ == "__main__":
    main()
