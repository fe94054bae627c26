"""Requests about locks."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tarry.clients.http.wire.types import Strict, with_pattern

LockName = Annotated[str, Meta(description="as the applications call it"), with_pattern("^.", minLength=1)]


class LocksQuery(Strict):
    """Which locks, and where the page begins. ``all``: those that are free, too."""

    all: bool = False
    cursor: Annotated[str, with_pattern(r"^[0-9]{1,4}-[0-9]{1,19}$")] | None = None
