"""Handles whose scripts run as replays, for a program that does not know whether a call was carried out."""

from __future__ import annotations

from copy import copy
from typing import Any, TypeVar

from tarry.core.flows import intercept
from tarry.core.requests import Command, Request, ScriptCall

H = TypeVar("H")


def replaying(handle: H) -> H:
    """The same handle, whose scripts run as replays: they recognise what an earlier call with a lost answer did."""
    changed: Any = copy(handle)
    changed.engine = _ReplayEngine(changed.engine)
    return changed  # type: ignore[no-any-return]


class _ReplayEngine:
    """Another engine, whose scripts run as replays."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def run(self, operation: Any) -> Any:
        if not isinstance(operation, (ScriptCall, Command)):
            return self._engine.run(intercept(operation, _as_replay))
        return self._engine.run(_as_replay(operation))


def _as_replay(request: Request) -> Request:
    return request.as_replay() if isinstance(request, ScriptCall) else request
