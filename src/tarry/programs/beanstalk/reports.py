"""The answers in YAML: ``stats``, ``stats-job``, ``stats-tube`` and the lists of tubes, with beanstalkd's lines in its order. Names are
quoted as in 1.13: a tube may be called ``1e5`` or ``true``."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from tarry import __version__

if TYPE_CHECKING:
    from tarry import JobInfo, Stats
    from tarry.programs.beanstalk.server_state import ServerState
    from tarry.programs.beanstalk.tubes import Tubes

BEANSTALKD = "1.13"
"""The version of beanstalkd that this is like, for clients that compare versions."""
_STATES = {"delayed": "delayed", "ready": "ready", "reserved": "reserved", "dead": "buried"}
_COUNTED = (
    "put", "peek", "peek-ready", "peek-delayed", "peek-buried", "reserve", "reserve-with-timeout", "delete", "release", "use",
    "watch", "ignore", "bury", "kick", "touch", "stats", "stats-job", "stats-tube", "list-tubes", "list-tube-used",
    "list-tubes-watched", "pause-tube",
)  # fmt: skip
_SECOND = timedelta(seconds=1)


def of_names(names: Sequence[str]) -> bytes:
    """A list of tubes."""
    return _ok("".join(f"- {name}\n" for name in names))


def of_job(number: int, job: JobInfo[Any], headers: Mapping[str, str], now: datetime) -> bytes:
    """The answer to ``stats-job``."""
    counts = {name: number_in(headers, name) for name in ("releases", "buries", "kicks")}
    ends = {"delayed": job.due, "reserved": job.reserved_until}.get(job.state)
    ttr = number_in(headers, "ttr") or (math.ceil(job.ttr / _SECOND) if job.ttr else 0)
    timeouts = job.attempts - counts["releases"] - counts["buries"] - (job.state == "reserved")
    return _lines(
        {
            "id": number,
            "tube": f'"{job.topic}"',
            "state": _STATES[job.state],
            "pri": number_in(headers, "pri"),
            "age": _whole((now - job.created) / _SECOND),
            "delay": _seconds_in(headers, "delay"),
            "ttr": ttr,
            "time-left": _whole((ends - now) / _SECOND) if ends else 0,
            "file": 0,
            "reserves": job.attempts,
            "timeouts": max(timeouts, 0),
            **counts,
        }
    )


def of_tube(server: ServerState, tubes: Tubes, stats: Stats, urgent: int) -> bytes:
    """The answer to ``stats-tube``."""
    name = stats.topic
    sessions = [one for one in server.open_sessions() if one.tubes is tubes]
    left = math.ceil((stats.paused_until - stats.now) / _SECOND) if stats.paused_until else 0
    return _lines(
        {
            "name": f'"{name}"',
            "current-jobs-urgent": urgent,
            **_current([stats]),
            "total-jobs": stats.added,
            "current-using": sum(one.used == name for one in sessions),
            "current-watching": sum(name in one.watched for one in sessions),
            "current-waiting": sum(one.waiting and name in one.watched for one in sessions),
            "cmd-delete": stats.finished + stats.deleted,
            "cmd-pause-tube": server.pauses[tubes.namespace, name],
            "pause": left,
            "pause-time-left": left,
        }
    )


def of_server(server: ServerState, found: Sequence[Stats], urgent: int) -> bytes:
    """The answer to ``stats``: the jobs of the namespace, the commands and connections of this process."""
    sessions, times, system = server.open_sessions(), os.times(), os.uname()
    return _lines(
        {
            "current-jobs-urgent": urgent,
            **_current(found),
            **{f"cmd-{name}": server.commands[name] for name in _COUNTED},
            "job-timeouts": sum(stats.timed_out for stats in found),
            "total-jobs": sum(stats.added for stats in found),
            "max-job-size": server.max_job_size,
            "current-tubes": len(found),
            "current-connections": len(sessions),
            "current-producers": sum(one.is_producer for one in sessions),
            "current-workers": sum(one.is_worker for one in sessions),
            "current-waiting": sum(one.waiting for one in sessions),
            "total-connections": server.accepted,
            "pid": os.getpid(),
            "version": f'"{BEANSTALKD}"',
            "tarry-version": f'"{__version__}"',
            "rusage-utime": f"{times.user:.6f}",
            "rusage-stime": f"{times.system:.6f}",
            "uptime": _whole(server.uptime()),
            "binlog-oldest-index": 0,
            "binlog-current-index": 0,
            "binlog-records-migrated": 0,
            "binlog-records-written": 0,
            "binlog-max-size": 0,
            "draining": "true" if server.draining else "false",
            "id": server.id,
            "hostname": f'"{system.nodename}"',
            "os": f'"{system.version}"',
            "platform": f'"{system.machine}"',
        }
    )


def number_in(headers: Mapping[str, str], name: str) -> int:
    """A number in the headers; 0 if there is none."""
    text = headers.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def _seconds_in(headers: Mapping[str, str], name: str) -> str:
    text = headers.get(name, "0")
    return text if text.replace(".", "", 1).isdigit() else "0"


def _current(found: Sequence[Stats]) -> dict[str, int]:
    return {
        "current-jobs-ready": sum(stats.ready for stats in found),
        "current-jobs-reserved": sum(stats.reserved for stats in found),
        "current-jobs-delayed": sum(stats.delayed for stats in found),
        "current-jobs-buried": sum(stats.dead for stats in found),
    }


def _whole(seconds: float) -> int:
    return max(math.floor(seconds), 0)


def _lines(values: Mapping[str, object]) -> bytes:
    return _ok("".join(f"{name}: {value}\n" for name, value in values.items()))


def _ok(text: str) -> bytes:
    data = b"---\n" + text.encode()
    return b"OK %d\r\n%s\r\n" % (len(data), data)
