"""What verbs of a client are given: a handle, or its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tarry.errors import BadInput

H = TypeVar("H")


def handle_of(what: str, kind: type[H], given: Any, named: Callable[[str], H] | None = None) -> H:
    """The handle, or the one that ``named`` makes for a name. Raises ``BadInput`` for anything else."""
    if named is not None and isinstance(given, str):
        return named(given)
    if isinstance(given, kind):
        return given
    if isinstance(given, str):
        raise BadInput(f"{what}: {given!r} is a name; give the {kind.__name__} itself, as the client makes it.")
    name = "" if named is None else ", nor a name"
    raise BadInput(f"{what}: a value of type {type(given).__name__} is no {kind.__name__}{name}.")
