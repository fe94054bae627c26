"""Tasks: a call of a typed function as a job.

    @worker.task
    async def remind(user: int, text: str = "") -> None: ...

    remind.add(7)                                              # blocking;  await remind.add_async(7)
    remind.options(delay="1h", id="u7").add(7, text="hi")      # options of the job first, then the function's arguments
    remind.cancel("u7")                                        # deletes the job; .add() also answers a handle with cancel()
    await remind(7)                                            # calls the function itself

    a job's body   {"task": "remind", "args": {"user": 7, "text": "hi"}}

Arguments are sent by name as JSON, and validated against the annotations when they are added and where the task runs. Nothing is pickled, other
languages may add tasks, and an argument with a default may be added or removed between two releases.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property, update_wrapper
from typing import TYPE_CHECKING, Annotated, Any, Generic, Never, ParamSpec, Protocol, TypeVar, Union, overload

import msgspec
from msgspec import UNSET, UnsetType, structs

from tarry.errors import BadInput, BodyError
from tarry.values import functions, names
from tarry.values.durations import MILLISECOND, SECOND, Duration, as_timedelta, duration_us
from tarry.values.other_words import (
    ADD,
    LATER,
    OF_JOBS,
    HidesOtherWords,
    OtherWord,
    hide_others,
    hint_for_options,
    refuse_others,
)
from tarry.verbs.codecs import has_nan, problem_of_json
from tarry.verbs.jobs.durability import confirmation_for
from tarry.verbs.jobs.job_values import BaseJob, JobInfo, State
from tarry.verbs.jobs.options import DEFAULT_OPTIONS, Durability, IfExists, JobOptions, NewJob, key_of, max_attempts_of
from tarry.verbs.jobs.records import handlers_keep_finished_arg
from tarry.worker import handlers
from tarry.worker.process_functions import ProcessFunction, Run, name_function
from tarry.worker.targets import Target, call_as_current, drop_when_late, set_current
from tarry.worker.task_jobs import AsyncTaskJob, TaskJob, task_job
from tarry.worker.verdicts import DEFAULT_BACK_OFF, Policy, PolicyLike, check_policy

if TYPE_CHECKING:
    from tarry.clients.awaited.topic import AsyncTopic
    from tarry.clients.blocking.topic import Topic
    from tarry.worker.task_host import TaskHost

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")
"""The type of a call here and now: of the result, or of a coroutine that returns it."""


class Envelope(msgspec.Struct):
    """The body of a task's job; the arguments are not decoded yet. No task has a longer name, and reports and logs name those that are
    unknown."""

    task: Annotated[str, msgspec.Meta(max_length=names.LONGEST)]
    args: msgspec.Raw = msgspec.Raw(b"{}")


KeyOf = Callable[..., "str | None"]
"""Makes the key of a job of the arguments of its call."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of a registration that concern each run of its function."""

    timeout_s: float | None = None
    retry: Policy = DEFAULT_BACK_OFF
    max_attempts: int | UnsetType | None = UNSET
    cancel_when_lost: bool = False
    max_lateness: timedelta | None = None
    on_too_late: Callable[[Any], Any] | None = None
    run: Run | None = None
    keep_finished: Duration | None = None

    @staticmethod
    def of(
        timeout: Duration | None,
        retry: PolicyLike | None,
        max_attempts: int | UnsetType | None,
        cancel: bool,
        max_lateness: Duration | None = None,
        on_too_late: Callable[[Any], Any] | None = None,
        run: Run | None = None,
        keep_finished: Duration | None = None,
    ) -> RunOptions:
        """Checks the options. Raises ``BadInput``."""
        handlers_keep_finished_arg(keep_finished)
        max_attempts_of(max_attempts)
        seconds = None if timeout is None else duration_us(timeout, "timeout", minimum=MILLISECOND) / SECOND
        if on_too_late is not None:
            if max_lateness is None or not callable(on_too_late):
                raise BadInput("on_too_late: give a function that takes the job, together with max_lateness=.")
            functions.refuse_generator(on_too_late, "on_too_late")
        lateness = None if max_lateness is None else as_timedelta(duration_us(max_lateness, "max_lateness"))
        return RunOptions(
            timeout_s=seconds,
            retry=check_policy(retry),
            max_attempts=max_attempts,
            cancel_when_lost=cancel,
            max_lateness=lateness,
            on_too_late=on_too_late,
            run=run,
            keep_finished=keep_finished,
        )

    def target(self, name: str, is_async: bool, call: Callable[[Any], Any]) -> Target:
        if self.max_lateness is not None:
            if self.on_too_late is not None and functions.is_async(self.on_too_late) is not is_async:
                raise BadInput(
                    f"on_too_late: it must be {'async def' if is_async else 'a plain function'}, as {name} is."
                )
            call = drop_when_late(call, is_async, self.max_lateness, self.on_too_late)
        return Target(
            name=name,
            is_async=is_async,
            call=call,
            timeout_s=self.timeout_s,
            retry=self.retry,
            max_attempts=self.max_attempts,
            cancel_when_lost=self.cancel_when_lost,
            keep_finished=self.keep_finished,
        )


class Task(Generic[P, R, C], metaclass=HidesOtherWords):
    """A function whose calls can be added as jobs. Made by ``@worker.task`` or ``@registry.task``.

    In ``Task[P, R, C]``, ``P`` are the function's parameters, ``R`` is the type of its result, and ``C`` is what a direct call returns: ``R`` or a
    coroutine.
    """

    def __init__(
        self,
        registry: TaskHost,
        function: Callable[P, C],
        topic: str | None,
        name: str | None,
        options: RunOptions,
        slots: int,
        *,
        takes_ahead: bool,
        key: KeyOf | None = None,
        key_limits: Mapping[str, Any],
    ) -> None:
        self.name: str = name or str(getattr(function, "__name__", ""))
        """The name that its jobs carry: the function's, or the given one."""
        inner = TaskFunction(registry, function, topic, self.name, options, slots, takes_ahead=takes_ahead, key=key)
        inner.key_limits = dict(key_limits)
        update_wrapper(self, function)
        self.inner: TaskFunction = function.inner if isinstance(function, Task) else inner

    @property
    def topic_name(self) -> str:
        """The topic that its jobs are added to: the given one, or the topic that has the worker's name."""
        return self.inner.topic_name

    if not TYPE_CHECKING:
        delay = OtherWord(ADD)
        apply_async = OtherWord(ADD)
        enqueue = OtherWord(ADD)
        send = OtherWord(ADD)
        send_with_options = OtherWord(ADD)
        queue = OtherWord("topic_name")
        s = OtherWord(ADD)
        si = OtherWord(ADD)
        signature = OtherWord(ADD)
        retry = OtherWord(LATER)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """Calls the function here and now."""
        result: C = self.inner.function(*args, **kwargs)
        return result

    def add(self, *args: P.args, **kwargs: P.kwargs) -> TaskJob[R]:
        """Adds a job that will call the function with these arguments; uses the worker's blocking client."""
        return TaskOptions(self, DEFAULT_OPTIONS, None).add(*args, **kwargs)

    async def add_async(self, *args: P.args, **kwargs: P.kwargs) -> AsyncTaskJob[R]:
        """The same as ``add``, awaited."""
        return await TaskOptions(self, DEFAULT_OPTIONS, None).add_async(*args, **kwargs)

    def cancel(self, id: str, *, running: bool = False) -> State | None:
        """Deletes a job by its id, so that the task does not run. Returns the state that the job was in, or ``None`` if it is already
        gone.

        Ids belong to the topic, so two tasks of one topic share them. If a run has begun, it goes on, but is not repeated. With ``running=True`` the
        worker stops the run within half of the job's time to run: an async function is cancelled, and a child process is killed. A
        function in a thread cannot be stopped, but sees that ``tarry.current_job().lost`` is true.
        """
        return self.inner.open_topic().delete(id, running=running)

    async def cancel_async(self, id: str, *, running: bool = False) -> State | None:
        """The same as ``cancel``, awaited."""
        return await self.inner.open_async_topic().delete(id, running=running)

    def reschedule(self, id: str, *, delay: Duration | None = None, at: datetime | None = None) -> State | None:
        """Sets another due time: a delay from now, or a moment. Returns the state that the job was in; a reserved or dead job stays as it
        is."""
        return self.inner.open_topic().reschedule(id, delay=delay, at=at)

    async def reschedule_async(
        self, id: str, *, delay: Duration | None = None, at: datetime | None = None
    ) -> State | None:
        """The same as ``reschedule``, awaited."""
        return await self.inner.open_async_topic().reschedule(id, delay=delay, at=at)

    def get(self, id: str) -> JobInfo[Any] | None:
        """The job with this id as it is now, or ``None`` if it is gone."""
        return self.inner.open_topic().get(id)

    async def get_async(self, id: str) -> JobInfo[Any] | None:
        """The same as ``get``, awaited."""
        return await self.inner.open_async_topic().get(id)

    def result(self, id: str, *, wait: Duration | None = 0) -> R:
        """The result of the function for the job with this id, in the type of the function's annotation. The task or the topic
        needs ``keep_finished``.

        ``wait`` says how long to wait for the result; ``None``: without a limit. Raises ``NoResult`` if the job is not finished
        within ``wait``, is dead or unknown, or its result was not kept.
        """
        found: R = self.inner.open_topic().result(id, wait=wait, type=self.inner.result_type)
        return found

    async def result_async(self, id: str, *, wait: Duration | None = 0) -> R:
        """The same as ``result``, awaited."""
        found: R = await self.inner.open_async_topic().result(id, wait=wait, type=self.inner.result_type)
        return found

    @hide_others
    def options(
        self,
        *others: Never,
        delay: Duration | UnsetType = UNSET,
        at: datetime | None = None,
        id: str | None = None,
        if_exists: IfExists = "error",
        latest: Duration | None = None,
        ttr: Duration | None = None,
        max_attempts: int | UnsetType | None = UNSET,
        headers: Mapping[str, str] | None = None,
        max_lateness: Duration | None = None,
        priority: int = 0,
        key: str | None = None,
        durability: Durability = None,
        **words: Never,
    ) -> TaskOptions[P, R]:
        """Sets options of the job, the same as those of ``topic.add``; then call ``.add(…)`` with the function's own arguments."""
        if others or words:
            refuse_others(Task.options, self, OF_JOBS, others, words)
        options = JobOptions(
            delay=delay,
            at=at,
            if_exists=if_exists,
            latest=latest,
            ttr=ttr,
            max_attempts=max_attempts,
            headers=headers,
            max_lateness=max_lateness,
            priority=priority,
            key=key,
            durability=durability,
        )
        options.encode()
        if durability is not None:
            confirmation_for(durability)
        return TaskOptions(self, options, id)

    def new_job(self, *args: P.args, **kwargs: P.kwargs) -> NewJob[Any]:
        """A call of the function with these arguments, as a job for ``topic.add_many``."""
        body, headers = self.inner.body(*args, **kwargs), self.inner.registry.stamped_headers(None)
        return NewJob(body, headers=headers, key=self.inner.key(*args, **kwargs))

    def body(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """A call of the function with these arguments, as a body. Raises ``BadInput`` when the arguments do not fit the function's
        signature and its annotations."""
        return self.inner.body(*args, **kwargs)


def _check_key_function(key: KeyOf, task: inspect.Signature) -> None:
    """Raises ``BadInput`` for one that cannot be called as the task is."""
    if functions.is_async(key):
        raise BadInput(
            "key: it is an async function, and a job's key is made when the job is added; write a plain one."
        )
    try:
        own = inspect.signature(key).parameters.values()
    except (TypeError, ValueError):  # some functions in C have none
        return
    if any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in own):
        return
    wanted = [(one.name, one.default is one.empty) for one in task.parameters.values()]
    if [(one.name, one.default is one.empty) for one in own] != wanted:
        names = ", ".join(name if needed else f"{name}=…" for name, needed in wanted)
        raise BadInput(
            f"key: it is called with the task's arguments, so it has the same parameters: key=lambda {names}: …"
        )


class TaskFunction:
    """The function of a task, its topic and how it runs: for the modules of the worker."""

    def __init__(
        self,
        registry: TaskHost,
        function: Callable[..., Any],
        topic: str | None,
        name: str,
        options: RunOptions,
        slots: int,
        *,
        takes_ahead: bool,
        key: KeyOf | None = None,
    ) -> None:
        if key is not None and not callable(key):
            raise BadInput(
                f"key: {key!r}; of a task it is a function of its arguments, such as key=lambda order: order.customer."
            )
        if name == "<lambda>":
            raise BadInput("task: a lambda has no name, and its jobs need one; give name=, or write a def.")
        names.check_name(name, "task")
        self.name = name
        self._given_topic = topic
        self.slots = slots
        self.takes_ahead = takes_ahead
        self.key_limits: dict[str, Any] = {}
        """The settings for each key that its worker gives the topic."""
        self.registry = registry
        self.function = function
        self._run_options = options
        self._key_of = key
        self._signature = handlers.signature_of(function)
        if key is not None:
            _check_key_function(key, self._signature)
        self._arguments = _decoder(self.name, self._signature)
        self._of_any_type = tuple(
            name for name, one in self._signature.parameters.items() if one.annotation in (one.empty, Any)
        )
        self._process: ProcessFunction | None = None
        if options.run == "process":
            self._process = name_function(
                function=function,
                name=self.name,
                topic=topic or "",
                task=self.name,
                registry=registry,
                call=self._run,
            )

    @property
    def topic_name(self) -> str:
        """The topic that its jobs are added to. Raises ``BadInput`` as long as it is not known."""
        return self._given_topic or self.registry.worker_topic()

    @property
    def known_topic(self) -> str:
        """The same; empty as long as no worker includes its registry."""
        return self._given_topic or self.registry.root.tasks_topic

    @cached_property
    def result_type(self) -> Any:
        """The annotation of the function's result, if a result can be decoded as that; else ``Any``."""
        kind = self._signature.return_annotation
        try:
            msgspec.json.Decoder(kind)
        except Exception:  # noqa: BLE001  # any annotation: then it is what the JSON is
            return Any
        return Any if kind in (inspect.Signature.empty, None) else kind

    def open_topic(self) -> Topic[Any]:
        """The topic of its jobs, by the worker's blocking client."""
        return self.registry.including_worker().client.topic(self.topic_name)

    def open_async_topic(self) -> AsyncTopic[Any]:
        """The topic of its jobs, by the worker's awaited client."""
        return self.registry.including_worker().async_client.topic(self.topic_name)

    def body(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as fault:
            raise BadInput(f"task {self.name}{self._signature}: {fault}{hint_for_options(str(fault))}.") from fault
        for name in self._of_any_type:
            if (problem := problem_of_json(bound.arguments.get(name))) is not None:
                raise BadInput(f"task {self.name}, argument {name}: {problem}, or annotate the argument.")
        try:
            self._arguments.decode(_encode(bound.arguments))
        except (TypeError, ValueError, RecursionError) as fault:
            if not has_nan(bound.arguments):  # else the topic's codec says so
                raise BadInput(f"task {self.name}{self._signature}: {fault}.") from fault
        return {"task": self.name, "args": bound.arguments}

    def key(self, *args: Any, **kwargs: Any) -> str | None:
        """The key of the call: what the task's ``key=`` makes of its arguments. Raises ``BadInput`` if it is none."""
        if self._key_of is None:
            return None
        try:
            made = self._key_of(*args, **kwargs)
        except Exception as fault:
            fault.add_note(f"It was raised by key= of the task {self.name}; nothing was added.")
            raise
        try:
            return key_of(made)
        except BadInput as fault:
            raise BadInput(f"task {self.name}: what its key= has made, {fault}") from fault

    def checked_body(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The call of a schedule as a body. Raises ``BadInput``."""
        required = [name for name, one in self._signature.parameters.items() if one.default is one.empty]
        if missing := [name for name in required if name not in args]:
            example = ", ".join(f'"{name}": …' for name in required)
            raise BadInput(
                f"task {self.name}{self._signature}: the schedule has no argument {missing[0]!r}; give args={{{example}}}."
            )
        body: Any = self.body
        made: dict[str, Any] = body(**args)
        return made

    # ── for workers ─────────────────────────────────────────────────────────────────────────────────────────────

    def target(self) -> Target:
        awaited = functions.is_async(self.function)
        target = self._run_options.target(self.name, awaited, self._run_async if awaited else self._run)
        return target if self._process is None else replace(target, process=self._process)

    async def _run_async(self, job: BaseJob[Any]) -> Any:
        set_current(job)
        args, kwargs = self._decode_arguments(job)
        function: Any = self.function
        return await function(*args, **kwargs)

    def _run(self, job: BaseJob[Any]) -> Any:
        args, kwargs = self._decode_arguments(job)
        function: Any = self.function
        return call_as_current(job, lambda: function(*args, **kwargs))

    def _decode_arguments(self, job: BaseJob[Any]) -> tuple[Any, Any]:
        try:
            decoded = self._arguments.decode(parse_envelope(job).args)
        except _UNREADABLE as fault:
            raise BodyError(f"the arguments do not fit {self.name}{self._signature}: {fault}") from fault
        found = {name: getattr(decoded, name) for name in decoded.__struct_fields__}
        bound = inspect.BoundArguments(
            self._signature,
            {name: value for name, value in found.items() if value is not msgspec.UNSET},
        )
        return bound.args, bound.kwargs


class TaskDecorator(Protocol):
    """``@worker.task(…)``, ``@worker.every(…)``, ``@worker.cron(…)``: the function becomes a task; a task stays one."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...


class TaskOptions(Generic[P, R], metaclass=HidesOtherWords):
    """A task with options for its next job."""

    if not TYPE_CHECKING:
        delay = OtherWord("add")
        apply_async = OtherWord("add")
        enqueue = OtherWord("add")
        send = OtherWord("add")

    def __init__(self, task: Task[P, R, Any], options: JobOptions, id: str | None) -> None:
        self._task = task
        self._options = options
        self._id = id

    def add(self, *args: P.args, **kwargs: P.kwargs) -> TaskJob[R]:
        """Adds the job. Raises the errors of ``topic.add``."""
        body = self._task.inner.body(*args, **kwargs)
        topic = self._task.inner.open_topic()
        return task_job(
            TaskJob[R], topic, topic.add(body, **self._job_options(*args, **kwargs)), self._task.inner.result_type
        )

    async def add_async(self, *args: P.args, **kwargs: P.kwargs) -> AsyncTaskJob[R]:
        """Adds the job from an event loop. Raises the errors of ``topic.add``."""
        body = self._task.inner.body(*args, **kwargs)
        topic = self._task.inner.open_async_topic()
        return task_job(
            AsyncTaskJob[R],
            topic,
            await topic.add(body, **self._job_options(*args, **kwargs)),
            self._task.inner.result_type,
        )

    def _job_options(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        given, inner = structs.asdict(self._options), self._task.inner
        headers = inner.registry.stamped_headers(self._options.headers)
        key = inner.key(*args, **kwargs) if given["key"] is None else given["key"]
        return {**given, "headers": headers, "key": key, "id": self._id}


def parse_envelope(job: BaseJob[Any] | JobInfo[Any]) -> Envelope:
    """The task name and the raw arguments of a job. Raises ``BodyError`` for a body that is not a task's."""
    try:
        return _ENVELOPE.decode(job.raw)
    except _UNREADABLE as fault:
        raise BodyError(f"not a task: {fault}") from fault


_ENVELOPE = msgspec.json.Decoder(Envelope)
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""A decoder raises these for bytes that are no JSON, or another than is expected."""
_encode = msgspec.json.Encoder().encode


def _decoder(name: str, signature: inspect.Signature) -> msgspec.json.Decoder[Any]:
    """A decoder of the arguments, each by its annotation. Unknown arguments are refused; those with a default may be missing."""
    fields: list[Any] = []
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise BadInput(f"task {name}{signature}: *args and **kwargs cannot be sent; name each argument.")
        kind = Any if parameter.annotation is parameter.empty else parameter.annotation
        if kind is not Any:
            handlers.check_type(kind, f"task {name}, argument {parameter.name}")
        if parameter.default is parameter.empty:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, kind if kind is Any else Union[kind, msgspec.UnsetType], msgspec.UNSET))  # noqa: UP007  # any kind
    made = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
    return msgspec.json.Decoder(made)
