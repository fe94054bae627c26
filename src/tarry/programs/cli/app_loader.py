"""``app:worker``: the worker of an application, by module and name."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TypeGuard, TypeVar

import tarry
from tarry import Task, Worker
from tarry.errors import BadInput

T = TypeVar("T")
EXPECTED = "write module:worker, such as app:worker for `worker = tarry.Worker(…)` in app.py"
OWN_FOLDER = str(Path(tarry.__file__).parent / "_").rstrip("_")


def load(path: str) -> Worker:
    """Imports the worker that ``path`` names, from the current folder too. Calls a function that makes one. Raises ``BadInput``."""
    module_name, colon, name = path.partition(":")
    if module_name.endswith(".py") or "/" in module_name:
        right = Path(module_name).with_suffix("").as_posix().strip("./").replace("/", ".")
        raise BadInput(
            f"worker: {path!r} is a file; write its module and the worker's name: {right}:{name or 'worker'}."
        )
    if not module_name or not (name or not colon):
        raise BadInput(f"worker: {path!r}; {EXPECTED}.")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module: object = _run_user_code(lambda: import_module(module_name), f"{module_name} cannot be imported")
    except BadInput as fault:
        missing = fault.__cause__.name if isinstance(fault.__cause__, ModuleNotFoundError) else None
        if missing is None or not (module_name == missing or module_name.startswith(missing + ".")):
            raise
        raise BadInput(f"worker: there is no module {module_name!r} here or on sys.path; {EXPECTED}.") from None
    found = module
    for part in (name or "worker").split("."):
        if not hasattr(found, part):
            raise BadInput(
                f"worker: {module_name} has no {name or 'worker'}; {_other_file(module_name, module) or _workers_in(module_name, module)}."
            )
        found = getattr(found, part)
    if _makes_a_worker(found):
        found = _run_user_code(found, f"{path} cannot be called")
        if not isinstance(found, Worker):
            raise BadInput(f"worker: {path} returned a value of type {type(found).__name__}, not a tarry.Worker.")
    if not isinstance(found, Worker):
        kind = type(found).__name__
        raise BadInput(f"worker: {path} is of type {kind}, not a tarry.Worker; {_workers_in(module_name, module)}.")
    return found


def _makes_a_worker(found: object) -> TypeGuard[Callable[[], object]]:
    """Whether it can be called without arguments, and is no task: a task is not run by starting a worker."""
    if not callable(found) or isinstance(found, (Task, Worker, type)):
        return False
    try:
        signature(found).bind()
    except TypeError:  # a handler, which takes its job
        return False
    except ValueError:  # it has no signature
        return True
    return True


def _workers_in(module_name: str, module: object) -> str:
    """The end of an error: the workers that the module has, or the form."""
    names = [name for name, value in vars(module).items() if isinstance(value, Worker)]
    return f"write {' or '.join(f'{module_name}:{name}' for name in names)}" if names else EXPECTED


def _other_file(module_name: str, module: object) -> str | None:
    """The end of an error, if the folder has a file for the module, but Python has imported another one by this name."""
    path, loaded = Path(*module_name.split(".")), getattr(module, "__file__", None)
    here = [file.resolve() for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()]
    if not here or (loaded is not None and Path(loaded).resolve() in here):
        return None
    return f"it is {loaded or 'a part of Python'}, and not {here[0].name} here: another module has this name; give the file another one"


def _run_user_code(application: Callable[[], T], label: str) -> T:
    """Runs code of the application. Raises ``BadInput``, caused by the application's exception."""
    try:
        return application()
    except Exception as fault:
        last = traceback.format_exception_only(fault)[-1].strip()
        raise BadInput(f"worker: {label}: {last}{_place_of(fault)}") from fault


def _place_of(fault: Exception) -> str:
    """Where the application failed: `` (shop.py, line 7)``; of its own files the one that Python came to last."""
    if isinstance(fault, SyntaxError) and fault.filename:
        return f" ({_shown(fault.filename)}, line {fault.lineno})"
    frames = [frame for frame in traceback.extract_tb(fault.__traceback__) if not _is_own(frame.filename)]
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(Path.cwd())] or frames
    return f" ({_shown(own[-1].filename)}, line {own[-1].lineno})" if own else ""


def _shown(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


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
