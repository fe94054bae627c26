"""Templates and assets, read once a process; and the response with an asset."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from tarry.programs.dashboard import filters
from tarry.programs.dashboard.charts import timeline
from tarry.programs.serving.documents import negotiated

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


@cache
def version() -> str:
    """The version of the assets: browsers keep each for a year."""
    return sha256(b"".join(text for _, text in assets().values())).hexdigest()[:12]


async def send_asset(request: Request) -> Response:
    """The asset of a path, to be kept if the page asked for it by its version."""
    found = assets().get(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    kind, text = found
    fresh = request.query_params.get("v") == version()
    content, headers = negotiated(text, request.headers.get("accept-encoding", ""))
    lifetime = "max-age=31536000, immutable" if fresh else "no-cache"
    return Response(content, media_type=kind, headers={**headers, "cache-control": lifetime})
