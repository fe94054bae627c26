"""Article 004's ``DelayedTaskController``: ``/delayed/message?delay=20&value=AAAA`` offers to a queue shared with Java."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from tarry.programs.service.replies import Plain
from tarry.programs.service.sharing import open_queue
from tarry.programs.service.table import PRODUCE, Example, Table
from tarry.verbs.redisson.codecs import codec_for

if TYPE_CHECKING:
    from tarry.programs.service.exchange import Exchange


class DelayedMessage(Struct):
    """``delay`` in whole seconds."""

    delay: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    value: str


def table_of(namespace: str, queue: str, codec: str) -> Table:
    """The rows, for a queue. A token is one of the service's first namespace."""
    codec_for(codec)  # refuses an unknown one now
    table = Table("delayed")
    path, options = "/delayed/message", {"asks": DelayedMessage, "namespace": namespace, "head": False}

    @table.row("GET", path, may=PRODUCE, gives=str, media="text/plain", example=Example(), **options)
    async def message(x: Exchange) -> Plain:
        """Article 004: offers a text to the delayed queue."""
        x.door.gate.count(x, 1)
        await open_queue(x, queue, codec).offer(x.asked.value, x.asked.delay)
        return Plain(b"", "text/plain;charset=UTF-8")

    @table.row("POST", path, may=PRODUCE, gives=str, media="text/plain", **options)
    async def message_by_post(x: Exchange) -> Plain:
        """Article 004: the same by POST; its controller asks for no method."""
        return await message(x)  # type: ignore[no-any-return]

    return table
