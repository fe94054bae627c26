"""The arguments of a client's verbs that are handles, or names of handles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tarry.clients.config import ClientConfig
from tarry.errors import BadInput

H = TypeVar("H")


def handle_of(label: str, kind: type[H], handle: Any, create: Callable[[str], H] | None = None) -> H:
    """The handle, or the one that ``create`` makes for a name. Raises ``BadInput`` for anything else."""
    if create is not None and isinstance(handle, str):
        return create(handle)
    if isinstance(handle, kind):
        return handle
    if isinstance(handle, str):
        raise BadInput(f"{label}: {handle!r} is a name; give the {kind.__name__} itself, as the client makes it.")
    name = "" if create is None else ", nor a name"
    raise BadInput(f"{label}: a value of type {type(handle).__name__} is no {kind.__name__}{name}.")


def refuse_services(what: str, *handles: Any) -> None:
    """Raises ``BadInput`` if the target is a service's: a client of a server cannot reach it."""
    for handle in handles:
        if not isinstance(handle.engine.config, ClientConfig):
            raise BadInput(
                f"{what}: {handle.name} is of a service; open it with a tarry.Client at its server, or let an HTTPClient do it all."
            )
