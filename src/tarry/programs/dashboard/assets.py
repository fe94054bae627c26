"""Templates and assets, read once a process."""

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
    """The environment of the templates; they are compiled once a process."""
    found = Environment(
        loader=PackageLoader("tarry.programs.dashboard"),
        autoescape=True,
        auto_reload=False,  # an upgrade of the package does not change a running process
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    helpers: dict[str, Any] = {"shifted": timeline.shifted, "widened": timeline.widened, "rows_of": timeline.table_rows}
    found.filters.update(filters.FILTERS)
    found.globals.update(helpers)
    return found


@cache
def assets() -> dict[str, tuple[str, bytes]]:
    """The assets by name: media type and content."""
    folder = files("tarry.programs.dashboard").joinpath("assets")
    found = {}
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        kind = MEDIA_TYPES.get(entry.name.rpartition(".")[2])
        if kind is not None:
            found[entry.name] = (kind, entry.read_bytes())
    return found
