"""Groups of dead jobs by what went wrong: the task, the kind of error, its message, the place in the code.

    HTTPError: 503 for order 4711 of 'ada'  at  billing.py, charge   ──▶   HTTPError: … for order … of …   one group

Numbers, ids, quoted text and addresses are taken out of the message. A group is computed from the dead jobs and nothing is
stored, so counts are exact after a kick, a deletion or a sweep, and beside older versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePath
from typing import Any

import msgspec

from tarry.verbs.jobs.models import JobInfo

EXHAUSTED = "attempts exhausted"
KEY_SIZE = 8
_VARIABLE = re.compile(
    r"""'[^'\n]*' | "[^"\n]*" | `[^`\n]*`                       # quoted text
    | \w+://\S+                                                 # addresses: of the web,
    | \S+@\S+\.\w+                                              # of a person,
    | 0x[0-9a-fA-F]+                                            # of an object in memory
    | \b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b  # ids
    | [\w-]*\d[\w.:-]*                                          # numbers, and words with digits
    """,
    re.X,
)
_FRAME = re.compile(r'^\s*File "([^"\n]+)", line \d+, in (.+)$', re.M)


class _TaskName(msgspec.Struct):
    task: str


_read_task = msgspec.json.Decoder(_TaskName).decode


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """The properties that all jobs of one group share."""

    task: str
    """The task's name; empty for the handler of a topic."""
    error: str
    """The kind of error and its message, without what differs from job to job."""
    place: str
    """The innermost place in the code: file and function; empty if it is not known."""

    @property
    def key(self) -> str:
        """A short name, the same in every process."""
        text = "\n".join((self.task, self.error, self.place))
        return sha256(text.encode("utf-8", "replace")).hexdigest()[:KEY_SIZE]


def group_of(job: JobInfo[Any]) -> DeadGroup:
    """The group of a dead job."""
    reason, error = job.reason or "", job.error or ""
    told = error.partition("\n")[0] if reason == EXHAUSTED and error else reason
    frames = _FRAME.findall(error)
    place = f"{PurePath(frames[-1][0]).name}, {frames[-1][1]}" if frames else ""
    return DeadGroup(task_of(job), _VARIABLE.sub("…", told), place)


def task_of(job: JobInfo[Any]) -> str:
    """The name of a job's task; empty if it is none."""
    try:
        return _read_task(job.raw).task
    except msgspec.DecodeError:
        return ""


def matches(job: JobInfo[Any], *, task: str | None = None, error: str | None = None, text: str | None = None) -> bool:
    """Whether the job is one of this task, has this text in its reason or error, and this text in its body."""
    return (
        (task is None or task_of(job) == task)
        and (error is None or error in f"{job.reason or ''}\n{job.error or ''}")
        and (text is None or text.encode() in job.raw)
    )
