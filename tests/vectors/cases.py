"""All cases of the vectors, in the order in which they are written."""

from __future__ import annotations

from vectors import table, table_delayed, table_maps
from vectors.calls import Case

CASES: list[Case] = [
    *table.cases_of_adds(),
    *table.cases_of_small_adds(),
    *table.cases_of_pops(),
    *table.cases_of_settled(),
    *table.cases_by_id(),
    *table.cases_beside(),
    *table.cases_of_locks(),
    *table.cases_in_situations(),
    *table_delayed.cases(),
    *table_maps.cases(),
]
