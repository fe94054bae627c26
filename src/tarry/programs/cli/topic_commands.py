"""Commands on topics: topics, stats, purge, pause, configure, check."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from tarry.errors import BadInput
from tarry.internal import perform, server_verbs
from tarry.programs.cli import output
from tarry.programs.cli.commands import AnyTopics, TopicName, TopicNames, verb
from tarry.programs.cli.progress import progress
from tarry.programs.cli.selection import STEP, Limit, Running, StateName, Yes, confirm_deletion, count_jobs, list_jobs
from tarry.programs.cli.session import CommandSession

if TYPE_CHECKING:
    from tarry import CheckReport, Stats, Topic
    from tarry.types import State, StateFilter


NO_LIMIT = "none"
LIMITS = (
    "rate",
    "burst",
    "concurrency",
    "max_lateness_ms",
    "max_pending",
    "max_pending_bytes",
    "key_concurrency",
    "key_rate",
)
NUMBERS = (
    "max_attempts",
    "rate",
    "burst",
    "concurrency",
    "max_pending",
    "max_pending_bytes",
    "key_concurrency",
    "key_rate",
)
Rate = Annotated[
    str | None,
    typer.Option(
        metavar="RATE",
        help="Jobs in a time, such as 100/1m, 5/s, or 5 for 5 a second; none removes the limit.",
        show_default=False,
    ),
]
Burst = Annotated[
    str | None, typer.Option(metavar="N", help="How many jobs at once after a quiet time.", show_default=False)
]
Concurrency = Annotated[
    str | None,
    typer.Option(
        metavar="N", help="How many jobs may be reserved at a time; none removes the limit.", show_default=False
    ),
]
OneKey = Annotated[
    str | None, typer.Option("--key", metavar="KEY", help="Only the jobs of this key.", show_default=False)
]
MaxLateness = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Jobs that are later are buried as too late; none removes the limit.",
        show_default=False,
    ),
]


@verb()
def topics(session: CommandSession) -> None:
    """Lists the known topics, a name a line."""
    for name in sorted(session.client.topics()):
        session.print_answer({"topic": name}, name)


@verb()
def stats(session: CommandSession, topics: AnyTopics = None, key: OneKey = None) -> None:
    """Shows counts by state, what is due next, and lateness; of a key why its jobs wait."""
    if key is not None and not topics:
        raise BadInput("key: name its topic, too: tarry stats TOPIC --key KEY.")
    names = topics or sorted(session.client.topics())
    if not names:
        session.print_note("there is no topic yet")
    for name in names:
        if key is not None:
            from tarry.programs.cli.key_commands import print_key

            print_key(session, session.known_topic(name).stats(key=key))
            continue
        found = (session.known_topic if topics else session.topic)(name).stats()
        session.print_answer(partial(output.stats_data, found), stats_text(found))
        if hint := continue_hint(*count_leaving(session.topic(name))):
            session.print_note(f"{name}  {hint}")


def stats_text(found: Stats) -> str:
    parts = [f"{state} {getattr(found, state)}" for state in ("delayed", "ready", "reserved", "dead")]
    if found.retrying:
        parts[0] += f" ({found.retrying} retrying)"
    parts.append(f"finished {found.finished}")
    if found.next_due is not None:
        parts.append(f"next in {output.span_text(max(found.next_due - found.now, timedelta()))}")
    if found.paused_until is not None:
        parts.append("paused")
    elif found.limited is not None:
        by = "the limits of its keys" if found.limited.reason == "key" else f"its {found.limited.reason}"
        parts.append(f"held back by {by}{_wait_text(found)}")
    if found.held_back and (found.limited is None or found.limited.reason != "key"):
        parts.append(f"{found.held_back} held back by their keys")
    if found.lateness.count and found.limited is None:
        late = found.lateness
        parts.append(f"late p50 {output.span_text(late.p50)}, p99 {output.span_text(late.p99)}")
    return f"{found.topic}  {'  '.join(parts)}"


def _wait_text(found: Stats) -> str:
    """For how long jobs have waited for a limit, and until when the next one does."""
    waited = f", the first for {output.span_text(found.now - found.oldest_ready)}" if found.oldest_ready else ""
    until = found.limited.until if found.limited else None
    return waited + (f", the next in {output.span_text(until - found.now)}" if until else "")


@verb()
def purge(
    session: CommandSession,
    topic: TopicName,
    state: StateName = None,
    limit: Limit = None,
    running: Running = False,
    key: OneKey = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print how many.")] = False,
    yes: Yes = False,
) -> None:
    """Deletes all jobs of a topic, or all in a state or of a key, or up to a limit. Asks first on a terminal."""
    if running and state not in (None, "reserved"):
        raise BadInput("running, state: only reserved jobs run; give --state reserved, or no state.")
    handle = session.known_topic(topic)
    if key is not None:
        if limit is not None or running:
            raise BadInput("key: it deletes all jobs of the key, also those that run; leave out --limit and --running.")
        from tarry.programs.cli.key_commands import purge_key

        purge_key(session, handle, key, cast("StateFilter | None", state), dry_run=dry_run, yes=yes)
        return
    if not dry_run:
        confirm_deletion(handle, state, limit, yes=yes)
    if (limit is not None or running) and not dry_run:
        count = _delete_some(handle, [job.id for job in list_jobs(handle, state, limit)], state, running=running)
        session.print_answer({"topic": topic, "purged": count}, f"{topic}  {count} jobs deleted")
    elif dry_run:
        count = count_jobs(handle, state, limit)
        session.print_answer({"topic": topic, "would_purge": count}, f"{topic}  {count} jobs would be deleted")
    else:
        perform(handle, server_verbs(handle).partitions())  # first, so that each answer below counts as progress
        with progress(f"{topic}: deleting", lambda: count_jobs(handle, state, None)) as advance:
            purge = server_verbs(handle).purge(cast("StateFilter | None", state))
            count = perform(session.client, purge, on_answer=lambda _, deleted: advance(deleted))
        session.print_answer({"topic": topic, "purged": count}, f"{topic}  {count} jobs deleted")


def _delete_some(topic: Topic[Any], ids: Sequence[str], state: str | None, *, running: bool) -> int:
    """Deletes jobs in portions. Of the dead those that were kicked meanwhile stay."""
    only: State | None = "dead" if state == "dead" else None
    count = 0
    with progress(f"{topic.name}: deleting", len(ids)) as advance:
        for at in range(0, len(ids), STEP):
            step = topic.delete_many(ids[at : at + STEP], running=running, state=only)
            count += len([was for was in step if was is not None and only in (None, was)])
            advance(len(step))
    return count


@verb()
def pause(
    session: CommandSession,
    topic: TopicName,
    duration: Annotated[
        str | None,
        typer.Option("--duration", metavar="DURATION", help="How long; default: until resume.", show_default=False),
    ] = None,
    key: OneKey = None,
) -> None:
    """Pauses a topic, or one key of it: hands out nothing for a time, or until resume."""
    handle = session.topic(topic)
    if not session.is_known(handle):
        session.print_note(f"{topic} is new: nothing was ever added to it, and nothing is configured for it")
    end = output.rfc3339(handle.pause(duration, key=key))
    data: dict[str, Any] = {"topic": topic, **({} if key is None else {"key": key}), "paused_until": end}
    session.print_answer(data, f"{topic}{_key_text(key)}  paused until {end or 'it is resumed'}")


def _key_text(key: str | None) -> str:
    return "" if key is None else f"  key {key}"


@verb()
def configure(
    session: CommandSession,
    topic: TopicName,
    ttr: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Time to run, such as 30s; none: the default.", show_default=False),
    ] = None,
    max_attempts: Annotated[
        str | None,
        typer.Option(metavar="N", help="After this many attempts a job is dead; none: no limit.", show_default=False),
    ] = None,
    keep_dead: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="How long dead jobs are kept, such as 30d; none: forever.", show_default=False
        ),
    ] = None,
    rate: Rate = None,
    burst: Burst = None,
    concurrency: Concurrency = None,
    max_lateness: MaxLateness = None,
    keep_finished: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How long finished jobs and their results are kept, such as 1d; none: not at all.",
            show_default=False,
        ),
    ] = None,
    max_pending: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="How many jobs may wait before adds are refused; none removes the limit.",
            show_default=False,
        ),
    ] = None,
    max_pending_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="How many bytes their bodies may have together; none removes the limit.",
            show_default=False,
        ),
    ] = None,
    key_concurrency: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="How many jobs of a key may be reserved at a time; none removes the limit.",
            show_default=False,
        ),
    ] = None,
    key_rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATE", help="Jobs of a key in a time, such as 5/s; none removes the limit.", show_default=False
        ),
    ] = None,
    fair: Annotated[
        bool | None,
        typer.Option("--fair/--no-fair", help="Keys take turns, one job each.", show_default=False),
    ] = None,
    retry_holds_key: Annotated[
        bool | None,
        typer.Option(
            "--retry-holds-key/--no-retry-holds-key",
            help="While a job waits for a retry, no other of its key begins.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Changes the settings of a topic, for all workers and at once; without options it shows them."""
    given = _settings(ttr=ttr, max_attempts=max_attempts, keep_dead=keep_dead, rate=rate, max_lateness=max_lateness)
    given |= _settings(burst=burst, concurrency=concurrency, keep_finished=keep_finished)
    given |= _settings(max_pending=max_pending, max_pending_bytes=max_pending_bytes)
    given |= _settings(key_concurrency=key_concurrency, key_rate=key_rate)
    if fair is not None:
        given["fair"] = fair
    if retry_holds_key is not None:
        given["retry_holds_key"] = retry_holds_key
    data = output.settings_data(session.topic(topic).configure(**given))
    session.print_answer({"topic": topic, **data}, f"{topic}  {_settings_text(data)}")


def _settings(**settings: str | None) -> dict[str, Any]:
    """The options that were given, as ``configure`` takes them: ``none`` is None, digits are a number."""
    return {
        name: None if word == NO_LIMIT else int(word) if word.isdecimal() and name in NUMBERS else word
        for name, word in settings.items()
        if word is not None
    }


def _span(ms: int) -> str:
    return output.span_text(timedelta(milliseconds=ms))


def _settings_text(data: dict[str, Any]) -> str:
    """``ttr 1m  max attempts 20  keep dead 30d  no limits``"""
    attempts, keep = data["max_attempts"] or NO_LIMIT, data["keep_dead_ms"]
    kept = "forever" if keep is None else _span(keep)
    if (history := data["keep_finished_ms"]) is not None:
        kept += f"  keep finished {_span(history)}"
    return f"ttr {_span(data['ttr_ms'])}  max attempts {attempts}  keep dead {kept}  {_limits_text(data)}"


def _limits_text(data: dict[str, Any]) -> str:
    shown = {
        **data,
        "max_lateness_ms": None if (late := data["max_lateness_ms"]) is None else _span(late),
    }
    parts = [
        f"{name.removesuffix('_ms').replace('_', ' ')} {shown[name]}" for name in LIMITS if shown[name] is not None
    ]
    parts += [name.replace("_", " ") for name in ("fair", "retry_holds_key") if data[name]]
    return "  ".join(parts) or "no limits"


@verb()
def resume(session: CommandSession, topic: TopicName, key: OneKey = None) -> None:
    """Resumes a paused topic, or a paused key of it."""
    session.topic(topic).resume(key=key)
    data: dict[str, Any] = {"topic": topic, **({} if key is None else {"key": key}), "paused_until": None}
    session.print_answer(data, f"{topic}{_key_text(key)}  goes on")


def check_with_progress(topic: Topic[Any]) -> CheckReport:
    """Checks a topic, with a progress bar."""
    perform(topic, server_verbs(topic).partitions())

    def total() -> int:  # of jobs, of their runs, and of reservations, if all is well
        now = topic.stats()
        return now.delayed + now.ready + 3 * now.reserved + 2 * now.dead + now.retrying

    with progress(f"{topic.name}: checking", total) as advance:

        def on_answer(request: Any, step: Any) -> None:
            if getattr(getattr(request, "script", None), "name", "") == "topic/check":
                advance(step[1])

        return perform(topic, server_verbs(topic).check(), on_answer=on_answer)


def count_leaving(topic: Topic[Any]) -> tuple[int, int]:
    """How many jobs and schedules an unfinished ``migrate`` has taken from this topic and not yet put into the other."""
    from tarry.internal import gather

    found = perform(topic, gather(part.count_leaving() for part in perform(topic, server_verbs(topic).partitions())))
    return sum(jobs for jobs, _ in found), sum(schedules for _, schedules in found)


def continue_hint(jobs: int, schedules: int) -> str:
    """A note about an unfinished migrate; empty without one."""
    if not jobs and not schedules:
        return ""
    some = [output.count_text(n, what) for n, what in ((jobs, "job"), (schedules, "schedule")) if n]
    moving = " and ".join(some) + (" is on its way" if jobs + schedules == 1 else " are on their way")
    return (
        f"{moving} to another topic: a migrate is running, or was interrupted; run the same migrate again to continue"
    )


@verb()
def check(session: CommandSession, topics: TopicNames) -> None:
    """Checks whole topics: whether every job is in exactly one state. Exits with 1 if one is not."""
    ok = True
    for name in topics:
        found = check_with_progress(session.known_topic(name))
        ok = ok and found.ok
        hint = continue_hint(found.leaving, found.schedules_leaving)
        text = "" if found.faults else "all well"
        answer = {
            "topic": name,
            "looked_at": found.looked_at,
            "ok": found.ok,
            "faults": found.faults,
            "leaving": found.leaving,
            "schedules_leaving": found.schedules_leaving,
        }
        session.print_answer(
            answer, f"{name}  {found.looked_at} entries looked at, {text}", *found.faults, *([hint] if hint else [])
        )
    if not ok:
        raise typer.Exit(1)
