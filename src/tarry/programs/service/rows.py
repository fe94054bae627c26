"""All rows, by the modules that hold them; documents list them in this order. A new module is one more name here."""

from __future__ import annotations

from tarry.programs.service.dialects import delay_controller, delay_queue, delayed_message
from tarry.programs.service.paths import (
    about,
    events,
    guarded,
    jobs,
    locks,
    many,
    maps,
    queues,
    ready,
    schedules,
    topics,
)
from tarry.programs.service.settings import Settings
from tarry.programs.service.table import Row, Table

MODULES = (jobs, many, topics, schedules, queues, ready, guarded, maps, locks, events, about)


def rows_of(settings: Settings) -> list[Row]:
    """The rows of a service: those that every service has, and those of the dialects that it speaks."""
    tables = [module.table for module in MODULES] + list(_dialects(settings))
    return [row for table in tables for row in table.rows]


def _dialects(settings: Settings) -> list[Table]:
    spoken, found = settings.dialects, list[Table]()
    if spoken.delay_controller is not None:
        found.append(delay_controller.table_of(spoken.delay_controller))
    if spoken.delay_queue is not None:
        found.append(delay_queue.table_of(spoken.delay_queue))
    if spoken.delayed_message is not None:
        said = (spoken.delayed_message, spoken.message_codec, spoken.message_format)
        found.append(delayed_message.table_of(settings.namespaces[0], *said))
    return found
