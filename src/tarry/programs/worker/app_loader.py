"""``app:worker``: the worker of an application, by module and name."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TypeVar

import tarry
from tarry.errors import BadInput
from tarry.programs.worker.worker import Worker

T = TypeVar("T")
OWN_FOLDER = str(Path(tarry.__file__).parent / "_").rstrip("_")


def load(path: str) -> Worker:
    """Imports the worker that ``path`` names, from the current folder too. Calls a function that makes one. Raises ``BadInput``."""
    module_name, colon, name = path.partition(":")
    if not module_name or not (name or not colon):
        raise BadInput(f"worker: {path!r}; write module:name, such as app:worker.")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = _run_user_code(lambda: import_module(module_name), f"{module_name} cannot be imported")
    except BadInput as fault:
        missing = fault.__cause__.name if isinstance(fault.__cause__, ModuleNotFoundError) else None
        if missing is None or not (module_name == missing or module_name.startswith(missing + ".")):
            raise
        raise BadInput(f"worker: there is no module {module_name!r} here or on sys.path.") from None
    for part in (name or "worker").split("."):
        if not hasattr(found, part):
            raise BadInput(f"worker: {module_name} has no {name or 'worker'}; write module:name, such as app:worker.")
        found = getattr(found, part)
    if callable(found) and not isinstance(found, Worker):
        found = _run_user_code(found, f"{path} cannot be called")
    if not isinstance(found, Worker):
        raise BadInput(f"worker: {path} is a {type(found).__name__}, not a tarry.Worker.")
    return found


def _run_user_code(application: Callable[[], T], label: str) -> T:
    """Runs code of the application. Raises ``BadInput``, caused by the application's exception."""
    try:
        return application()
    except Exception as fault:
        last = traceback.format_exception_only(fault)[-1].strip()
        raise BadInput(f"worker: {label}: {last}") from fault


def traceback_of(fault: BaseException) -> str:
    """The application's part of a traceback: without the frames of tarry and of Python's import machinery."""
    whole = traceback.TracebackException.from_exception(fault)
    part: traceback.TracebackException | None = whole
    while part is not None:
        part.stack = traceback.StackSummary.from_list([frame for frame in part.stack if not _is_own(frame.filename)])
        part = part.__cause__ or (None if part.__suppress_context__ else part.__context__)
    return "".join(whole.format()).rstrip()


def _is_own(file: str) -> bool:
    return file.startswith((OWN_FOLDER, "<frozen importlib")) or "importlib" in Path(file).parts
