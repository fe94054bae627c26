"""Tracebacks for people: frames of tarry itself are folded, so that a job's own code is what meets the eye. Pure functions.

File "…/tarry/worker/topic_consumer.py", line 210   ┐
File "…/tarry/worker/handlers.py", line 88          ┘ ▸ 2 stack frames inside tarry
File "/srv/shop/orders.py", line 12                 shown
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

_FRAME = re.compile(r'[ \t]*File "([^"\n]*)", line \d+')
_OURS = re.compile(r"(?:^|[/\\])tarry[/\\](?:worker|clients|connections|verbs|core|values|programs|celery|django)[/\\]")
_CODE = "    "
"""How the lines below a frame begin: the code, and marks under it."""


@dataclass(frozen=True, slots=True)
class TracePart:
    """Lines of an error that stand together; ``frames`` is how many frames of tarry they are, 0 for lines that are shown."""

    text: str
    frames: int = 0


def fold_frames(error: str) -> list[TracePart]:
    """The parts of an error, in order; their texts, joined with line breaks, are the error."""
    found = []
    for is_ours, lines in groupby(_marked_lines(error), key=lambda line: line[0]):
        texts = [text for _, text in lines]
        frames = sum(_FRAME.match(text) is not None for text in texts) if is_ours else 0
        found.append(TracePart("\n".join(texts), frames))
    return found


def _marked_lines(error: str) -> Iterator[tuple[bool, str]]:
    """Each line, and whether it belongs to a frame of tarry."""
    is_ours = False
    for line in error.split("\n"):
        frame = _FRAME.match(line)
        if frame is not None:
            is_ours = _OURS.search(frame[1]) is not None
        elif not line.startswith(_CODE):
            is_ours = False
        yield is_ours, line
