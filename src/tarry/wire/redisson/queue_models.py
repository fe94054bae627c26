"""Requests about shared queues."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from tarry.wire.types import Base64, JavaName, Limit, Name, Span, Strict, Wait

CodecName = Literal["kryo5", "river", "json", "string", "long", "bytes"]
FormatName = Annotated[
    str,
    Meta(
        pattern=r"^(Bc0Lc0|dLc0|tarry|[0-9]{1,4}(\.[0-9]{1,4}){0,2})$",
        description='"dLc0" for Redisson up to 3.21.0, "Bc0Lc0" from 3.21.1, its version, or "tarry" where no Java reads the queue',
    ),
]
VersionName = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{1,4}(\.[0-9]{1,4}){0,2}$",
        description='the version of Redisson in the Java application, such as "3.15.1": it tells codec and format',
    ),
]
Values = Annotated[list[Any], Meta(max_length=10_000, description="values for the codec; bytes as base64 text")]


class QueueQuery(Strict):
    """``redisson``: its version in the Java application; ``codec`` if Java sets another one. Default: those of the service."""

    codec: CodecName | None = None
    redisson: VersionName | None = None


class ListQueueQuery(QueueQuery):
    """``limit``: how many, at most 10,000; ``start``: the place of the first in the order of offers."""

    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000
    start: Annotated[int, Meta(ge=0, le=2**53 - 1)] = 0


class QueueValues(QueueQuery, kw_only=True):
    """Elements."""

    values: Values


class Offer(Strict):
    """Elements to put in, with one delay; ``bytes`` elements as base64 text. ``redisson`` tells codec and format."""

    values: Annotated[list[Any], Meta(min_length=1, max_length=10_000)]
    delay: Span = 0
    codec: CodecName | None = None
    format: FormatName | None = None
    redisson: VersionName | None = None


class SetFormat(Strict):
    """``null`` forgets it: the elements that are found decide again."""

    format: FormatName | None


class Put(Strict):
    """Elements to be taken at once."""

    values: Annotated[list[Any], Meta(min_length=1, max_length=1000)]
    codec: CodecName | None = None
    redisson: VersionName | None = None


class Remove(QueueValues, kw_only=True):
    """``all``: every element that is equal to one of these; else the first that is equal to the only one."""

    all: bool = False


class Contains(QueueValues, kw_only=True):
    """``ready``: among those that may be taken; else among those that are not moved yet."""

    ready: bool = False


class PollQueue(QueueQuery):
    """Takes the elements that were offered first, whenever they are due."""

    limit: Limit = 1


class PassOn(QueueQuery, kw_only=True):
    """``to``: the queue into whose list it goes."""

    to: JavaName


class Take(PollQueue):
    """``wait`` at most 60 s."""

    wait: Wait = 0


class TakeFromAny(Take, kw_only=True):
    """The first of the queues, in this order, that has anything."""

    queues: Annotated[list[JavaName], Meta(min_length=1, max_length=100)]


class Unread(Strict):
    """A payload that its consumer could not use."""

    raw_base64: Base64
    reason: Annotated[str, Meta(max_length=10_000)]


class AddPoison(Strict):
    """Taken payloads that are to be kept beside the queue."""

    elements: Annotated[list[Unread], Meta(min_length=1, max_length=1000)]


class MigrateQueue(QueueQuery, kw_only=True):
    """``to``: a topic of the namespace; ``limit``: about how many one request moves; ``dry_run``: only how many would move; ``redirect``:
    elements that are being moved to another topic, which is gone for good, go to this one."""

    to: Name
    dry_run: bool = False
    redirect: bool = False
    limit: Annotated[int, Meta(ge=1, le=100_000)] = 10_000
