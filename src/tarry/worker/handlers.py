"""How a handler is called. The annotation of its one parameter decides what it is given; it is read at registration.

    async def f(job)                      the job, an AsyncJob; bodies of any type (job: Any means the same)
    async def f(job: AsyncJob[Order])     the job; its body is an Order
    async def f(order: Order)             the body, an Order
    def f(job: Job[Order])                in a thread: a Job, whose verbs block
    def f(order: Order)                   in a thread: the body

With ``batch=`` it is given a list of them: ``list[AsyncJob[Order]]``, ``list[Order]``.

A handler that cannot work is refused at registration, not when the first job comes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from tarry.clients.awaited.job import AsyncJob
from tarry.clients.blocking.job import Job
from tarry.errors import BadInput
from tarry.values.functions import is_async, name_of, refuse_generator
from tarry.verbs.codecs import Codec
from tarry.verbs.jobs.job_values import BaseJob

Function = Callable[..., Any]
_JOBS = (AsyncJob, Job, BaseJob)
LISTS = (list, Iterable, Collection, Sequence)


@dataclass(frozen=True, slots=True)
class Handler:
    """A handler's function, and how it is called."""

    function: Function
    name: str
    is_async: bool
    wants_body: bool
    type: type[Any] | Codec[Any] | None
    """The type or codec of its topic's bodies; ``None`` for any JSON."""


@dataclass(frozen=True, slots=True)
class QueueRoute:
    """A queue of a worker, its codec, its slots and its handler."""

    queue: str
    redisson: str | None
    codec: str | Codec[Any] | None
    slots: int
    handler: Handler


def refuse_bare(given: object, example: str) -> None:
    """Refuses a decorator without brackets, which is given the function. Raises ``BadInput``."""
    if callable(given):
        raise BadInput(f"{example.partition('(')[0]}: it needs an argument in brackets, such as {example}.")


def signature_of(function: Function) -> inspect.Signature:
    """The handler's signature with evaluated annotations. Raises ``BadInput``, also for a generator."""
    if not callable(function):
        raise BadInput(f"handler: {function!r} is not a function.")
    refuse_generator(function, "handler")
    try:
        signature = inspect.signature(function, eval_str=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as fault:
        raise BadInput(
            f"handler {name_of(function)}: an annotation cannot be read ({fault}); "
            "its types must be importable when it is registered, not only for type checkers."
        ) from fault
    if (first := next(iter(signature.parameters), "")) in ("self", "cls"):
        raise BadInput(
            f"handler {name_of(function)}{signature}: its first argument is {first}, and no object is there when a job comes. Write a "
            "function outside the class, or a @staticmethod below the decorator; the running job is tarry.current_job()."
        )
    return signature


def inspect_handler(function: Function, kind: type[Any] | Codec[Any] | None, *, takes_many: bool = False) -> Handler:
    """Reads the handler's signature; ``kind`` is the ``type=`` of ``on``. ``takes_many``: it is given a list. Raises ``BadInput``."""
    name, awaited = name_of(function) if callable(function) else "", is_async(function)
    parameter = _only_parameter(signature_of(function), name)
    annotation = _item_type(parameter, awaited, name) if takes_many else parameter.annotation
    if annotation in (inspect.Parameter.empty, Any, object):  # no type given
        return Handler(function, name, awaited, False, kind)
    origin = get_origin(annotation) or annotation
    if origin in _JOBS:
        _check_job_type(origin, awaited, name, parameter.name)
        own = next(iter(get_args(annotation)), None)
        return Handler(function, name, awaited, False, _body_type(kind, own, name))
    if _has_job(annotation):
        one = "AsyncJob" if awaited else "Job"
        raise BadInput(
            f"handler {name}: {parameter.name} is annotated as {inspect.formatannotation(parameter.annotation)}; a handler is called with "
            f"one job at a time: write tarry.{one}. With @worker.on(topic, batch=100) it is called with many: write list[tarry.{one}]."
        )
    return Handler(function, name, awaited, True, _body_type(kind, annotation, name))


def _item_type(parameter: inspect.Parameter, awaited: bool, name: str) -> Any:
    """The annotation of one job or one body, of a handler that is given a list. Raises ``BadInput``."""
    annotation = parameter.annotation
    if annotation in (inspect.Parameter.empty, Any, object, list):
        return Any
    items = get_args(annotation)
    if get_origin(annotation) in LISTS and len(items) == 1:
        return items[0]
    one = "AsyncJob" if awaited else "Job"
    raise BadInput(
        f"handler {name}: {parameter.name} is annotated as {inspect.formatannotation(annotation)}; with batch= a handler is called with "
        f"a list: write list[tarry.{one}], or list[…] with the type of a body."
    )


def _has_job(annotation: Any) -> bool:
    """Whether a job is a part of the type, as in ``list[Job]``."""
    return any((get_origin(one) or one) in _JOBS or _has_job(one) for one in get_args(annotation))


def inspect_queue_handler(function: Function) -> Handler:
    """The same for a queue's handler, which is given the decoded element. Raises ``BadInput``."""
    name = name_of(function) if callable(function) else ""
    parameter = _only_parameter(signature_of(function), name)
    if (get_origin(parameter.annotation) or parameter.annotation) in _JOBS:
        raise BadInput(f"handler {name}: {parameter.name} is annotated as a job; an element of a queue is its value.")
    return Handler(function, name, is_async(function), True, None)


def _only_parameter(signature: inspect.Signature, name: str) -> inspect.Parameter:
    found = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    needed = [parameter for parameter in found if parameter.default is parameter.empty]
    first = next(iter(found), None)
    if first is None or first.kind is first.KEYWORD_ONLY or any(other is not first for other in needed):
        raise BadInput(
            f"handler {name}{signature}: it takes one argument, the job or its body; "
            "for a function with arguments of its own use @worker.task."
        )
    return first


def _check_job_type(origin: type, awaited: bool, name: str, parameter: str) -> None:
    if awaited and origin is Job:
        raise BadInput(
            f"handler {name}: {parameter} is annotated as tarry.Job, whose verbs would block the event loop; "
            "an async def takes a tarry.AsyncJob."
        )
    if not awaited and origin is AsyncJob:
        raise BadInput(
            f"handler {name}: {parameter} is annotated as tarry.AsyncJob, whose verbs must be awaited; "
            "a plain function takes a tarry.Job."
        )


def _body_type(kind: type[Any] | Codec[Any] | None, own: Any, name: str) -> Any:
    """The type of the bodies, from the decorator or from the annotation. Raises ``BadInput`` when they differ."""
    own = None if own in (Any, object) or isinstance(own, TypeVar) else own
    if kind is None:
        if own is not None:
            check_type(own, f"handler {name}")
        return own
    if own is not None and isinstance(kind, type) and own is not kind:
        raise BadInput(f"handler {name}: type={kind.__name__}, but the annotation says {own!r}; say it once.")
    return kind


def check_type(kind: Any, where: str) -> None:
    """Raises ``BadInput`` for a type that JSON cannot be decoded to."""
    try:
        info = msgspec.inspect.type_info(kind)
    except TypeError as fault:
        raise BadInput(f"{where}: {fault}.") from fault
    if isinstance(info, msgspec.inspect.CustomType):
        raise BadInput(
            f"{where}: {getattr(kind, '__name__', kind)} cannot be decoded from JSON; "
            "use a msgspec Struct, a dataclass or a TypedDict, or give the topic a codec with type=."
        )
