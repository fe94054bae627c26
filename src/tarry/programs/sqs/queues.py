"""Queues: their attributes and tags. Each is a job of a topic of tarry's own that is never due, its id the queue's name.

A queue's messages are the jobs of the topic that has its name; the topic of the queues themselves has no name that a client can
send, at any route.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from tarry.errors import BodyError, JobExists
from tarry.internal import JSON, JSON_FAULTS, JobOptions, OwnTopic, head_of, perform, server_verbs
from tarry.programs.sqs.faults import SqsError, invalid, unknown_queue

if TYPE_CHECKING:
    from tarry import AsyncTopic, JobInfo
    from tarry.programs.serving.request import ServiceRequest
    from tarry.wire.bodies import Body

NEVER = datetime(9999, 1, 1, tzinfo=timezone.utc)
MOST_TRIES = 20
"""How often a change is tried again because another one came between."""
MOST_TAGS = 50
LARGEST_PAGE = 1000
LONGEST_DELAY_S = 2**31 - 1
LONGEST_RECEIVE_S, LONGEST_INVISIBLE_S = 20, 43_200
"""As at AWS: how long a receive may wait, and a message may be invisible."""
MOST_BYTES = 1 << 20
_NAME = re.compile("[A-Za-z0-9_-]{1,80}")
_NUMBERS = {
    "DelaySeconds": (0, LONGEST_DELAY_S, 0),
    "MaximumMessageSize": (1024, MOST_BYTES, MOST_BYTES),
    "MessageRetentionPeriod": (60, LONGEST_DELAY_S, 345_600),
    "ReceiveMessageWaitTimeSeconds": (0, LONGEST_RECEIVE_S, 0),
    "VisibilityTimeout": (0, LONGEST_INVISIBLE_S, 30),
}
"""Lowest, highest, default."""
_KEPT = frozenset(
    {"Policy", "KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", "SqsManagedSseEnabled", "RedriveAllowPolicy"}
)
"""Attributes that are kept and answered, and change nothing."""


class StoredQueue(msgspec.Struct):
    """A queue as it is stored. Its fields are checked one by one when it is read: a bad one is the default."""

    attributes: Any = None
    tags: Any = None
    created: Any = 0
    """In seconds since 1970; 0: when the job was added."""
    is_fair: Any = False


@dataclass(slots=True)
class Redrive:
    """Where a message goes that was received too often."""

    arn: str
    most: int

    @property
    def name(self) -> str:
        return self.arn.rpartition(":")[2]


@dataclass(slots=True)
class Queue:
    """A queue."""

    name: str
    account: str
    """Its namespace."""
    attributes: dict[str, str]
    tags: dict[str, str] = field(default_factory=dict)
    created: int = 0
    modified: int = 0
    nonce: bytes = b""
    is_fair: bool = False
    """A message with a group has made its topic fair."""

    def number(self, name: str) -> int:
        return int(self.attributes.get(name, _NUMBERS[name][2]))

    def arn(self, region: str) -> str:
        return f"arn:aws:sqs:{region}:{self.account}:{self.name}"

    @property
    def redrive(self) -> Redrive | None:
        text = self.attributes.get("RedrivePolicy")
        return _redrive(text) if text else None

    def shown(self, region: str) -> dict[str, str]:
        """Its attributes, but for the numbers of messages."""
        return {
            **{name: str(self.number(name)) for name in _NUMBERS},
            **self.attributes,
            "QueueArn": self.arn(region),
            "CreatedTimestamp": str(self.created),
            "LastModifiedTimestamp": str(self.modified),
        }


async def read_now(topic: AsyncTopic[Body], id: str) -> JobInfo[Body] | None:
    """A job as it is now, never from a replica."""
    (job,) = await perform(topic, server_verbs(topic).get([id]))
    return job


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def checked_name(name: str) -> str:
    if not is_name(name):
        raise SqsError(
            "InvalidParameterValue",
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
        )
    return name


class Queues:
    """The queues of a request's namespace."""

    def __init__(self, request: ServiceRequest) -> None:
        self._request = request
        self._topic: AsyncTopic[Body] = request.app.clients.own_topic(request.namespace, OwnTopic.SQS_QUEUES)

    async def find(self, name: str) -> Queue | None:
        """A queue by its name, never from a replica."""
        if not is_name(name):
            return None
        job = await read_now(self._topic, name)
        return None if job is None else self._queue_of(job)

    async def get(self, name: str) -> Queue:
        queue = await self.find(name)
        if queue is None:
            raise unknown_queue()
        return queue

    async def some(
        self, most: int, after: str, prefix: str = "", is_wanted: Callable[[Queue], bool] = lambda _: True
    ) -> list[Queue]:
        """Up to ``most`` queues whose names are behind ``after``, by name. Reads no more of them than it has to."""
        found = list[Queue]()
        begin = max(after, _before(prefix))
        verbs = server_verbs(self._topic)
        cursor = verbs.cursor_after(NEVER, begin) if begin else None
        while True:
            limit = min(most - len(found), LARGEST_PAGE)
            page = await perform(self._topic, verbs.list("delayed", None, None, limit, cursor))
            queues = [queue for job in page.jobs if (queue := self._queue_of(job)) is not None]
            found += [queue for queue in queues if queue.name.startswith(prefix) and is_wanted(queue)]
            cursor = page.cursor
            if cursor is None or len(found) == most or (queues and not queues[-1].name.startswith(prefix)):
                return found

    async def create(self, name: str, attributes: Mapping[str, str], tags: Mapping[str, str]) -> Queue:
        """Creates a queue, or finds the one that has these attributes. Raises ``SqsError``."""
        checked_name(name)
        new = Queue(name, self._request.namespace, checked_attributes(attributes), checked_tags(name, tags))
        await self._check_redrive(new)
        for _ in range(MOST_TRIES):
            found = await self.find(name)
            if found is not None:
                differing = [one for one in new.attributes if new.shown("")[one] != found.shown("").get(one)]
                if differing:
                    told = (
                        f"A queue already exists with the same name and a different value for attribute {differing[0]}"
                    )
                    raise SqsError("QueueNameExists", told)
                return found
            if await self._store(new):
                return new
        raise _busy()

    async def change(self, name: str, change: Callable[[Queue], None]) -> None:
        """Changes a queue: ``change`` is called again if another change came between."""
        for _ in range(MOST_TRIES):
            queue = await self.get(name)
            change(queue)
            await self._check_redrive(queue)
            if await self._store(queue):
                return
        raise _busy()

    async def note_fair(self, queue: Queue) -> None:
        """Its topic was made fair; noted once. A change that came between is kept, and the next message notes it."""
        queue.is_fair = True
        await self._store(queue)

    async def delete(self, name: str) -> None:
        """Deletes a queue and its messages. If it is interrupted the queue is left, empty."""
        await self.get(name)
        await self._request.topic_named(name).purge()
        await self._topic.delete(name)

    async def _check_redrive(self, queue: Queue) -> None:
        redrive = queue.redrive
        if redrive is not None and redrive.name == queue.name:
            raise invalid(
                "RedrivePolicy", queue.attributes["RedrivePolicy"], "A queue is not its own dead letter target."
            )
        if redrive is not None and await self.find(redrive.name) is None:
            raise invalid("RedrivePolicy", queue.attributes["RedrivePolicy"], "Dead letter target does not exist.")

    async def _store(self, queue: Queue) -> bool:
        """Stores it in the place of the record that it was read from; ``False`` if another one is there now."""
        options = JobOptions(at=NEVER, max_attempts=None).encode()
        if queue.nonce:
            options = options.replacing_nonce(queue.nonce)
        record = StoredQueue(queue.attributes, queue.tags, queue.created, queue.is_fair)
        body = msgspec.json.encode(record), JSON
        try:
            await perform(self._topic, server_verbs(self._topic).add_with(body, options, queue.name))
        except JobExists:
            return False
        return True

    def _queue_of(self, job: JobInfo[Body]) -> Queue | None:
        """The queue of a job. A record that cannot be read is one with the defaults; ``None`` for a job that is no queue."""
        try:
            seconds, nonce = int(job.created.timestamp()), head_of(job).nonce
            body = job.body[0]
        except BodyError:
            return None
        try:
            stored = msgspec.json.decode(body, type=StoredQueue)
        except JSON_FAULTS:
            stored = StoredQueue()
        if not is_name(job.id):
            return None
        attributes, tags = (
            _valid(stored.attributes, checked_attributes),
            _valid(stored.tags, partial(checked_tags, job.id)),
        )
        created = stored.created if isinstance(stored.created, int) and 0 < stored.created <= seconds else seconds
        return Queue(job.id, self._request.namespace, attributes, tags, created, seconds, nonce, stored.is_fair is True)


def _valid(stored: Any, checked: Callable[[Mapping[str, str]], dict[str, str]]) -> dict[str, str]:
    """The valid ones of stored attributes or tags."""
    valid: dict[str, str] = {}
    for name, value in stored.items() if isinstance(stored, dict) else ():
        with suppress(SqsError):
            valid |= checked({name: value}) if isinstance(value, str) else {}
    return valid


def _before(prefix: str) -> str:
    """A text in front of all names with this prefix, and behind all names in front of them."""
    return prefix and prefix[:-1] + chr(ord(prefix[-1]) - 1) + "\x7f"


def _busy() -> SqsError:
    return SqsError("ServiceUnavailable", "The queue is being changed by many at the same time; try again.", 503)


def checked_attributes(given: Mapping[str, str]) -> dict[str, str]:
    """Attributes that can be set, as they are stored. Raises ``SqsError``."""
    found: dict[str, str] = {}
    for name, value in given.items():
        if name in _NUMBERS:
            low, high, _ = _NUMBERS[name]
            if not (value.isascii() and value.isdigit() and len(value) < 12 and low <= int(value) <= high):
                raise SqsError("InvalidAttributeValue", f"Invalid value for the parameter {name}.")
            found[name] = str(int(value))
        elif name == "RedrivePolicy":
            found[name] = _numbered(value) if value else value
        elif name in _KEPT:
            found[name] = value
        else:
            raise SqsError("InvalidAttributeName", f"Unknown Attribute {name[:80]}.")
    return found


def _redrive(text: str) -> Redrive:
    try:
        given: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
        arn, most = given["deadLetterTargetArn"], int(given["maxReceiveCount"])
    except (msgspec.MsgspecError, KeyError, ValueError, TypeError, UnicodeEncodeError, RecursionError):
        raise invalid("RedrivePolicy", text, "Redrive policy is not a valid JSON map.") from None
    if not isinstance(arn, str) or arn.count(":") != 5 or not _NAME.fullmatch(arn.rpartition(":")[2]):
        raise invalid("RedrivePolicy", text, "Dead-letter target is not a valid ARN.")
    if not 1 <= most <= 1000:
        raise invalid("RedrivePolicy", text, "Invalid value for maxReceiveCount: it must be from 1 to 1000.")
    return Redrive(arn, most)


def _numbered(text: str) -> str:
    """A redrive policy as it is shown: ``maxReceiveCount`` is a number, also if it was given as text. Raises ``SqsError``."""
    redrive = _redrive(text)
    given: dict[str, Any] = msgspec.json.decode(text)
    if type(given["maxReceiveCount"]) is int:
        return text
    return msgspec.json.encode({**given, "maxReceiveCount": redrive.most}).decode()


def checked_tags(queue: str, given: Mapping[str, str]) -> dict[str, str]:
    if len(given) > MOST_TAGS:
        raise SqsError("InvalidParameterValue", f"Too many tags added for queue {queue}.")
    for key, value in given.items():
        if not 1 <= len(key) <= 128 or len(value) > 256:
            raise invalid("Tags", key, "A key has 1 to 128 characters, a value at most 256.")
    return dict(given)
