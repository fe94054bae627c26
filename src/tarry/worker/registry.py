"""A registry: which function handles which jobs. A large application has several; its worker includes them.

mail = Registry()

@mail.on("letters", concurrency=50)
async def send(letter: Letter) -> None: ...

@mail.task
async def remind(user: int, text: str = "") -> None: ...

worker.include(mail)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Never, ParamSpec, TypeVar, overload

from msgspec import UNSET, UnsetType

from tarry.errors import BadInput
from tarry.values import names
from tarry.values.durations import Duration
from tarry.values.functions import is_async, name_of
from tarry.values.other_words import (
    CONTROL,
    MISSING,
    OF_HANDLERS,
    SEND_TASK,
    HidesOtherWords,
    OtherWord,
    hide_others,
    own_methods,
    refuse_others,
)
from tarry.values.rates import RateLike
from tarry.values.topic_patterns import escaped, is_pattern, literal, overlap
from tarry.verbs.codecs import Codec
from tarry.verbs.jobs.pop import ttr_of
from tarry.verbs.jobs.precedence import TTR, decide
from tarry.worker import handlers
from tarry.worker.handlers import QueueRoute
from tarry.worker.process_functions import CORES, Run, check_run, name_function
from tarry.worker.targets import Middleware, Target, chain, make_call
from tarry.worker.task_schedules import ScheduleDecorators, TaskSchedule
from tarry.worker.tasks import KeyOf, RunOptions, Task, TaskDecorator
from tarry.worker.verdicts import PolicyLike

if TYPE_CHECKING:
    from tarry.worker.batches import Batching
    from tarry.worker.task_host import TaskWorker

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
Stamp = Callable[[], Mapping[str, str]]
CONCURRENCY, THREADS = 100, 20
"""How many jobs of a topic run at a time: with an async handler, and with a plain one, which needs a thread a job."""


@dataclass(slots=True)
class TopicRoute:
    """A topic of a worker: its handler, or its tasks by name."""

    topic: str
    slots: int
    weight: float = 1.0
    ttr: Duration | None = None
    takes_ahead: bool = False
    """Whether it may have more jobs in hand than slots, because nobody gave a concurrency."""
    type: type[Any] | Codec[Any] | None = None
    handler: Target | None = None
    tasks: dict[str, Target] = field(default_factory=dict)
    is_pattern: bool = False
    """Whether it is for all topics that match."""
    processes: int = 0
    """At most how many child processes its tasks with ``run="process"`` use."""
    key_limits: dict[str, Any] = field(default_factory=dict)
    """The settings for each key that it gives its topic when it starts."""

    def ttr_in(self, workers: Duration) -> Duration:
        """The TTR of the jobs that it pops; ``workers`` is its worker's."""
        ttr: Duration = decide(TTR, {"handler": self.ttr, "worker": workers}).value
        return ttr

    @property
    def batching(self) -> Batching | None:
        """For a handler that takes many jobs; ``None``: it takes one."""
        return None if self.handler is None else self.handler.batching

    @property
    def targets(self) -> list[Target]:
        """The handler, or the tasks."""
        return [self.handler] if self.handler else list(self.tasks.values())


class Registrations:
    """The tasks, routes and schedules of a registry and of those that it includes, for the modules of the worker."""

    def __init__(self) -> None:
        self.routes_by_topic: dict[str, TopicRoute] = {}
        """By what they were registered for: a pattern, or a topic."""
        self.patterns: list[str] = []
        self.own_tasks: list[Task[..., Any, Any]] = []
        self.own_schedules: list[TaskSchedule] = []
        self.middleware: list[Middleware] = []
        self.stamps: list[Stamp] = []
        self.queues: dict[str, QueueRoute] = {}
        self.included: list[Registrations] = []
        self.parent: Registrations | None = None

    def include(self, included: Registrations) -> None:
        """Includes those of another registry. Raises ``BadInput``."""
        if included is self or included is self.root:
            raise BadInput("include: a registry cannot include itself.")
        before, included.parent = included.parent, self
        try:
            self._check_included(included)
        except BadInput:
            included.parent = before
            raise
        self.included.append(included)

    def _check_included(self, included: Registrations) -> None:
        """Raises ``BadInput`` if the root has a handler or a task of the included one already, or is a worker without a name for tasks, or
        with a TTR that is too short for a handler."""
        for route in included.routes():
            if route.batching is not None and self.root.ttr is not None:
                route.batching.check_ttr(route.ttr_in(self.root.ttr))
        if included.tasks():
            _ = self.root.tasks_topic
        topics = {route.topic: bool(route.handler) for route in self.root.routes()}
        routes = {route.topic: bool(route.handler) for route in included.routes()}
        twice: list[Any] = [topic for topic in topics.keys() & routes.keys() if topics[topic] or routes[topic]]
        twice += [route.topic for route in included.routes() if route.handler and route.tasks]
        twice += {route.queue for route in self.root.queue_routes()} & {
            route.queue for route in included.queue_routes()
        }
        if not twice:
            tasks = Counter((task.inner.known_topic, task.name) for task in (*self.root.tasks(), *included.tasks()))
            schedules = Counter(one.key for one in (*self.root.schedules(), *included.schedules()))
            twice = [key for counted in (tasks, schedules) for key, times in counted.items() if times > 1]
        if twice:
            raise BadInput(f"include: there already is a handler for {sorted(twice)}.")
        both = [*self.root.routes(), *included.routes()]
        texts = sorted({route.topic if route.is_pattern else escaped(route.topic) for route in both})
        for pattern in filter(is_pattern, texts):
            other = next((one for one in texts if one != pattern and overlap(pattern, one)), None)
            if other is not None:
                raise BadInput(f"include: {_two_handlers(pattern, other)}")

    # ── what the worker reads ────────────────────────────────────────────────────────────────────────────────────────

    def routes(self, outer: tuple[Middleware, ...] = ()) -> list[TopicRoute]:
        """All topics, those of included registries too. The tasks of one topic make one route."""
        layers = (*outer, *chain(self.middleware))
        found = {route.topic: _with_middleware(route, layers) for route in self.routes_by_topic.values()}
        for task in self.own_tasks:
            topic = task.inner.known_topic
            route = found.setdefault(topic, TopicRoute(topic, 1, takes_ahead=True))
            route.tasks[task.name] = _wrap(task.inner.target(), layers)
            route.slots = max(route.slots, task.inner.slots)
            route.takes_ahead = route.takes_ahead and task.inner.takes_ahead
            route.key_limits = _both_limits(topic, route.key_limits, task.inner.key_limits)
            if route.tasks[task.name].process is not None:
                route.processes = max(route.processes, task.inner.slots)
        for included in self.included:
            for route in included.routes(layers):
                known = found.setdefault(route.topic, route)
                if known is not route:
                    known.tasks.update(route.tasks)
                    known.slots = max(known.slots, route.slots)
                    known.takes_ahead = known.takes_ahead and route.takes_ahead
                    known.processes = max(known.processes, route.processes)
                    known.key_limits = _both_limits(route.topic, known.key_limits, route.key_limits)
        return list(found.values())

    def handled_by(self, topic: str) -> str | None:
        """A handler's topic or pattern that would get jobs of this topic, or of a topic that this pattern matches."""
        others = self.routes_by_topic if is_pattern(topic) else self.patterns
        own = topic if topic in self.routes_by_topic else next((one for one in others if overlap(topic, one)), None)
        return own or next(filter(None, (included.handled_by(topic) for included in self.included)), None)

    def refuse_second(self, topic: str) -> None:
        """Raises ``BadInput`` if a topic, or one that a pattern matches, would have two handlers."""
        other = self.handled_by(topic)
        if other is None:
            of_tasks = (escaped(task.inner.known_topic) for task in self.tasks())
            other = next((one for one in of_tasks if overlap(topic, one)), None)
        if other is not None:
            raise BadInput(f"topic: {_two_handlers(topic, other)}")

    def queue_routes(self) -> list[QueueRoute]:
        """All queues, those of included registries too."""
        return [
            *self.queues.values(),
            *[route for included in self.included for route in included.queue_routes()],
        ]

    def stamped_headers(self, own: Mapping[str, str] | None) -> Mapping[str, str] | None:
        """The headers of a job that a task adds."""
        stamps = [stamp for one in reversed([*self._ancestors()]) for stamp in one.stamps]
        if not stamps:
            return own
        made: dict[str, str] = {}
        for stamp in stamps:
            made.update(stamp())
        made.update(own or {})
        return made

    @property
    def has_stamps(self) -> bool:
        """Whether it, or a registry that it includes, has stamps."""
        return bool(self.stamps) or any(included.has_stamps for included in self.included)

    def tasks(self) -> list[Task[..., Any, Any]]:
        return [*self.own_tasks, *[task for included in self.included for task in included.tasks()]]

    def add_schedule(self, schedule: TaskSchedule) -> None:
        """Adds a schedule. Raises ``BadInput`` for a second one with its id."""
        if any(one.key == schedule.key for one in self.schedules()):
            place = schedule.task.inner.known_topic or "this registry"
            raise BadInput(f"id: {place} has a schedule {schedule.id!r} already; give id=.")
        self.own_schedules.append(schedule)

    def schedules(self) -> list[TaskSchedule]:
        return [*self.own_schedules, *[one for included in self.included for one in included.schedules()]]

    def including_worker(self) -> TaskWorker:
        """The worker that includes this registry. Raises ``BadInput`` when none does."""
        root = self.root
        if root is self:
            raise BadInput(
                "task: its registry belongs to no worker; import the module whose worker includes it, or call worker.include(registry)."
            )
        return root.including_worker()

    def worker_topic(self) -> str:
        """The topic of the worker's name. Raises ``BadInput`` when no worker includes this registry, or it has no name."""
        self.including_worker()
        return self.root.tasks_topic

    @property
    def tasks_topic(self) -> str:
        """The topic of tasks that are given none: none yet; the worker that includes a registry has one."""
        return ""

    @property
    def ttr(self) -> Duration | None:
        """The TTR of the worker; none yet: the worker that includes a registry has one."""
        return None

    @property
    def root(self) -> Registrations:
        """The last of those that include it: a worker, once it belongs to one."""
        *_, root = self._ancestors()
        return root

    def _ancestors(self) -> Iterator[Registrations]:
        one: Registrations | None = self
        while one is not None:
            yield one
            one = one.parent


@own_methods
class Registry(ScheduleDecorators, metaclass=HidesOtherWords):
    """A collection of handlers and tasks, such as those of one module. A worker includes it."""

    if not TYPE_CHECKING:
        send_task = OtherWord(SEND_TASK)
        control = OtherWord(CONTROL)
        conf = OtherWord("the arguments of tarry.Worker(…)")

    def __init__(self) -> None:
        self.registered: Registrations = Registrations()

    @hide_others
    def on(
        self,
        topic: str,
        *others: Never,
        concurrency: int | None = None,
        batch: int | None = None,
        linger: Duration | None = None,
        weight: float = 1,
        type: type[Any] | Codec[Any] | None = None,
        ttr: Duration | None = None,
        timeout: Duration | None = None,
        run: Run | None = None,
        retry: PolicyLike | None = None,
        max_attempts: int | UnsetType | None = UNSET,
        cancel_when_lost: bool = False,
        max_lateness: Duration | None = None,
        on_too_late: Callable[[Any], Any] | None = None,
        keep_finished: Duration | None = None,
        key_concurrency: int | UnsetType | None = UNSET,
        key_rate: RateLike | UnsetType | None = UNSET,
        fair: bool | UnsetType | None = UNSET,
        retry_holds_key: bool | UnsetType | None = UNSET,
        **words: Never,
    ) -> Callable[[F], F]:
        """The decorated function handles the jobs of a topic. The annotation of its parameter decides whether it gets the job or only
        the job's body.

        An ``async def`` runs in the event loop. A plain function runs in a thread, or in a child process with
        ``run="process"``, which is for CPU-bound code and for code that may hang. The topic may be a pattern:
        with ``"notify-*"`` the function handles all topics whose names begin with ``notify-``, also those that are new. If a topic's
        name contains a star, write a backslash before the star.

        ``concurrency``  how many jobs run at a time; with a pattern, in all of its topics together. The default is 100 for an ``async def``, 20 for threads, and
                 the number of cores for child processes
        ``weight``  this topic's share of the worker's slots, when the topics compete for them
        ``ttr``  the time to run. If this worker is cut off from the server, other workers get its jobs after this time
        ``batch``, ``linger``  the function gets a list of up to ``batch`` jobs, or of their bodies. The first job waits up to ``linger`` for the others.
                 All jobs are finished together; raise ``tarry.Failed`` if some have failed. A batch takes one slot, and ``concurrency`` is 1
                 by default
        ``timeout``  how long one run may take. After this time an ``async def`` is cancelled, and a child process is killed. A function in a thread
                 cannot be stopped: its job stays reserved until the function returns, and then the attempt has failed
        ``retry``  how long a failed job waits for its next attempt: ``"2s"``, a ``BackOff``, a map from exceptions to these, or a function. With
                 an exception type, jobs that failed with it are retried, and others are not
        ``max_attempts``  how often a job may be handed out; ``None`` for no limit. This overrides the topic's option, and a job's own option overrides
                 both
        ``cancel_when_lost``  whether an ``async def`` is cancelled when the reservation of its job is lost
        ``max_lateness``, ``on_too_late``  a job that is later than ``max_lateness`` goes to the function ``on_too_late`` instead, and is finished
                 when that function returns. Without ``on_too_late`` the job becomes dead, with the reason ``too late``. A job's own ``max_lateness``
                 overrides this one
        ``keep_finished``  how long finished jobs are kept, with the function's return value as their result; 0: not at all. The default is the topic's
                 option

        ``key_concurrency``, ``key_rate``, ``fair``, ``retry_holds_key``  limits of the topic for the jobs of each ``key``. The worker calls ``configure``
                 with them when it starts, before its first job. They apply to all workers of the topic

        Raises ``BadInput``.
        """
        if others or words or topic is MISSING:
            refuse_others(Registry.on, self, OF_HANDLERS, others, words)
        handlers.refuse_bare(topic, '@worker.on("orders")')
        names.check_name(literal(topic), "topic")
        self.registered.root.refuse_second(topic)
        slots = None if concurrency is None else check_slots(concurrency)
        if not isinstance(weight, (int, float)) or isinstance(weight, bool) or not 0 < weight < float("inf"):
            raise BadInput(f"weight: {weight!r}; it is a number above 0.")
        ttr_of(ttr)
        key_limits = _key_limits(key_concurrency, key_rate, fair, retry_holds_key)
        batching: Batching | None = None
        if batch is not None or linger is not None:
            from tarry.worker.batches import Batching

            one_job = {
                "max_lateness": max_lateness is not None,
                "on_too_late": on_too_late is not None,
                "cancel_when_lost": cancel_when_lost,
            }
            known_ttr = self.registered.root.ttr if ttr is None else ttr
            batching = Batching.of(batch, linger, run, known_ttr, by_job=one_job)
        options = RunOptions.of(
            timeout=timeout,
            retry=retry,
            max_attempts=max_attempts,
            cancel=cancel_when_lost,
            max_lateness=max_lateness,
            on_too_late=on_too_late,
            run=run,
            keep_finished=keep_finished,
        )

        def register(function: F) -> F:
            handler = handlers.inspect_handler(function, type, takes_many=batching is not None)
            check_run(run, handler.name, handler.is_async)
            call = make_call(handler) if batching is None else batching.make_call(handler)
            target = replace(options.target(handler.name, handler.is_async, call), batching=batching)
            if run == "process":
                kind = handler.type
                process = name_function(
                    function=function,
                    name=handler.name,
                    topic=topic,
                    task="",
                    registry=self.registered,
                    call=target.call,
                    kind=kind,
                )
                target = replace(target, process=process)
            usual = _usual_slots(handler.is_async, run) if batching is None else 1
            takes_ahead = slots is None and batching is None
            route = self.registered.routes_by_topic[topic] = TopicRoute(
                literal(topic),
                slots or usual,
                float(weight),
                ttr,
                takes_ahead,
                handler.type,
                target,
                key_limits=key_limits,
            )
            if is_pattern(topic):
                route.topic, route.is_pattern = topic, True
                self.registered.patterns.append(topic)
            return function

        return register

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R, R]: ...
    @overload
    def task(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        topic: str | None = None,
        concurrency: int | None = None,
        timeout: Duration | None = None,
        run: Run | None = None,
        retry: PolicyLike | None = None,
        max_attempts: int | UnsetType | None = UNSET,
        cancel_when_lost: bool = False,
        keep_finished: Duration | None = None,
        key: KeyOf | None = None,
        key_concurrency: int | UnsetType | None = UNSET,
        key_rate: RateLike | UnsetType | None = UNSET,
        fair: bool | UnsetType | None = UNSET,
        retry_holds_key: bool | UnsetType | None = UNSET,
    ) -> TaskDecorator: ...
    @hide_others
    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *others: Never,
        name: str | None = None,
        topic: str | None = None,
        concurrency: int | None = None,
        timeout: Duration | None = None,
        run: Run | None = None,
        retry: PolicyLike | None = None,
        max_attempts: int | UnsetType | None = UNSET,
        cancel_when_lost: bool = False,
        keep_finished: Duration | None = None,
        key: KeyOf | None = None,
        key_concurrency: int | UnsetType | None = UNSET,
        key_rate: RateLike | UnsetType | None = UNSET,
        fair: bool | UnsetType | None = UNSET,
        retry_holds_key: bool | UnsetType | None = UNSET,
        **words: Never,
    ) -> Any:
        """Makes the decorated function a task: ``remind.add(7)`` adds a job, and a worker that gets the job calls ``remind(7)``.

        The arguments are stored as JSON. They are validated against the annotations when the job is added, and again before the
        function is called. A worker needs a name to have tasks.

        ``name``  the task's name, which is stored in its jobs; by default the name of the function
        ``topic``  the topic of its jobs; by default the topic that has the worker's name
        ``concurrency``  how many jobs of the task run at a time. The default is 100, or 20 for plain functions, which run in threads. If several tasks share a
                 topic, the largest number applies to all of them together
        ``key``  a function that makes the key of a job from the arguments of the call: ``key=lambda order: order.customer``

        The other options are those of ``on``. All tasks of one topic must have the same limits for keys.
        """
        if others or words:
            refuse_others(Registry.task, self, OF_HANDLERS, others, words)
        home = self.registered.root.tasks_topic
        if topic is not None:
            if is_pattern(topic):
                raise BadInput(
                    f"topic: {topic!r} is a pattern, and the jobs of a task are in one topic; a handler may have a pattern: "
                    f"@worker.on({topic!r})."
                )
            topic = literal(topic)
            names.check_name(topic, "topic")
        topic_name = topic or home
        slots = None if concurrency is None else check_slots(concurrency)
        options = RunOptions.of(timeout, retry, max_attempts, cancel_when_lost, run=run, keep_finished=keep_finished)
        key_limits = _key_limits(key_concurrency, key_rate, fair, retry_holds_key)

        def register(function: Callable[..., Any]) -> Task[..., Any, Any]:
            awaited = is_async(function)
            check_run(run, name_of(function), awaited)
            usual = _usual_slots(awaited, run)
            made: Task[..., Any, Any] = Task(
                self.registered,
                function,
                topic,
                name,
                options,
                slots or usual,
                takes_ahead=slots is None,
                key=key,
                key_limits=key_limits,
            )
            if any(
                task.name == made.name and task.inner.known_topic == topic_name for task in self.registered.root.tasks()
            ):
                raise BadInput(
                    f"task: {topic_name or 'this registry'} has one named {made.name!r} already; give name=."
                )
            if topic_name and (handled := self.registered.root.handled_by(escaped(topic_name))) is not None:
                by = "" if handled == escaped(topic_name) else f", that of {handled!r}"
                raise BadInput(f"task: the topic {topic_name!r} has a handler{by}; tasks need a topic of their own.")
            self.registered.own_tasks.append(made)
            return made

        return register if function is None else register(function)

    def on_queue(
        self, queue: str, *, redisson: str | None = None, codec: str | Codec[Any] | None = None, concurrency: int = 1
    ) -> Callable[[F], F]:
        """The decorated function gets the elements of a queue that is shared with Java. Up to ``concurrency`` of its calls run at a
        time, by default one.

        ``redisson`` and ``codec`` have the meaning that they have in ``client.blocking_queue``. An ``async def`` runs in the event loop, a
        plain function in a thread. If the function raises, the element is set aside with the reason; ``queue.poison()`` lists such
        elements. There are no acknowledgements: a process that is killed loses the elements whose calls run, at most ``concurrency``.
        A process that is stopped puts these elements back. Middleware does not run around these calls.
        """
        from tarry.verbs.redisson.codecs import codec_for
        from tarry.verbs.redisson.delayed.queue_context import keys_of
        from tarry.verbs.redisson.versions import redisson_version

        handlers.refuse_bare(queue, '@worker.on_queue("orders")')
        keys_of(queue)
        if codec is not None:
            codec_for(codec)
        if redisson is not None:
            redisson_version(redisson)
        slots = check_slots(concurrency)
        if any(route.queue == queue for route in self.registered.root.queue_routes()):
            raise BadInput(f"queue: {queue!r} has a handler already.")

        def register(function: F) -> F:
            self.registered.queues[queue] = QueueRoute(
                queue, redisson, codec, slots, handlers.inspect_queue_handler(function)
            )
            return function

        return register

    def around(self, layer: Middleware) -> Middleware:
        """Adds middleware around all handlers of this registry. Middleware is a callable that takes the job and the next handler.

        The annotation of its first parameter decides for which handlers it is called: ``Job`` for handlers of one job, ``list[Job]`` for
        handlers with ``batch=``, ``Job | list[Job]`` for both. Without an annotation it is called only for handlers of one job; if the worker
        has a handler with ``batch=``, the log has a warning.
        """
        chain([layer])
        self.registered.middleware.append(layer)
        return layer

    def stamp(self, make: Stamp) -> Stamp:
        """Adds headers to each job that a task of this registry adds. The decorated function returns the headers. It is called for each
        job, without arguments.

        The headers are also added to jobs of included registries. If several registries give the same header, an included registry overrides
        the one that includes it, and ``options(headers=…)`` overrides both.
        """
        if not callable(make):
            raise BadInput(f"stamp: {make!r} is not callable; it takes no argument and returns headers.")
        self.registered.stamps.append(make)
        return make

    def include(self, *registries: Registry) -> None:
        """Includes the handlers and tasks of other registries. The middleware of an included registry applies only to its own handlers.
        Raises ``BadInput`` if a topic would have two handlers, or if two tasks would have the same name."""
        for included in registries:
            self.registered.include(included.registered)

    def _add_schedule(self, schedule: TaskSchedule) -> None:
        self.registered.add_schedule(schedule)

    def _as_task(self, function: Callable[..., Any], topic: str | None) -> Task[..., Any, Any]:
        return self.task(topic=topic)(function)


def _two_handlers(one: str, other: str) -> str:
    if one == other:
        return f"{one!r} has a handler already."
    if is_pattern(one) and is_pattern(other):
        return f"a topic may match both {one!r} and {other!r}; choose patterns that no name can match both of."
    pattern, topic = (one, other) if is_pattern(one) else (other, one)
    return f"{pattern!r} matches {literal(topic)!r}, which would have two handlers; choose another pattern."


def _key_limits(
    key_concurrency: int | UnsetType | None,
    key_rate: RateLike | UnsetType | None,
    fair: bool | UnsetType | None,
    retry_holds_key: bool | UnsetType | None,
) -> dict[str, Any]:
    """Those that are given. Raises ``BadInput``."""
    if key_concurrency is key_rate is fair is retry_holds_key is UNSET:
        return {}
    from tarry.verbs.jobs.settings import SettingsChange  # few workers need it

    change = SettingsChange(
        key_concurrency=key_concurrency, key_rate=key_rate, fair=fair, retry_holds_key=retry_holds_key
    )
    change.encode(1)
    return change.changes()


def _both_limits(topic: str, first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """The limits for each key that two tasks of a topic give it. Raises ``BadInput`` when they differ."""
    for name in first.keys() & second.keys():
        if first[name] != second[name]:
            raise BadInput(
                f"{name}: two tasks of {topic or 'this registry'} say {first[name]!r} and {second[name]!r}; it is a setting of the topic: "
                "say the same, or give one of them a topic of its own with topic=."
            )
    return {**first, **second}


def _usual_slots(is_async: bool, run: Run | None) -> int:
    return CONCURRENCY if is_async else CORES if run == "process" else THREADS


def check_slots(concurrency: int) -> int:
    if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
        raise BadInput(f"concurrency: {concurrency!r}; it is a whole number, at least 1.")
    return concurrency


def _with_middleware(route: TopicRoute, layers: tuple[Middleware, ...]) -> TopicRoute:
    assert route.handler is not None
    wrapped = _wrap(route.handler, layers)
    return replace(route, handler=wrapped)


def _wrap(target: Target, layers: tuple[Middleware, ...]) -> Target:
    return replace(target, middleware=layers) if layers else target
