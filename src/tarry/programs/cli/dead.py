"""``tarry dead``: dead jobs, grouped by what went wrong; a group is shown, kicked or deleted as one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tarry.errors import BadInput
from tarry.programs.cli import output
from tarry.programs.cli.commands import TopicName, verb
from tarry.programs.cli.selection import Limit, Yes, act_on_each, confirm_deletion, list_jobs
from tarry.programs.cli.session import CommandSession

if TYPE_CHECKING:
    from tarry.clients.blocking.topic import Topic
    from tarry.verbs.jobs.models import JobInfo


@verb()
def dead(
    session: CommandSession,
    topic: TopicName,
    group: Annotated[str | None, typer.Option(help="Only this group.", show_default=False)] = None,
    task: Annotated[str | None, typer.Option(help="Only jobs of this task.", show_default=False)] = None,
    error: Annotated[
        str | None, typer.Option(help="Only jobs with this text in their reason or error.", show_default=False)
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="Only jobs with this text in their body.", show_default=False)
    ] = None,
    jobs: Annotated[bool, typer.Option("--jobs", help="Show the jobs; with --json all of each.")] = False,
    kick: Annotated[bool, typer.Option("--kick", help="Make them ready again.")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete them.")] = False,
    limit: Limit = None,
    yes: Yes = False,
) -> None:
    """Groups dead jobs by what went wrong; shows, kicks or deletes the jobs of a group."""
    if jobs + kick + delete > 1:
        raise BadInput("dead: give one of --jobs, --kick and --delete.")
    handle = session.known_topic(topic)
    found = islice(_select(handle, group, task, error, text), limit)
    if jobs:
        for job in found:
            why = "".join(f"  {part}" for part in (job.reason, output.last_error_line(job)) if part)
            session.print_answer(output.job_data(job), f"{job.id}  dead  {output.rfc3339(job.died)}{why}")
    elif kick or delete:
        ids = [job.id for job in found]
        if delete:
            confirm_deletion(handle, "dead", len(ids) or None, yes=yes)
        act_on_each(
            session,
            handle,
            ids,
            handle.delete_many if delete else handle.kick_many,
            "deleted, was {was}" if delete else "was {was}",
            dry_run=False,
        )
    else:
        _print_groups(session, found)


def _select(
    topic: Topic[Any], group: str | None, task: str | None, error: str | None, text: str | None
) -> Iterator[JobInfo[Any]]:
    """The dead jobs that are meant, page by page: no call looks at more than a thousand of them."""
    from tarry.verbs.jobs.dead_groups import group_of, matches

    for job in list_jobs(topic, "dead", None):
        if matches(job, task=task, error=error, text=text) and (group is None or group_of(job).key == group):
            yield job


def _print_groups(session: CommandSession, jobs: Iterator[JobInfo[Any]]) -> None:
    from tarry.verbs.jobs.dead_groups import DeadGroup, group_of

    groups: dict[DeadGroup, tuple[int, JobInfo[Any]]] = {}
    for job in jobs:  # in the order of their deaths: the last one stays
        of = group_of(job)
        groups[of] = groups.get(of, (0, job))[0] + 1, job
    for of, (count, last) in sorted(groups.items(), key=lambda item: -item[1][0]):
        died = output.rfc3339(last.died)
        data = {"group": of.key, "jobs": count, **asdict(of), "last": last.id, "died": died}
        where = "".join(f"  {part}" for part in (of.task, of.error, of.place and f"at {of.place}") if part)
        session.print_answer(data, f"{of.key}  {output.count_text(count, 'job')}  last {died}{where}")
    if not groups:
        session.print_note("there are no such jobs")
