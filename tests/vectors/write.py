"""Writes the vectors of the table: `.venv/bin/python tests/vectors/write.py`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import servers
from vectors.calls import FOLDER, Case, Server, lines, made
from vectors.cases import CASES


def main() -> None:
    """Write the files."""
    with servers.server(servers.valkey_binary()) as running, Server(running.url) as server:
        for folder in sorted({folder_of(case) for case in CASES}):
            vectors = [made(server, case) for case in CASES if folder_of(case) == folder]
            (FOLDER / f"{folder}.jsonl").write_text(lines(vectors), "ascii")


def folder_of(case: Case) -> str:
    return case.call.script.partition("/")[0]


if __name__ == "__main__":
    main()
