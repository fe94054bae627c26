"""Runs of pytest, each in a fork of a process that has imported what tests import, but for tarry: half of a short run is that.

The process is that of multiprocessing's `forkserver`; it is started with the first run, and ends with this process.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

IMPORTED = (
    "pytest _pytest.pytester _pytest.logging redis.asyncio redis.sentinel redis.cluster httpx starlette.applications starlette.routing "
    "uvicorn.config trustme jinja2 msgspec kazoo.client prometheus_client boto3 typer rich.console uvloop httptools "
    "hypothesis anyio zoneinfo statistics unittest.mock"
).split()
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(IMPORTED)


class Ended(NamedTuple):
    code: int
    text: str
    in_time: bool = True


def pytest(folder: Path, words: list[str], longest_s: float) -> Ended:
    """Runs it in a tree of tarry; all that it starts ends with it. Without an end in time the last test has failed."""
    said = folder / "said.txt"
    run = _context.Process(target=_run, args=(folder, words, said))
    run.start()
    run.join(longest_s)
    in_time = run.exitcode is not None
    with suppress(ProcessLookupError):
        os.killpg(run.pid or 0, signal.SIGKILL)
    run.join()
    text = said.read_text("utf-8", "replace")
    if in_time:
        return Ended(run.exitcode or 0, text)
    names = re.findall(r"^(tests/.+?::.+?) *(?:[A-Z]+ *\[.*)?$", text, re.M)
    return Ended(1, f"FAILED {names[-1] if names else 'the collection'} - no end within {longest_s} s", in_time=False)


def _run(folder: Path, words: list[str], said: Path) -> None:
    import pytest
    from _pytest.assertion.rewrite import AssertionRewritingHook

    os.setsid()
    with said.open("wb") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    os.chdir(folder)
    sys.path[:] = [
        str(folder / "src"),
        *(place for place in sys.path if place not in ("", str(Path(__file__).parents[1]))),
    ]
    os.environ |= {"PYTHONPATH": str(folder / "src"), "CI": "", "PYTHONDONTWRITEBYTECODE": ""}
    sys.dont_write_bytecode = False
    AssertionRewritingHook._warn_already_imported = lambda *_: None  # type: ignore[method-assign]  # plugins are imported
    code = int(pytest.main(words))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
