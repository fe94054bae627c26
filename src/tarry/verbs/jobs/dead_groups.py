"""Groups of dead jobs by what went wrong: the task, the kind of error, its message, the place in the code.

    HTTPError: 503 for order 4711 of 'ada'  at  billing.py, charge   ──▶   HTTPError: … for order … of …   one group

Numbers, ids, quoted text and addresses are taken out of the message. A group is computed from the dead jobs and nothing is
stored, so counts are exact after a kick, a deletion or a sweep. The same groups select jobs: see
``JobSearch``. The text of an error is foreign: every pattern here takes time that grows with its length and no faster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any

import msgspec

from tarry.errors import BadInput, BodyError
from tarry.values import names
from tarry.verbs.jobs.job_values import JobInfo, StateFilter, failure_line

ID_SIZE = 12
SAMPLES = 3
MOST_GROUPS = 10_000
LONGEST_SEARCH = 1000
_READ_OF_MESSAGE, _LONGEST_MESSAGE, _LONGEST_PLACE = 1000, 200, 100
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]+")
_VARIABLE = re.compile(
    r"""(?<!\w)'[^'\n]*' | "[^"\n]*" | `[^`\n]*`  # quoted text; not from the apostrophe of a word
    | \b\w++://\S+                                # addresses: of the web,
    | (?<![\w.+-])[\w.+-]++@[\w.-]+               # of a person
    | (?<![\w-])[\w-]*\d[\w.:-]*                  # numbers, ids, and other words with digits
    """,
    re.X,
)
_FRAME = re.compile(r'^[ \t]*+File "([^"\n]+)", line \d+, in (.+)$', re.M)


class TaskCall(msgspec.Struct, forbid_unknown_fields=True):
    """The body that a task's ``add`` writes: these two fields and no other."""

    task: str
    args: msgspec.Raw


_read_call = msgspec.json.Decoder(TaskCall).decode


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """Dead jobs with the same task, error and place in the code."""

    id: str
    """A short name of the group, which is the same in every process and at any time."""
    task: str
    """The name of the jobs' task; empty for jobs of a topic's handler."""
    error: str
    """The kind of error and its message; what differs from job to job, such as a number, is left out."""
    place: str
    """The place in the code that raised the error: file and function; empty if it is not known."""
    count: int
    """How many jobs the group has."""
    first: datetime
    """When the first job of the group died."""
    last: datetime
    """When the last job of the group died."""
    samples: tuple[str, ...]
    """The ids of up to three jobs of the group, those that died last."""

    def __add__(self, later: DeadGroup) -> DeadGroup:
        """The same group, with the jobs of a later page."""
        return replace(
            self,
            count=self.count + later.count,
            first=min(self.first, later.first),
            last=max(self.last, later.last),
            samples=(*later.samples, *self.samples)[:SAMPLES],
        )


@dataclass(frozen=True, slots=True)
class DeadGroups:
    """Groups of the dead jobs that one call of ``dead_groups`` has read. Add up the calls: ``found += topic.dead_groups(cursor=found.cursor)``."""

    groups: tuple[DeadGroup, ...]
    """The groups, the largest first."""
    scanned: int
    """How many dead jobs were read."""
    dead: int
    """How many dead jobs the topic has."""
    cursor: str | None = None
    """Give it to ``dead_groups`` to read on; ``None`` when all dead jobs were read."""
    ungrouped: int = 0
    """How many of the jobs that were read are in none of these groups, because there are more than ten thousand groups."""

    def __iter__(self) -> Iterator[DeadGroup]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def __add__(self, later: DeadGroups) -> DeadGroups:
        """The groups of both pages; the cursor is the later one's."""
        merged, ungrouped = {group.id: group for group in self.groups}, self.ungrouped + later.ungrouped
        for group in later.groups:
            if group.id in merged:
                merged[group.id] += group
            elif len(merged) < MOST_GROUPS:
                merged[group.id] = group
            else:
                ungrouped += group.count
        return DeadGroups(_largest_first(merged), self.scanned + later.scanned, later.dead, later.cursor, ungrouped)


@dataclass(frozen=True, slots=True)
class JobSearch:
    """Which jobs are meant: of a task, with a text in their reason, error or note, with a text in their body, of a group of dead jobs."""

    task: str | None = None
    error: str | None = None
    text: str | None = None
    group: str | None = None

    def given(self) -> dict[str, Any]:
        """The parts that were given."""
        return {name: text for name in self.__slots__ if (text := getattr(self, name)) is not None}

    def check(self, state: StateFilter | None) -> JobSearch | None:
        """The search among the jobs in a state; ``None`` if nothing was given. Raises ``BadInput``."""
        given = self.given()
        for name, text in given.items():
            if not isinstance(text, str) or not 0 < len(text) <= LONGEST_SEARCH or not _is_unicode(text):
                raise BadInput(f"{name}: {text!r:.60}; it is a text of 1 to {LONGEST_SEARCH} characters.")
        if self.group is not None and state != "dead":
            raise BadInput('group: only dead jobs have groups; give state "dead".')
        return self if given else None

    def matches(self, job: JobInfo[Any]) -> bool:
        """Whether the job is meant."""
        return (
            (self.task is None or task_of(job) == self.task)
            and (self.error is None or self.error in f"{job.reason or ''}\n{job.error or ''}\n{job.note or ''}")
            and (self.text is None or self.text.encode() in raw_body(job))
            and (self.group is None or group_id(*_failure_of(job)) == self.group)
        )


def group_jobs(jobs: Iterable[JobInfo[Any]], dead: int, scanned: int, cursor: str | None) -> DeadGroups:
    """The groups of a page of dead jobs, which are in the order of their deaths."""
    groups: dict[str, DeadGroup] = {}
    for job in jobs:
        if (died := job.died) is not None:
            group = group_of(job, died)
            groups[group.id] = groups[group.id] + group if group.id in groups else group
    return DeadGroups(_largest_first(groups), scanned, dead, cursor)


def group_of(job: JobInfo[Any], died: datetime) -> DeadGroup:
    """The group of a dead job, with only this job."""
    task, error, place = _failure_of(job)
    return DeadGroup(group_id(task, error, place), task, error, place, 1, died, died, (job.id,))


def group_id(task: str, error: str, place: str) -> str:
    return sha256("\n".join((task, error, place)).encode("utf-8", "replace")).hexdigest()[:ID_SIZE]


def _largest_first(groups: Mapping[str, DeadGroup]) -> tuple[DeadGroup, ...]:
    return tuple(sorted(groups.values(), key=lambda group: (-group.count, group.id)))


def _failure_of(job: JobInfo[Any]) -> tuple[str, str, str]:
    """Task, error and place."""
    reason, error = job.reason or "", job.error or ""
    message = failure_line(reason, error[:_READ_OF_MESSAGE])
    found = _CONTROL.sub("…", _VARIABLE.sub("…", message[:_READ_OF_MESSAGE]))
    return task_of(job), found[:_LONGEST_MESSAGE], _place_in(error)


def _place_in(error: str) -> str:
    """The last frame of a Python traceback."""
    frames = _FRAME.findall(error)
    if not frames:
        return ""
    file, function = frames[-1]
    name = file.replace("\\", "/").rpartition("/")[2]
    return _CONTROL.sub("…", f"{name}, {function}")[:_LONGEST_PLACE]


def task_of(job: JobInfo[Any]) -> str:
    """The name of a job's task; empty if there is none."""
    call = task_call(job)
    return "" if call is None else call.task


def task_call(job: JobInfo[Any]) -> TaskCall | None:
    """The task and its arguments; ``None`` if the body is not exactly what a task's ``add`` writes."""
    try:
        found = _read_call(job.raw)
        names.check_name(found.task, "task")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, BodyError, BadInput):
        return None
    return found if bytes(found.args).startswith(b"{") else None


def raw_body(job: JobInfo[Any]) -> bytes:
    """Nothing, where the record is damaged or of a newer version."""
    try:
        return job.raw
    except BodyError:
        return b""


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
