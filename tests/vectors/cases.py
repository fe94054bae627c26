"""All cases of the vectors, in the order in which they are written."""

from __future__ import annotations

from vectors import (
    table,
    table_delayed,
    table_ends,
    table_full,
    table_guarded,
    table_maps,
    table_migration,
    table_schedules,
    table_views,
    table_workers,
)
from vectors.calls import Case

CASES: list[Case] = [
    *table.cases_of_adds(),
    *table.cases_of_once(),
    *table.cases_of_small_adds(),
    *table.cases_of_pops(),
    *table.cases_of_settled(),
    *table.cases_by_id(),
    *table.cases_of_updates(),
    *table.cases_of_steps(),
    *table.cases_beside(),
    *table.cases_of_locks(),
    *table.cases_in_situations(),
    *table_views.cases_of_partitioned(),
    *table_views.cases_of_views(),
    *table_views.cases_of_pages(),
    *table_views.cases_of_checks(),
    *table_views.cases_of_looks(),
    *table_views.cases_of_settings(),
    *table_views.cases_of_purges(),
    *table_views.cases_of_holders_jobs(),
    *table_ends.cases_of_ends(),
    *table_ends.cases_of_unkept(),
    *table_full.cases_of_full_topics(),
    *table_schedules.cases_of_schedules(),
    *table_schedules.cases_of_fired(),
    *table_workers.cases_of_workers(),
    *table_workers.cases_of_holders(),
    *table_workers.cases_of_looks_for_holders(),
    *table_workers.cases_of_partitions(),
    *table_guarded.cases_of_guarded(),
    *table_migration.cases_of_moved_jobs(),
    *table_migration.cases_of_moved_schedules(),
    *table_delayed.cases(),
    *table_maps.cases(),
]
