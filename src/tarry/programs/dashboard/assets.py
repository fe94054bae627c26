"""What pages are made of: templates and assets, read once a process."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from tarry.programs.dashboard import filters
from tarry.programs.dashboard.charts import timeline

MEDIA_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@cache
def templates() -> Environment:
    """Compiled once a process."""
    found = Environment(
        loader=PackageLoader("tarry.programs.dashboard"),
        autoescape=True,
        auto_reload=False,  # a package that is upgraded below a running process does not change it
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    helpers: dict[str, Any] = {"moved": timeline.shifted, "wider": timeline.widened, "rows_of": timeline.table_rows}
    found.filters.update(filters.FILTERS)
    found.globals.update(helpers)
    return found


@cache
def assets() -> dict[str, tuple[str, bytes]]:
    """By name: the kind, and what it is."""
    folder = files("tarry.programs.dashboard").joinpath("assets")
    found = {}
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        kind = MEDIA_TYPES.get(entry.name.rpartition(".")[2])
        if kind is not None:
            found[entry.name] = (kind, entry.read_bytes())
    return found
