"""The heat map of lateness: a column is an interval of time, a row a range of lateness, the shade the number of jobs."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

EDGES_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60, 300, 900, 3600, 21600, 86400)
"""The upper edges of the rows; one more row lies above the last."""
LEVELS = 6
MIN_ROWS = 6


@dataclass(frozen=True, slots=True)
class Heat:
    """``levels`` are paths in units of columns and rows, light to dark; row 0 is at the bottom."""

    columns: int
    rows: int
    levels: tuple[str, ...]
    edges_s: tuple[float, ...]
    counts: tuple[tuple[int, ...], ...]
    total: int


def row_of(bucket: int) -> int:
    """The row of a bucket of ``Lateness``, by its upper end."""
    return bisect_left(EDGES_S, (2 ** ((bucket + 1) / 4) - 2) / 1e6)


def heat(columns: Sequence[Mapping[int, int]]) -> Heat:
    """From counts by bucket, the oldest column first."""
    table = [[0] * (len(EDGES_S) + 1) for _ in columns]
    for cells, column in zip(table, columns, strict=True):
        for bucket, n in column.items():
            cells[row_of(bucket)] += n
    used = [row for row in range(len(EDGES_S) + 1) if any(cells[row] for cells in table)]
    rows = max([MIN_ROWS, *(row + 1 for row in used)])
    top = max((n for cells in table for n in cells), default=0)
    paths = [list[str]() for _ in range(LEVELS)]
    for x, cells in enumerate(table):
        for row, n in enumerate(cells[:rows]):
            if n:
                level = min(int(LEVELS * math.log1p(n) / math.log1p(top)), LEVELS - 1)
                paths[level].append(f"M{x + 0.06:g} {rows - 1 - row + 0.06:g}h.88v.88h-.88z")
    shown = tuple(tuple(cells[:rows]) for cells in table)
    return Heat(len(columns), rows, tuple(map("".join, paths)), EDGES_S[:rows], shown, sum(map(sum, table)))
