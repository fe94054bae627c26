"""One partition, or a topic that is not divided: what its verbs need besides their arguments. Verbs return requests and flows, and
perform nothing.

TopicContext(name, keys, codec, ids) ──▶ verb(context, …) ──▶ ScriptCall or flow
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tarry.core.requests import Flow, split_items
from tarry.errors import BadInput
from tarry.values.durations import Duration
from tarry.values.keys import TopicKeys
from tarry.values.names import IdGenerator
from tarry.verbs import jobs as lazy
from tarry.verbs.codecs import BodyCodec

if TYPE_CHECKING:
    from tarry.verbs.jobs.pop import PopReply
    from tarry.verbs.jobs.settle import Item, Outcome, SettleVerb

T = TypeVar("T")
Share = tuple[int, int]
"""The index of a partition, and the number of partitions."""
WHOLE_TOPIC: Share = (0, 1)
_last_of = itemgetter(-1)


@dataclass(frozen=True, slots=True)
class TopicContext(Generic[T]):
    """The context of one topic's verbs: its name, keys, codec, and a source of ids. No connection."""

    name: str
    keys: TopicKeys
    codec: BodyCodec[T]
    ids: IdGenerator


class PartitionVerbs(Generic[T]):
    """The context of one partition, and the verbs that no topic has. ``share`` says which partition of how many it is."""

    def __init__(self, context: TopicContext[T], holder: bytes, share: Share = WHOLE_TOPIC) -> None:
        self.context = context
        self.share = share
        self.keys = context.keys
        self.holder = holder

    def pop(self, n: int, ttr: Duration | None) -> Flow[PopReply]:
        return lazy.pop.pop_now(self.keys, lazy.pop.checked_count(n), ttr=lazy.pop.ttr_of(ttr), holder=self.holder)

    def settle(self, verb: SettleVerb[...], items: Sequence[Item]) -> Flow[None]:
        """Settles the jobs whose receipts hold, in steps; then raises the first refusal."""
        outcomes: list[Outcome] = []
        for part in split_items(items, _last_of):
            outcomes += yield verb.call(self.keys, part)
        lazy.settle.raise_first_fault(outcomes)

    def wait_queue_key(self, ttr: Duration | None) -> tuple[Any, bytes, bytes]:
        """The key of the wait queue for callers that wait for this topic."""
        return self.keys, lazy.pop.ttr_of(ttr), self.holder


def outcome_of(verbs: Any, job: Any, fault: BaseException | None) -> Flow[None]:
    """The end of ``with job:`` as a flow: finish, release with back-off, or release at once without counting the attempt."""
    settling: Flow[None]
    if fault is None:
        settling = verbs.settle(lazy.settle.FINISH, [job])
    elif isinstance(fault, Exception):
        settling = verbs.settle(lazy.settle.RELEASE, [job], delay=None, reason=one_line(fault))
    else:
        settling = verbs.settle(lazy.settle.RELEASE, [job], delay=0, count=False)
    return settling


def one_line(fault: BaseException) -> str:
    """An exception in one line: its type, and its message if it has one."""
    text = " ".join(str(fault).split())
    return f"{type(fault).__name__}: {text}" if text else type(fault).__name__


def require_several(value: object, what: str) -> None:
    """Refuses text and maps, which are iterable, but hardly ever meant."""
    if isinstance(value, (str, bytes, bytearray, Mapping)):
        raise BadInput(f"{what}: {type(value).__name__} given; put it into a list.")
