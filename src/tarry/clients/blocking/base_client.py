# Made from src/tarry/clients/awaited/base_client.py by tools/blocking.py: change that file, then `make blocking`.
"""The blocking client, as far as its origin does not matter: that of a server, and that of a service, are made of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Never, Self, TypeVar, overload

from tarry.clients.blocking.job import Job
from tarry.clients.blocking.topic import Topic, pop_first
from tarry.errors import BadInput
from tarry.values.durations import Duration
from tarry.values.other_words import (
    MISSING,
    OF_POP,
    OF_POP_MANY,
    OF_TOPIC,
    SEND_TASK,
    TOPIC,
    HidesOtherWords,
    OtherWord,
    hide_others,
    refuse_others,
)
from tarry.verbs.codecs import Codec

if TYPE_CHECKING:  # the rest is imported by the verbs that need it: most clients have topics only
    from tarry.clients.blocking.interfaces import OriginEngine
    from tarry.clients.blocking.schedules import Schedules
    from tarry.clients.redisson.blocking.blocking_queue import BlockingQueue
    from tarry.clients.redisson.blocking.delayed_queue import DelayedQueue
    from tarry.verbs.workers import WorkerInfo, WorkerMode

H = TypeVar("H")
T = TypeVar("T")
E = TypeVar("E", bound="OriginEngine")


class BaseClient(Generic[E], metaclass=HidesOtherWords):
    """The verbs that need to know nothing of the origin."""

    engine: E

    if not TYPE_CHECKING:
        queue = OtherWord(TOPIC)
        send_task = OtherWord(SEND_TASK)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.engine.config.redacted}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections. A later call raises ``BadInput``."""
        self.engine.close()

    @overload
    def topic(self, name: str, *, type: type[T] | Codec[T], partitions: int | None = None) -> Topic[T]: ...
    @overload
    def topic(self, name: str, *, type: None = None, partitions: int | None = None) -> Topic[Any]: ...
    @hide_others
    def topic(
        self, name: str, *, type: type[Any] | Codec[Any] | None = None, partitions: int | None = None, **words: Never
    ) -> Topic[Any]:
        """A topic by its name. Nothing is sent until you call a method of it.

        ``type``  what its bodies are: a msgspec Struct or a dataclass (stored as JSON, and validated when it is read), ``bytes``, or a codec of your own.
                 Without a type a body is stored as JSON, but bytes are stored as they are
        ``partitions``  divides the topic into that many parts, each in its own slot of a Cluster. The number is stored, so later calls can omit it

        Without a type, JSON returns dates, UUIDs and enums as text, tuples as lists, and dataclasses as dicts. A dict whose
        keys are not text is refused. A set, a Decimal or a datetime without a time zone is refused if it is the body, or a value
        of a body that is a dict. Deeper inside it is accepted, but a set comes back as a list, and a Decimal or such a datetime as text.
        """
        if words or name is MISSING:
            refuse_others(BaseClient.topic, self, OF_TOPIC, words=words)
        return Topic(self.engine, self.engine.config.verbs(name, type, partitions))

    def topics(self) -> list[str]:
        """The names of all topics to which a job was ever added, also of those that were purged since."""
        return self.engine.run(self.engine.config.list_topics())

    def workers(self) -> list[WorkerInfo]:
        """The running worker processes by name, from their last reports: their topics, how busy they are, the longest-running
        jobs. A killed worker is listed for up to 30 s."""
        return self.engine.run_view(self.engine.config.list_workers())

    def set_worker_mode(self, worker: str, mode: WorkerMode) -> bool:
        """Asks a worker, by its name in ``workers()``, to be ``"quiet"`` (it takes no new jobs, and finishes those that it
        has), to ``"stop"`` as after SIGTERM, or to ``"work"`` again. The worker receives this with its next report, within
        ten seconds.

        Returns whether the worker is alive.
        """
        return self.engine.run(self.engine.config.set_worker_mode(worker, mode))

    @hide_others
    def pop(
        self, *topics: Topic[Any] | str, wait: Duration | None = 0, ttr: Duration | None = None, **words: Never
    ) -> Job[Any] | None:
        """Returns a job of the first of these topics that has one ready; ``None`` if no job is due within ``wait``."""
        if words:
            refuse_others(BaseClient.pop, self, OF_POP, words=words)
        jobs = pop_first(self.engine, self._topics_of("pop", topics), 1, wait, ttr)
        return jobs[0] if jobs else None

    @hide_others
    def pop_many(
        self,
        *topics: Topic[Any] | str,
        limit: int,
        wait: Duration | None = 0,
        ttr: Duration | None = None,
        **words: Never,
    ) -> list[Job[Any]]:
        """Returns up to ``limit`` jobs of the first of these topics that has one ready. The list is empty if no job is due within ``wait``.

        ``limit`` is at most 1000, or 250 for a topic with keys. The bodies of the jobs have at most 4 MB together."""
        if words or limit is MISSING:
            refuse_others(BaseClient.pop_many, self, OF_POP_MANY, words=words)
        return pop_first(self.engine, self._topics_of("pop_many", topics), limit, wait, ttr)

    def _topics_of(self, label: str, topics: Sequence[Topic[Any] | str]) -> list[Topic[Any]]:
        if not topics:
            raise BadInput(f"{label}: name a topic at least.")
        chosen = [handle_of(label, Topic, topic, self.topic) for topic in topics]
        self.engine.config.refuse_others(label, *chosen)
        return chosen

    @property
    def schedules(self) -> Schedules:
        """To put, get, list, pause, resume and delete schedules, which add jobs again and again."""
        from tarry.clients.blocking.schedules import Schedules

        return Schedules(self.engine, self.engine.config.schedules())

    def delayed_queue(
        self,
        name: str,
        *,
        redisson: str | None = None,
        codec: str | Codec[Any] | None = None,
        format: str | None = None,
    ) -> DelayedQueue[Any]:
        """The delayed queue that Redisson calls ``getDelayedQueue(getBlockingQueue(name))``, the same in every namespace.

        ``redisson``  the version of Redisson in the Java application, such as ``"3.15.1"``, which determines codec and format; by default that of the client
        ``codec``  the codec, if Java sets one: ``"kryo5"``, ``"river"``, ``"json"``, ``"string"``, ``"long"``, ``"bytes"``, or one of your own
        ``format``  how elements are written: ``"dLc0"`` (Redisson up to 3.21.0), ``"Bc0Lc0"`` (from 3.21.1), or ``"tarry"`` if no Java application reads the
                 queue. tarry reads all formats, but a version of Redisson reads only its own

        The server stores the format of a queue; tarry also learns it from the elements in the queue. An offer raises
        ``BadInput`` if the format is not known yet, or if the given one differs from the known one.
        """
        from tarry.clients.redisson.blocking.delayed_queue import DelayedQueue

        return DelayedQueue(self.engine, self.engine.config.delayed(name, codec, format, redisson))

    def blocking_queue(
        self, name: str, *, redisson: str | None = None, codec: str | Codec[Any] | None = None
    ) -> BlockingQueue[Any]:
        """The queue that Redisson calls ``getBlockingQueue(name)``, the same in every namespace. A delayed queue of this name
        moves its due elements into it."""
        from tarry.clients.redisson.blocking.blocking_queue import BlockingQueue

        return BlockingQueue(self.engine, self.engine.config.blocking(name, codec, redisson))


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
