"""Where the jobs of a topic are: one place, or many. Each partition has keys, and in a Cluster a slot, of its own.

    id ──crc32──▶ partition      what names a job goes where the job is; what names none goes to each, all together
    schedule@moment ──▶ that of the schedule, which lies where its name says and adds its jobs there

How many there are is asked once, at the first verb, and remembered; a topic of one place then costs nothing more. One that
has been given partitions since has keys of another kind: the server refuses, this is asked again, and the verb goes on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Generic, TypeVar
from zlib import crc32

from tarry.core.flows import gather
from tarry.core.requests import Command, Flow, ScriptCall, WrongType, ask, flow_of
from tarry.core.scripts import Script
from tarry.errors import BadInput, StaleReceipt
from tarry.values import names
from tarry.values.keys import TopicKeys
from tarry.verbs.jobs import merging
from tarry.verbs.jobs.face import TopicVerbs, refuse_one
from tarry.verbs.jobs.shapes import Holding
from tarry.verbs.jobs.topic import TopicDesk

T = TypeVar("T")
R = TypeVar("R")
X = TypeVar("X")
Operation = ScriptCall[R] | Flow[R]
FIND = Script("parts/find", args=("wanted", "stale"), keys=("meta", "jobs", "wake"))
MOST = 1024
_OCCURRENCE = re.compile(rb"(.+)@\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{6})?Z", re.S)
"""How lua/schedules/fire.lua names a job: the schedule, and verbs/schedules/firing.py's ``stamp``."""


class Known:
    """What a client knows of its topics: how many partitions they have, and how many its user has said of which."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.said: dict[str, int] = {}
        self.only_numbered: set[str] = set()
        """Topics whose partitions are older than the names that spread them over all slots."""


class Partitions(Generic[T]):
    """The places of a topic. ``known`` is what this client has learned, ``wanted`` how many partitions its user says that there
    are. The first verb makes them, through whichever handle: through one that says no number, too."""

    def __init__(
        self, plain: TopicVerbs[T], place: Callable[[int, int], Any], known: Known, wanted: int | None
    ) -> None:
        self.desk = plain.desk
        self._plain = plain
        self._place = place
        self._known = known
        self._wanted = wanted_of(wanted)
        if wanted is not None:
            known.said[self.desk.name] = wanted
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
        return self._plain if self._wanted in (None, 1) and self._known.numbers.get(self.desk.name) == 1 else None

    def parts(self) -> Flow[list[TopicVerbs[T]]]:
        """The verbs of each partition. Raises ``BadInput`` when there are others than the user says."""
        number = self._known.numbers.get(self.desk.name)
        if number is None or self._wanted not in (None, number):
            number = yield from self._ask()
            self._known.numbers[self.desk.name] = number
        if len(self._parts) != number:
            self._parts = [self._plain] if number == 1 else [self._part(index, number) for index in range(number)]
        return self._parts

    def in_turn(self) -> Flow[list[TopicVerbs[T]]]:
        """The same, each time beginning with another, so that all of them are drained alike."""
        parts = yield from self.parts()
        first = next(self._turn) % len(parts)
        return [*parts[first:], *parts[:first]]

    def anew(self, fault: WrongType) -> Flow[list[TopicVerbs[T]]]:
        """The partitions that the topic has been given since this client asked. Raises the fault if it has none."""
        number = yield from self._ask(stale=True)
        if number == 1:
            raise fault
        self._known.numbers[self.desk.name] = number
        return (yield from self.parts())

    def _ask(self, *, stale: bool = False) -> Flow[int]:
        keys = self.desk.keys
        said = self._wanted or self._known.said.get(self.desk.name, 0)
        if self.desk.name in names.DOTS:  # what is there is found, and nothing is made
            said = 0
        args = b"%d" % said, b"%d" % stale
        answer = yield from ask(ScriptCall(FIND, (keys.meta, keys.jobs, keys.wake), args, int))
        found, name, wanted = abs(answer), self.desk.name, self._wanted
        if answer < 0:
            self._known.only_numbered.add(name)
        if not found and wanted is None:
            return 1
        if not found:
            raise BadInput(
                f"partitions: {name} is a plain topic that has been used. Choose another name, and `tarry migrate` it."
            )
        if wanted is not None and wanted != found:
            raise BadInput(
                f"partitions: {name} has {found}, and not {wanted}; that stays as it was made. "
                "Leave partitions= out, or `tarry migrate` it into a topic that has more."
            )
        return found

    def _part(self, index: int, number: int) -> TopicVerbs[T]:
        among = number if self.desk.name not in self._known.only_numbered else 0
        desk: TopicDesk[T] = replace(self.desk, keys=self._place(index, among))
        return TopicVerbs(desk, self.holder, self._plain.luck, (index, number))

    # ── ways ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def over(self, do: Callable[[list[TopicVerbs[T]]], Flow[R]]) -> Flow[R]:
        """Something that concerns the partitions."""
        parts = yield from self.parts()
        try:
            return (yield from do(parts))
        except WrongType as fault:
            return (yield from do((yield from self.anew(fault))))

    def _way(
        self, alone: Callable[[TopicVerbs[T]], Operation[R]], over: Callable[[list[TopicVerbs[T]]], Flow[R]]
    ) -> Operation[R]:
        """The short way where there is one place, as far as this client knows; where that is no longer so, the other."""
        only = self.only
        if only is None:
            return self.over(over)
        operation = alone(only)
        if not isinstance(operation, ScriptCall):
            return self._or_over(operation, over)
        operation.on_wrong_type = lambda _, fault: self._over_anew(fault, over)
        return operation

    def _or_over(self, flow: Flow[R], over: Callable[[list[TopicVerbs[T]]], Flow[R]]) -> Flow[R]:
        try:
            return (yield from flow)
        except WrongType as fault:
            return (yield from self._over_anew(fault, over))

    def _over_anew(self, fault: WrongType, over: Callable[[list[TopicVerbs[T]]], Flow[R]]) -> Flow[R]:
        return (yield from over((yield from self.anew(fault))))

    def _at(self, id: str | bytes, do: Callable[[TopicVerbs[T]], Operation[R]]) -> Operation[R]:
        return self._way(do, lambda parts: flow_of(do(parts[place_of(id, len(parts))])))

    def _split(
        self, some: Sequence[X], id_of: Callable[[X], Any], do: Callable[[TopicVerbs[T], list[int]], Any]
    ) -> Callable[[list[TopicVerbs[T]]], Flow[Any]]:
        """Answers for each of some things, in order; each is asked for where it is."""

        def split(parts: list[TopicVerbs[T]]) -> Flow[Any]:
            answers: list[Any] = [None] * len(some)
            groups = grouped(map(id_of, some), len(parts))
            found = yield from gather(flow_of(do(parts[index], mine)) for index, mine in groups)
            for (_, mine), its in zip(groups, found, strict=True):
                for at, answer in zip(mine, its or [None] * len(mine), strict=True):
                    answers[at] = answer
            return answers

        return split

    def _ids(
        self, ids: Sequence[str], do: Callable[[TopicVerbs[T], Sequence[str]], Operation[list[R]]]
    ) -> Operation[list[R]]:
        refuse_one(ids, "ids")
        split = self._split(list(ids), str, lambda verbs, mine: do(verbs, [ids[at] for at in mine]))
        return self._way(lambda only: do(only, ids), split)

    def _jobs(
        self, jobs: Sequence[Holding], do: Callable[[TopicVerbs[T], Sequence[Holding]], Flow[None]]
    ) -> Flow[None]:
        return do(self.only, jobs) if self.only is not None else self._settled(jobs, do)

    def _settled(
        self, jobs: Sequence[Holding], do: Callable[[TopicVerbs[T], Sequence[Holding]], Flow[None]]
    ) -> Flow[None]:
        """All that hold are settled, wherever they are; then the first that does not is told."""

        def settle(parts: list[TopicVerbs[T]]) -> Flow[list[StaleReceipt | None]]:
            groups = grouped((job.id for job in jobs), len(parts))
            return gather(merging.refused(do(parts[index], [jobs[at] for at in mine])) for index, mine in groups)

        merging.tell((yield from self.over(settle)))

    def _each(self, do: Callable[[TopicVerbs[T]], Operation[R]], merge: Callable[[list[R]], R]) -> Operation[R]:
        return self._way(do, lambda parts: each(parts, do, merge))


def each(
    parts: Sequence[TopicVerbs[T]],
    do: Callable[[TopicVerbs[T]], Operation[R] | Command[R]],
    merge: Callable[[list[R]], R],
) -> Flow[R]:
    """One answer for all of them, who are asked together."""
    if len(parts) == 1:
        return (yield from flow_of(do(parts[0])))
    return merge((yield from gather([flow_of(do(verbs)) for verbs in parts])))


def wanted_of(number: int | None) -> int | None:
    if number is None or (isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= MOST):
        return number
    raise BadInput(f"partitions: {number!r}; it is a whole number from 1 to {MOST}.")


def home_of(name: bytes, number: int) -> int:
    """The partition of what has a name: a schedule."""
    return crc32(name) % number


def place_of(id: str | bytes, number: int) -> int:
    """The partition of a job. That of a schedule's occurrence is its schedule's."""
    raw = id.encode() if isinstance(id, str) else id
    if raw[-1:] == b"Z" and (found := _OCCURRENCE.fullmatch(raw)):
        raw = found[1]
    return home_of(raw, number)


def grouped(ids: Iterable[str | bytes], number: int) -> list[tuple[int, list[int]]]:
    """The partitions that some ids lie in, each with the places that those have in the order in which they came."""
    found: dict[int, list[int]] = {}
    for at, id in enumerate(ids):
        found.setdefault(place_of(id, number), []).append(at)
    return sorted(found.items())
