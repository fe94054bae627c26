"""Words of other libraries (Celery, RQ, Dramatiq, BullMQ): an error names tarry's word for each.

Such words are answered at run time only. Type checkers see no attribute and no ``**kwargs``, and refuse them.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import update_wrapper
from inspect import Parameter, getattr_static, signature
from types import FunctionType, MappingProxyType
from typing import Any, Never, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
TOPIC = 'Topic, made by client.topic("…")'
ADD = 'add, and options(delay="5m").add for later'
LATER = 'raise tarry.Retry(after="5m"), inside the function'
SEND_TASK = 'the task\'s own add, or client.topic("…").add({"task": …, "args": {…}})'
CONTROL = "client.workers() and client.set_worker_mode(…)"
OF_MODULE = {
    "Queue": TOPIC,
    "shared_task": "tarry.Registry(): @registry.task, and worker.include(registry)",
}
OF_RETRY: dict[str, str] = dict.fromkeys(("countdown", "delay", "eta", "defer"), 'after=, such as after="5m"')
KEYWORDS = {
    "countdown": 'delay=, such as delay=5 or delay="5m"',
    "eta": "at=, a datetime with a time zone",
    "queue": "topic=",
}
_RETRY = "retry=, such as retry=ConnectionError, or retry={ValueError: None}"
_BACK_OFF = 'retry=, such as retry=tarry.BackOff(first="2s", longest="60s")'
_ATTEMPTS = "max_attempts=, which counts the first run too"
_MAX_LATENESS = "max_lateness=, of options(…), of topic.configure(…) or of @worker.on(…)"
_KEEP_FINISHED = "keep_finished=, how long a result is kept"
_OF_KEYS = 'key=, an argument of add, with configure(key_concurrency=1), configure(key_rate="5/s") or configure(fair=True) of the topic'
_OF_STEPS = "none: a handler adds the next job when it has done its own; workflows are not tarry's (docs: When not to use tarry)"
_BY_KEYS: dict[str, str] = dict.fromkeys(
    ("concurrency_key", "fairness_key", "ordering_key", "group", "group_id", "tenant"), _OF_KEYS
)
_BY_STEPS: dict[str, str] = dict.fromkeys(("depends_on", "dependencies", "parent", "chain", "link"), _OF_STEPS)
_URL = "url=, such as redis://user:password@host:6379/0, which has it"
_FACTOR = 'factor=, which multiplies the pause after each failure, as in tarry.BackOff("1s", factor=2)'
_FIRST, _LONGEST = 'first=, such as first="2s"', 'longest=, such as longest="60s"'
OF_HANDLERS = {
    **_BY_KEYS,
    **_BY_STEPS,
    **KEYWORDS,
    "queue_name": "topic=",
    "actor_name": "name=",
    "batch": '@worker.on("events", batch=100), whose function is given many jobs; a task is one call',
    "linger": 'linger= of @worker.on("events", batch=100), whose function is given many jobs; a task is one call',
    "batch_size": "batch=, such as batch=100",
    "bind": "tarry.current_job(), which has the id and the attempt; leave bind= and self out",
    "autoretry_for": _RETRY,
    "retry_for": _RETRY,
    "dont_autoretry_for": _RETRY,
    "throws": _RETRY,
    "retry_backoff": _BACK_OFF,
    "retry_backoff_max": _BACK_OFF,
    "retry_jitter": _BACK_OFF,
    "min_backoff": _BACK_OFF,
    "max_backoff": _BACK_OFF,
    "default_retry_delay": 'retry=, such as retry="2s"',
    "retry_delay": 'retry=, such as retry="2s"',
    "max_retries": _ATTEMPTS,
    "max_tries": _ATTEMPTS,
    "retries": _ATTEMPTS,
    "key": "key=, an argument of add, or of @worker.task, which makes it of the arguments",
    "rate": 'a rate of the topic, such as topic.configure(rate="10/1m"); key_rate= is that of each key',
    "rate_limit": 'a rate of the topic, such as topic.configure(rate="10/1m")',
    "time_limit": 'timeout=, such as timeout="30s" with run="process"',
    "soft_time_limit": 'timeout=, such as timeout="30s" of an async def',
    "expires": _MAX_LATENESS,
    "max_age": _MAX_LATENESS,
    "priority": "task.options(priority=…), from 0 to 3",
    "store_results": _KEEP_FINISHED,
    "result_ttl": _KEEP_FINISHED,
    "acks_late": "none: a job is always finished after its function has returned",
    "ignore_result": "none: a result is kept only with keep_finished=",
    "serializer": "none: arguments are always JSON",
}
"""For ``@worker.task`` and the like. A word that begins with ``none`` stands for what tarry does without it."""
OF_ADD = {
    **KEYWORDS,
    **_BY_KEYS,
    **_BY_STEPS,
    "queue": 'the topic itself, made by client.topic("…")',
    "task_id": "id=",
    "job_id": "id=",
    "expires": "max_lateness=",
}
_WAIT = 'wait=, such as wait=5 or wait="5m"'
_NUMBERS: tuple[str, ...] = ("n", "count")
OF_POP = {"timeout": _WAIT, **dict.fromkeys((*_NUMBERS, "limit"), "pop_many, which takes up to limit=")}
OF_POP_MANY = {"timeout": _WAIT, **dict.fromkeys(_NUMBERS, "limit=")}
_POLL_MANY = "poll_many(limit), which takes up to so many"
OF_POLL = {
    "timeout": _WAIT,
    **dict.fromkeys((*_NUMBERS, "limit"), _POLL_MANY),
    "*": f"{_POLL_MANY}, or poll(wait=), which waits",
}
OF_POLL_AT_ONCE = {**dict.fromkeys((*_NUMBERS, "limit"), _POLL_MANY), "*": _POLL_MANY}
"""For a delayed queue, which does not wait."""
OF_POLL_MANY = OF_POP_MANY
OF_POLL_MANY_AT_ONCE: dict[str, str] = dict.fromkeys(_NUMBERS, "limit=")
OF_CLIENT: dict[str, str] = {
    **dict.fromkeys(
        ("host", "port", "db", "username", "password", "ssl", "unix_socket_path", "broker", "connection_pool"), _URL
    ),
    "decode_responses": "none: tarry decodes bodies by the topic's type",
    "timeout": "patience=",
    "socket_timeout": "patience=, or ?socket_timeout= in the URL",
    "prefix": "namespace=",
    "token": "tarry.HTTPClient(url, token=…), which is a client of a service",
}
OF_HTTP_CLIENT: dict[str, str] = {
    **dict.fromkeys(("host", "port", "base_url"), "url=, such as http://host:7070"),
    **dict.fromkeys(("username", "password", "api_key", "auth"), "token=, made by `tarry token create`"),
    "timeout": "patience=",
    "prefix": "namespace=",
}
OF_TOPIC = {"": 'client.topic("orders")'}
OF_LOCK = {"": 'client.lock("stock")', "timeout": _WAIT, "blocking_timeout": _WAIT, "ttl": 'lease=, such as lease="1m"'}
OF_CONFIGURE: dict[str, str] = {
    **dict.fromkeys(("max_retries", "max_tries", "retries"), _ATTEMPTS),
    **dict.fromkeys(("timeout", "time_limit", "visibility_timeout"), 'ttr=, such as ttr="2m"'),
    **dict.fromkeys(("expires", "max_age"), 'max_lateness=, such as max_lateness="1h"'),
    **dict.fromkeys(("max_concurrency", "workers"), "concurrency="),
    **_BY_KEYS,
    "rate_limit": 'rate=, such as rate="100/1m"',
    "result_ttl": _KEEP_FINISHED,
    "delay": "delay=, an argument of add",
    "priority": "priority=, an argument of add",
    "retry": "retry=, an argument of @worker.on and @worker.task",
}
OF_BACK_OFF: dict[str, str] = {
    **dict.fromkeys(("exponential", "base", "multiplier"), _FACTOR),
    **dict.fromkeys(("initial", "min", "minimum", "delay"), _FIRST),
    **dict.fromkeys(("max", "maximum", "max_delay", "cap"), _LONGEST),
    **dict.fromkeys(("max_retries", "retries", "max_attempts"), "max_attempts=, of the handler or the topic"),
    "random": "jitter=, from 0 to 1",
}
AS_DICT = "map.get(key), or map.as_dict(), which is the same map as a dictionary"
OF_JOBS = {
    **KEYWORDS,
    **_BY_KEYS,
    **_BY_STEPS,
    "queue": "topic=, an argument of @worker.task",
    "task_id": "id=",
    "job_id": "id=",
    "expires": "max_lateness=",
    "retry": "retry=, an argument of @worker.task",
    "result_ttl": "keep_finished=, an argument of @worker.task",
}
"""For the options of one job: its topic is its task's."""
STATES = {
    word: state
    for state, words in {
        "dead": "failed failure error errored discarded exhausted buried",
        "delayed": "scheduled deferred eta future",
        "ready": "pending waiting wait queued enqueued available due",
        "reserved": "running active started processing executing working in_progress unacked",
        "finished": "completed complete done success succeeded successful",
        "retrying": "retry retryable",
    }.items()
    for word in words.split()
}
"""States that others have, and tarry's."""


class OtherWord:
    """A class attribute that does not exist: reading it raises ``AttributeError`` with tarry's word. ``hasattr`` is false.

    Costs nothing for the other attributes, as ``__getattr__`` would.
    """

    def __init__(self, word: str) -> None:
        self._word = word

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        raise no_attribute(f"{owner.__name__!r} object", self._name, self._word)


class _NoOperator(AttributeError, TypeError):
    pass


class OtherOperator(OtherWord):
    """An operator that does not exist: a use of it raises ``TypeError`` as before, and the message has tarry's word. ``hasattr`` is false."""

    def __get__(self, instance: object, owner: type) -> Any:
        raise _NoOperator(f"{owner.__name__!r} object is not subscriptable; tarry's word is {self._word}")


class HidesOtherWords(type):
    """The type of a class with other words. The list of its members leaves them out, and that of what the class makes.

    So it does with the names in ``_for_modules``: what tarry's own modules read of a job, and users do not need. Lookups of
    attributes stay as they are.
    """

    def __new__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> HidesOtherWords:
        if "_for_modules" in members or any(isinstance(member, OtherWord) for member in members.values()):
            members = {"__dir__": _dir_of_instance, **members}
        return super().__new__(cls, name, bases, members)

    def __dir__(cls) -> list[str]:
        return _without_other_words(cls, super().__dir__())


def _dir_of_instance(instance: object) -> list[str]:
    return _without_other_words(type(instance), object.__dir__(instance))


def _without_other_words(owner: type, members: Iterable[str]) -> list[str]:
    hidden = for_modules(owner)
    return [
        name for name in members if name not in hidden and not isinstance(getattr_static(owner, name, None), OtherWord)
    ]


def for_modules(owner: type) -> set[str]:
    """The names without an underscore that are for tarry's own modules: no part of the interface."""
    return {name for one in owner.__mro__ for name in vars(one).get("_for_modules", ())}


def no_attribute(owner: str, name: str, word: str | None) -> AttributeError:
    """The error for an attribute that does not exist, with tarry's word for it."""
    return AttributeError(
        f"{owner} has no attribute {name!r}" + (f"; tarry's word is {word}" if word else ""), name=name
    )


class OtherWith:
    """The ``with`` that a class does not have: reading it raises ``AttributeError`` with the right one. ``hasattr`` is false."""

    def __init__(self, hint: str) -> None:
        self._hint = hint

    def __get__(self, instance: object, owner: type) -> Any:
        raise AttributeError(self._hint)


def refuse_other_with(owner: type[T]) -> type[T]:
    """A class decorator: ``async with`` of a blocking class, and ``with`` of an awaited one, are refused with the other class."""
    name = owner.__name__
    if hasattr(owner, "__aenter__"):
        hint = f"{name} is awaited: write `async with`, or use {name.removeprefix('Async')}"
    else:
        hint = f"{name} is blocking: write `with`, or use Async{name}"
    read_first = "exit" if sys.version_info >= (3, 14) else "enter"  # by a `with`; both would make it a context manager
    setattr(owner, f"__{read_first}__" if hasattr(owner, "__aenter__") else f"__a{read_first}__", OtherWith(hint))
    return owner


def own_methods(owner: type[T]) -> type[T]:
    """A class decorator: the methods of its bases, which users do not see, are its own; so an error of Python's names this class."""
    for base in (one for one in owner.__mro__[1:] if one.__module__.startswith("tarry.")):
        for name, member in vars(base).items():
            if isinstance(member, FunctionType) and not name.startswith("_") and name not in vars(owner):
                setattr(owner, name, _method_of(owner, member))
    return owner


def _method_of(owner: type, function: FunctionType) -> FunctionType:
    """The same function under the name that it has there. It is no wrapper, because that would be one more call."""
    code, defaults, closure = function.__code__, function.__defaults__, function.__closure__
    own = FunctionType(code, function.__globals__, function.__name__, defaults, closure)
    update_wrapper(own, function)
    own.__kwdefaults__, own.__qualname__ = function.__kwdefaults__, f"{owner.__qualname__}.{function.__name__}"
    return own


def hint_for_options(error: str) -> str:
    """The end of an error about an unknown argument of a task's call, which may be meant for the job."""
    name = next(
        (name for name in (*KEYWORDS, "delay", "at", "id", "ttr") if error.endswith(f"argument '{name}'")), None
    )
    if name is None:
        return ""
    return "; tarry's word is " + (
        OF_JOBS[name] if name == "queue" else 'options(…), such as options(delay="5m").add(…)'
    )


class _Missing(enum.Enum):
    MISSING = "missing"


MISSING: Any = _Missing.MISSING
"""Stands for a required argument that was not given; see ``hide_others``."""


def hide_others(verb: F) -> F:
    """A decorator for a verb that has ``*others`` or ``**words``, for ``refuse_others``: its signature does not show them.

    A verb with ``**words`` is also called without what it requires, which is ``MISSING`` then; so that a call with another library's
    word for it is told tarry's. It is no wrapper, because each would be one more call.
    """
    shown = signature(verb)
    named = [one for one in shown.parameters.values() if one.name not in ("others", "words")]
    verb.__signature__ = shown.replace(parameters=named)  # type: ignore[attr-defined]  # as `inspect` reads it
    if "words" in shown.parameters:
        by_place = sum(one.kind is one.POSITIONAL_OR_KEYWORD for one in _required(named))
        by_name = {one.name: MISSING for one in _required(named) if one.kind is one.KEYWORD_ONLY}
        verb.__defaults__ = (MISSING,) * by_place + (verb.__defaults__ or ())
        verb.__kwdefaults__ = {**(verb.__kwdefaults__ or {}), **by_name}
    return verb


def _required(named: Sequence[Parameter]) -> list[Parameter]:
    """Those without a default, after ``self``."""
    return [one for one in named[1:] if one.default is one.empty and one.kind is not one.VAR_POSITIONAL]


def refuse_others(
    verb: Callable[..., Any],
    owner: object,
    tarrys: Mapping[str, str],
    others: Sequence[object] = (),
    words: Mapping[str, object] = MappingProxyType({}),
) -> Never:
    """Raises ``TypeError`` for what a verb of ``owner`` takes only to refuse it, or for what it lacks.

    Of the keywords ``words`` the first that is another library's, with tarry's word for it; or one that nobody has; else for
    ``others``, options that are given by place, with ``tarrys["*"]`` or the name of the first option; else for what is ``MISSING``,
    with the example ``tarrys[""]``.
    """
    kind, is_constructor = type(owner).__name__, verb.__name__ == "__init__"
    if name := next((name for name in words if name in tarrys), None):
        called = kind if is_constructor else verb.__name__
        raise TypeError(f"{called}() has no argument {name!r}; tarry's word is {tarrys[name]}")
    from difflib import get_close_matches  # no start imports it

    label = f"{kind}()" if is_constructor else f"{kind}.{verb.__name__}()"
    parameters = signature(verb).parameters
    for name in words:
        meant = "".join(f". Did you mean {one!r}?" for one in get_close_matches(name, parameters, 1))
        raise TypeError(f"{label} got an unexpected keyword argument {name!r}{meant}")
    if not others:
        example = f"; write {tarrys['']}" if "" in tarrys else ""
        raise TypeError(f"{label} missing 1 required argument: {_required([*parameters.values()])[0].name!r}{example}")
    if "*" in tarrys:
        raise TypeError(f"{label} takes nothing by place; tarry's word is {tarrys['*']}")
    options = [name for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY]
    places = len(parameters) - len(options)
    raise TypeError(
        f"{label} takes {places} positional argument{'s' * (places > 1)} but {places + len(others)} were given; "
        f"give options by name, such as {options[0]}="
    )
