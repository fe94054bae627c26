"""``app:worker``: the worker of an application, by module and name."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from tarry.errors import BadInput
from tarry.programs.worker.worker import Worker


def load(place: str) -> Worker:
    """Imports it, from the current folder too. A function that makes a worker is called. Raises ``BadInput``."""
    module_name, colon, name = place.partition(":")
    if not module_name or not (name or not colon):
        raise BadInput(f"worker: {place!r}; write module:name, such as app:worker.")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = import_module(module_name)
    except ModuleNotFoundError as fault:
        if fault.name is None or not (module_name == fault.name or module_name.startswith(fault.name + ".")):
            raise  # a module that the application itself lacks: its own traceback says where
        raise BadInput(f"worker: there is no module {module_name!r} here or on sys.path.") from fault
    for part in (name or "worker").split("."):
        if not hasattr(found, part):
            raise BadInput(f"worker: {module_name} has no {name or 'worker'}; write module:name, such as app:worker.")
        found = getattr(found, part)
    if callable(found) and not isinstance(found, Worker):
        found = found()
    if not isinstance(found, Worker):
        raise BadInput(f"worker: {place} is a {type(found).__name__}, not a tarry.Worker.")
    return found
