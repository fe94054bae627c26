"""Every order of events, within bounds."""

from __future__ import annotations

from watch.model import Watch
from watch.search import Report, explore
from watch.states import NEVER, Consumer, State


def everything(
    watch: Watch,
    consumers: int,
    *,
    adds: int,
    changes: int = 0,
    faults: int = 0,
    late: int,
    looks: int | None = None,
    fires: int = NEVER,
    occurrences: int = 2,
) -> Report:
    left = 0 if fires == NEVER else occurrences
    start = State(
        crew=(Consumer(),) * consumers, adds=adds, changes=changes, faults=faults, fires=fires, occurrences=left
    )
    return explore(watch, start, late=late, looks=looks)
