"""Where the jobs of a topic are: one place, or many. Each partition has keys, and in a Cluster a slot, of its own.

    id ──crc32──▶ partition      what names a job goes where the job is; what names none goes to each

How many there are is asked once, at the first verb, and remembered; a topic of one place then costs nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Generic, TypeVar
from zlib import crc32

from tarry.errors import BadInput
from tarry.idea.calls import Call, Flow, ask, flow_of
from tarry.idea.scripts import Script
from tarry.verbs.jobs import merging
from tarry.verbs.jobs.face import TopicVerbs, refuse_one
from tarry.verbs.jobs.shapes import Holding
from tarry.verbs.jobs.topic import TopicDesk
from tarry.words.keys import TopicKeys

T = TypeVar("T")
R = TypeVar("R")
X = TypeVar("X")
Operation = Call[R] | Flow[R]
FIND = Script("parts/find", args=("wanted",), keys=("meta", "jobs"))
MOST = 1024


class Partitions(Generic[T]):
    """The places of a topic. ``known`` is what this client has learned of its topics, ``wanted`` how many partitions its
    user says that there are."""

    def __init__(
        self, plain: TopicVerbs[T], place: Callable[[int], Any], known: dict[str, int], wanted: int | None
    ) -> None:
        self.desk = plain.desk
        self._plain = plain
        self._place = place
        self._known = known
        self._wanted = wanted_of(wanted)
        self._parts: list[TopicVerbs[T]] = []
        self._turn = count()

    @property
    def keys(self) -> TopicKeys:
        """Those of a topic of one place."""
        return self._plain.keys

    @property
    def holder(self) -> bytes:
        """Who takes jobs here."""
        return self._plain.holder

    @holder.setter
    def holder(self, name: bytes) -> None:
        for verbs in (self._plain, *self._parts):
            verbs.holder = name

    @property
    def only(self) -> TopicVerbs[T] | None:
        """Its verbs, where it is known to be one place."""
        return self._plain if self._wanted in (None, 1) and self._known.get(self.desk.name) == 1 else None

    def parts(self) -> Flow[list[TopicVerbs[T]]]:
        """The verbs of each partition. Raises ``BadInput`` when there are others than the user says."""
        if not self._parts:
            number = self._known.get(self.desk.name)
            if number is None or self._wanted not in (None, number):
                number = yield from self._ask()
            self._known[self.desk.name] = number
            self._parts = [self._plain] if number == 1 else [self._part(index) for index in range(number)]
        return self._parts

    def in_turn(self) -> Flow[list[TopicVerbs[T]]]:
        """The same, each time beginning with another, so that all of them are drained alike."""
        parts = yield from self.parts()
        first = next(self._turn) % len(parts)
        return [*parts[first:], *parts[:first]]

    def _ask(self) -> Flow[int]:
        keys = self.desk.keys
        found = yield from ask(Call(FIND, (keys.meta, keys.jobs), (b"%d" % (self._wanted or 0),), int))
        name, wanted = self.desk.name, self._wanted
        if not found:
            raise BadInput(
                f"partitions: {name} is a plain topic with jobs. Choose another name, and `tarry migrate` it."
            )
        if wanted is not None and wanted != found:
            raise BadInput(
                f"partitions: {name} has {found}, and not {wanted}; that stays as it was made. "
                "Leave partitions= out, or `tarry migrate` it into a topic that has more."
            )
        return found

    def _part(self, index: int) -> TopicVerbs[T]:
        desk: TopicDesk[T] = replace(self.desk, keys=self._place(index))
        return TopicVerbs(desk, self.holder, self._plain.luck)

    # ── ways ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _at(self, id: str | bytes, do: Callable[[TopicVerbs[T]], Operation[R]]) -> Operation[R]:
        return do(self.only) if self.only is not None else self._found(id, do)

    def _found(self, id: str | bytes, do: Callable[[TopicVerbs[T]], Operation[R]]) -> Flow[R]:
        parts = yield from self.parts()
        return (yield from flow_of(do(parts[place_of(id, len(parts))])))

    def _split(
        self, some: Sequence[X], id_of: Callable[[X], Any], do: Callable[[TopicVerbs[T], list[int]], Any]
    ) -> Flow[Any]:
        """Answers for each of some things, in order; each is asked for where it is."""
        parts = yield from self.parts()
        answers: list[Any] = [None] * len(some)
        for index, verbs in enumerate(parts):
            mine = [at for at, one in enumerate(some) if place_of(id_of(one), len(parts)) == index]
            if mine:
                found = yield from flow_of(do(verbs, mine))
                for at, answer in zip(mine, found or [None] * len(mine), strict=True):
                    answers[at] = answer
        return answers

    def _ids(
        self, ids: Sequence[str], do: Callable[[TopicVerbs[T], Sequence[str]], Operation[list[R]]]
    ) -> Operation[list[R]]:
        refuse_one(ids, "ids")
        if self.only is not None:
            return do(self.only, ids)
        return self._split(list(ids), str, lambda verbs, mine: do(verbs, [ids[at] for at in mine]))

    def _jobs(
        self, jobs: Sequence[Holding], do: Callable[[TopicVerbs[T], Sequence[Holding]], Flow[None]]
    ) -> Flow[None]:
        return do(self.only, jobs) if self.only is not None else self._settled(jobs, do)

    def _settled(
        self, jobs: Sequence[Holding], do: Callable[[TopicVerbs[T], Sequence[Holding]], Flow[None]]
    ) -> Flow[None]:
        """All that hold are settled, wherever they are; then the first that does not is told."""
        refused = merging.Refusals()

        def settle(verbs: TopicVerbs[T], mine: list[int]) -> Flow[None]:
            return refused.gather(do(verbs, [jobs[at] for at in mine]))

        yield from self._split(jobs, lambda job: job.id, settle)
        refused.tell()

    def _each(self, do: Callable[[TopicVerbs[T]], Operation[R]], merge: Callable[[list[R]], R]) -> Operation[R]:
        return do(self.only) if self.only is not None else self._all(do, merge)

    def _all(self, do: Callable[[TopicVerbs[T]], Operation[R]], merge: Callable[[list[R]], R]) -> Flow[R]:
        parts = yield from self.parts()
        answers: list[R] = []
        for verbs in parts:
            answer = yield from flow_of(do(verbs))
            answers.append(answer)
        return merge(answers) if len(answers) > 1 else answers[0]


def wanted_of(number: int | None) -> int | None:
    if number is None or (isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= MOST):
        return number
    raise BadInput(f"partitions: {number!r}; it is a whole number from 1 to {MOST}.")


def place_of(id: str | bytes, number: int) -> int:
    """The partition of a job."""
    return crc32(id.encode() if isinstance(id, str) else id) % number
