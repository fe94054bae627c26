"""``tarry dead``: dead jobs, grouped by what went wrong; a group is shown, kicked or deleted as one."""

from __future__ import annotations

import sys
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tarry.errors import BadInput
from tarry.internal import perform_view, server_verbs
from tarry.programs.cli import output
from tarry.programs.cli.commands import TopicName, verb
from tarry.programs.cli.progress import progress
from tarry.programs.cli.selection import (
    Limit,
    OfTask,
    WithError,
    WithText,
    Yes,
    act_on_each,
    confirm_deletion,
    list_jobs,
)
from tarry.programs.cli.session import CommandSession

if TYPE_CHECKING:
    from tarry import DeadGroups, Topic
    from tarry.internal import JobSearch

NONE = "there are no such jobs"


@verb()
def dead(
    session: CommandSession,
    topic: TopicName,
    group: Annotated[str | None, typer.Option(metavar="GROUP", help="Only this group.", show_default=False)] = None,
    task: OfTask = None,
    error: WithError = None,
    text: WithText = None,
    jobs: Annotated[bool, typer.Option("--jobs", help="Show the jobs; with --json all of each.")] = False,
    kick: Annotated[bool, typer.Option("--kick", help="Make them ready again; needs a filter.")] = False,
    delete: Annotated[bool, typer.Option("--delete", help="Delete them; needs a filter.")] = False,
    limit: Limit = None,
    yes: Yes = False,
) -> None:
    """Groups dead jobs by what went wrong; shows, kicks or deletes the jobs of a filter."""
    from tarry.internal import JobSearch

    if jobs + kick + delete > 1:
        raise BadInput("dead: give one of --jobs, --kick and --delete.")
    if (kick or delete) and group is task is error is text is None:
        everything = f"tarry kick {topic} --all" if kick else f"tarry purge {topic} --state dead"
        raise BadInput(
            f"{'kick' if kick else 'delete'}: give --group, --task, --error or --text; all dead jobs: {everything}"
        )
    search = JobSearch(task, error, text, group).check("dead")
    handle = session.known_topic(topic)
    if not (jobs or kick or delete):
        _print_groups(session, handle, _all_groups(handle, search), limit)
        return
    found = islice(list_jobs(handle, "dead", None, search), limit)
    if jobs:
        for job in found:
            why = "".join(f"  {part}" for part in (job.reason, output.last_error_line(job)) if part)
            session.print_answer(partial(output.job_data, job), f"{job.id}  dead  {output.rfc3339(job.died)}{why}")
        return
    ids = [job.id for job in found]
    if not ids:
        session.print_note(NONE)
        return
    if delete:
        confirm_deletion(handle, "dead", len(ids), yes=yes)
        act_on_each(session, handle, ids, partial(handle.delete_many, state="dead"), "was {was}", dry_run=False)
    else:
        act_on_each(session, handle, ids, handle.kick_many, "was {was}", dry_run=False)


def _all_groups(topic: Topic[Any], search: JobSearch | None) -> DeadGroups:
    """The groups of all dead jobs; no call looks at more than a thousand of them."""

    def page(cursor: str | None) -> DeadGroups:
        return perform_view(topic, server_verbs(topic).dead_groups(search, 1000, cursor))

    found = page(None)
    with progress(f"{topic.name}: grouping", found.dead) as advance:
        advance(found.scanned)
        while found.cursor is not None:
            more = page(found.cursor)
            advance(more.scanned)
            found += more
    return found


def _print_groups(session: CommandSession, topic: Topic[Any], found: DeadGroups, limit: int | None) -> None:
    from tarry.wire.topic_answers import DEAD_GROUP

    shown = found.groups[:limit]
    if shown and not session.json and sys.stdout.isatty():
        from tarry.programs.cli.job_table import print_groups

        print_groups(shown, topic.stats().now)
        shown = ()
    for group in shown:
        where = "".join(f"  {part}" for part in (group.task, group.error, group.place and f"at {group.place}") if part)
        count, last = output.count_text(group.count, "job"), output.rfc3339(group.last)
        session.print_answer(output.as_data(DEAD_GROUP, group), f"{group.id}  {count}  last {last}{where}")
    if found.ungrouped:
        session.print_note(f"{output.count_text(found.ungrouped, 'job')} in further groups")
    if not found.groups:
        session.print_note(NONE)
