"""``python -m bench.profiles.bytecodes FILE MODULE WORD …``: runs a module and counts its bytecodes, by layer of the code.

SIGUSR1 writes the counts to the file, and begins again at zero. Only the main thread is counted.
"""

from __future__ import annotations

import json
import runpy
import signal
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import tarry

SOURCE = str(Path(tarry.__file__).parent)
LIBRARIES = {
    "redis": "redis-py",
    "starlette": "uvicorn, Starlette",
    "uvicorn": "uvicorn, Starlette",
    "asyncio": "asyncio",
    "selectors.py": "asyncio",
}
OTHERS = "other libraries"
CALLER = "the caller"
counts: Counter[str] = Counter()


@cache
def layer_of(path: str) -> str:
    """The layer of a source file: tarry's by its package, a library, or the bench itself."""
    if path.startswith(SOURCE):
        parts = path.removeprefix(SOURCE).strip("/").split("/")
        return "tarry: values" if len(parts) == 1 else f"tarry: {parts[0]}"
    if "/bench/" in path:
        return CALLER
    for part in Path(path).parts:
        if part in LIBRARIES:
            return LIBRARIES[part]
    return OTHERS


def trace(frame: FrameType, event: str, arg: Any) -> Any:  # noqa: ARG001  # as Python calls it
    if event == "call":
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
    elif event == "opcode":
        counts[layer_of(frame.f_code.co_filename)] += 1
    return trace


def main(output: str, module: str, *words: str) -> None:
    def write(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # as Python calls it
        partial = Path(f"{output}.partial")
        partial.write_text(json.dumps(counts), "utf-8")
        counts.clear()
        partial.replace(output)

    signal.signal(signal.SIGUSR1, write)
    sys.argv = [module, *words]
    sys.settrace(trace)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
