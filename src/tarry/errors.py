"""Every error that tarry raises on purpose.

Each one is a ``TarryError``, says what happened and what to do about it, and has a stable ``code``, which the service's problem
details and the CLI's JSON carry:

    TarryError
    ├── BadInput (ValueError)           refused before anything was written
    ├── JobExists                       another job has the id, dead ones included
    ├── TopicFull                       the topic may have no more jobs that wait; add again later
    ├── UnknownTopic                    a program shows or empties a topic in which nothing ever was
    ├── StaleReceipt                    the reservation is no longer yours
    ├── StepNotKept                     a step of a job has run, and its result cannot be kept
    ├── BodyError                       a body does not decode as the topic's type
    ├── NotKept                         a topic keeps no finished jobs: their ends cannot be read, and if_exists="once" fails
    ├── NoResult                        a job has no result to return: it is not finished, dead, unknown, or the result was not kept
    ├── Unavailable (ConnectionError)   the server did not answer, or refuses for now; safe to try again
    ├── Unconfirmed                     the job was added, but ``durability`` was not reached in time; do not add it again
    ├── ServerUnfit                     the server cannot be used as it is
    │   └── MissingExtra (ImportError)  an optional part of tarry is not installed
    ├── NotAllowed (PermissionError)    a service refuses the token, or the token's scope is too small
    ├── NotAcquired                     a lock was not acquired in time
    ├── LockLost                        a lock was held, and is no longer
    └── FallenBehind                    a guarded queue is later than it may be
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import ClassVar


class TarryError(Exception):
    """The base of all errors of tarry: catch it to catch every one."""

    code: ClassVar[str] = "error"
    """A stable name of the error. Answers of the service and of the command line have it, too."""


class BadInput(TarryError, ValueError):
    """A value was refused before anything was written. Correct it and call again."""

    code = "bad_input"


class JobExists(TarryError):
    """A job with this id already exists. Choose another id, or ``if_exists="keep"``, ``"once"``, ``"update"`` or ``"replace"``; the last two also revive a dead job."""

    code = "job_exists"

    def __init__(self, message: str = "", *, id: str = "", state: str = "", done: int = 0) -> None:
        super().__init__(message or self.__doc__)
        #: the id that is taken
        self.id = id
        #: the state of the job that has the id
        self.state = state
        #: how many other jobs of the same ``add_many`` were added: those before this one, and those that went to other partitions at the same time
        self.done = done


class TopicFull(TarryError):
    """The topic has as many waiting jobs, or bytes of them, as ``configure(max_pending=, max_pending_bytes=)`` allows. The job was not added; add it again later, or run more workers."""

    code = "topic_full"

    def __init__(self, message: str = "", *, topic: str = "", done: int = 0) -> None:
        named = (
            f"Topic {topic} is full: no more jobs may wait in it, by its max_pending or max_pending_bytes. Nothing was added; "
            "add it again later, or run more workers."
            if topic
            else ""
        )
        super().__init__(message or named or self.__doc__)
        #: the name of the topic
        self.topic = topic
        #: how many jobs of the same ``add_many`` were added, by its earlier scripts and in other partitions
        self.done = done


class UnknownTopic(TarryError):
    """Nothing was ever added to this topic, and nothing is configured for it: check for a typo, or another namespace.

    Commands, services and the dashboard report it when they are asked to show or empty such a topic. The verbs of a client never raise it: to
    them an unknown topic is an empty one."""

    code = "unknown_topic"

    def __init__(self, message: str = "", *, topic: str = "") -> None:
        named = (
            f"unknown topic {topic}: nothing was ever added to it, and nothing is configured for it." if topic else ""
        )
        super().__init__(message or named or self.__doc__)
        #: the name of the topic
        self.topic = topic


class StaleReceipt(TarryError):
    """The reservation is over, because the job was handed out again, settled or deleted. Stop working on the job."""

    code = "stale_receipt"

    def __init__(self, message: str = "", *, id: str = "", reason: str = "", attempt: int | None = None) -> None:
        super().__init__(message or self.__doc__)
        #: the id of the job. If a ``…_many`` call refused several jobs, ``id``, ``reason`` and ``attempt`` are those of the first one
        self.id = id
        #: ``"again"`` (handed out again), ``"released"``, ``"timed out"``, ``"dead"``, ``"never"`` (not handed out since
        #: it was added or replaced) or ``"gone"`` (finished, deleted, or not in this topic)
        self.reason = reason
        #: the number of the attempt that has the job now, if the job was handed out again; ``None`` if this is not known
        self.attempt = attempt
        #: a map from the id of each refused job to its reason. A ``…_many`` call has settled the other jobs
        self.reasons: Mapping[str, str] = {id: reason} if id else {}


class StepNotKept(TarryError):
    """The function of a step has run, but its result cannot be kept: it cannot be encoded as JSON, or the results of the job's steps exceed 64 KB.
    A retry would run the function again, so a worker sets the job aside as dead. Return less, such as an id, and kick the job."""

    code = "step_not_kept"

    def __init__(self, message: str = "", *, id: str = "", step: str = "") -> None:
        super().__init__(message or self.__doc__)
        #: the id of the job
        self.id = id
        #: the name of the step
        self.step = step


class BodyError(TarryError):
    """The body cannot be decoded as the topic's type. Release the job for a consumer that can decode it, bury the job, or read ``job.raw``."""

    code = "body_error"


class NoResult(TarryError):
    """There is no result of the job. ``reason`` says why."""

    code = "no_result"

    def __init__(self, message: str = "", *, id: str = "", reason: str = "", state: str | None = None) -> None:
        super().__init__(message or self.__doc__)
        #: the id of the job
        self.id = id
        #: ``"unfinished"`` (not finished within the wait), ``"dead"``, ``"unknown"`` (never added, deleted, or finished and not
        #: kept) or ``"not kept"`` (finished, but its result is too large, or cannot be encoded or decoded)
        self.reason = reason
        #: the state of the job
        self.state = state


class NotKept(TarryError):
    """The topic keeps no finished jobs, so results and ends of jobs cannot be read, and ``if_exists="once"`` cannot work. Configure
    ``keep_finished`` for the topic."""

    code = "not_kept"

    def __init__(self, message: str = "", *, topic: str = "") -> None:
        super().__init__(message or self.__doc__)
        #: the name of the topic
        self.topic = topic


class Unavailable(TarryError, ConnectionError):
    """The server did not answer in time, or refuses for now. The call is safe to repeat; the cause has the server's own message."""

    code = "unavailable"

    def __init__(self, message: str = "", *, done: int = 0) -> None:
        super().__init__(message or self.__doc__)
        #: how many jobs of the same ``…_many`` call were certainly done before
        self.done = done


class Unconfirmed(TarryError):
    """The job was added, but the ``durability`` that you asked for was not confirmed in time. Check the replicas, or the disk; do not add the job again."""

    code = "unconfirmed"

    def __init__(self, message: str = "", *, done: int = 0) -> None:
        super().__init__(message or self.__doc__)
        #: how many jobs of the same ``add_many`` were confirmed before
        self.done = done


class ServerUnfit(TarryError):
    """The server, or its configuration, cannot be used. The message says what to change."""

    code = "server_unfit"


class MissingExtra(ServerUnfit, ImportError):
    """An optional part of tarry is not installed. The message names the extra, such as ``tarry[http]``."""

    code = "missing_extra"


class NotAllowed(TarryError, PermissionError):
    """The service refused the request: the token is missing, was revoked, or has another scope or namespace. Ask for another token."""

    code = "not_allowed"


class NotAcquired(TarryError):
    """The lock was not acquired, because somebody else holds it. Wait longer, or find out who holds it."""

    code = "not_acquired"


class LockLost(TarryError):
    """The lock is no longer held, because its lease ended or it was released by force. Stop the work that needs the lock: somebody else
    may hold it now."""

    code = "lock_lost"

    def __init__(self, message: str = "", *, name: str = "", token: int = 0, reason: str = "") -> None:
        super().__init__(message or self.__doc__)
        #: the name of the lock
        self.name = name
        #: the fencing token of the lost lock
        self.token = token
        #: a text for people that says how the lock was lost
        self.reason = reason


class FallenBehind(TarryError):
    """The queue's first item is later than ``max_lateness`` allows. Nothing was taken; consume faster, or push less."""

    code = "fallen_behind"

    def __init__(self, message: str = "", *, lateness: timedelta | None = None) -> None:
        super().__init__(message or self.__doc__)
        #: how late the first item is
        self.lateness = lateness
