"""Actions on jobs and topics. Jobs are selected by their ids, or by a filter: a state, a window of due times, and a search.

A filter is processed in rounds of at most ROUND_SIZE jobs; the note says how many are left. If a round fails halfway, every
job is either unchanged or done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tarry import JobInfo, Reservation, Stats
from tarry.errors import BadInput, StaleReceipt
from tarry.internal import JobSearch, perform, server_verbs
from tarry.programs.dashboard import filters
from tarry.programs.dashboard.forms import ActionPlan, Form
from tarry.programs.dashboard.lifecycle import JOB_ACTIONS, actions_for, is_allowed, states_for
from tarry.programs.dashboard.page_request import STATES, PageRequest, parse_moment, parse_state, search_of, view_known
from tarry.programs.dashboard.sections import Action
from tarry.types import State, StateFilter

ROUND_SIZE, STEP, SEARCH_S = 10_000, 500, 20.0
REASON = "buried from the dashboard"


@dataclass(frozen=True, slots=True)
class Filter:
    """The state, the window and the search of a form."""

    state: StateFilter | None
    after: datetime | None
    before: datetime | None
    stats: Stats
    search: JobSearch

    @property
    def has_window(self) -> bool:
        return self.after is not None or self.before is not None

    def __str__(self) -> str:
        parts = ["matching" if self.search.given() else "", self.state or "", "jobs"]
        if self.after is not None:
            parts.append(f"due from {filters.iso(self.after)}")
        if self.before is not None:
            parts.append(f"due before {filters.iso(self.before)}")
        return " ".join(part for part in parts if part)


def _topic(visit: PageRequest, form: Form) -> Any:
    return visit.client.topic(form.value("topic"))


async def _filter(visit: PageRequest, form: Form, action: str) -> Filter:
    topic = _topic(visit, form)
    stats = await perform(topic, server_verbs(topic).stats())
    possible = states_for(action)
    state = parse_state(form.value("state"))
    if state is None and len(possible) == 1:
        state = possible[0]
    if state is not None and action not in actions_for(state):
        raise BadInput(
            f"{JOB_ACTIONS[action].word}: not possible for {state} jobs; only for {' and '.join(possible)} ones."
        )
    after, before = (parse_moment(form.value(name), stats.now, name) for name in ("after", "before"))
    search = search_of(form.value)
    search.check(state)
    return Filter(state, after, before, stats, search)


async def _count(visit: PageRequest, form: Form, chosen: Filter, action: str) -> int:
    """How many jobs a filter matches; of a search at most as many as one round takes."""
    if chosen.search.given():
        return len((await _first(_topic(visit, form), chosen, action))[0])
    if not chosen.has_window:
        return sum(getattr(chosen.stats, state) for state in ([chosen.state] if chosen.state else STATES))
    verbs = server_verbs(_topic(visit, form))
    return await perform(
        visit.client, verbs.count_due_between(chosen.stats.now, chosen.state, chosen.after, chosen.before)
    )


async def _known(visit: PageRequest, form: Form) -> list[JobInfo[Any]]:
    topic = _topic(visit, form)
    found = await perform(
        topic, server_verbs(topic).get(form.ids)
    )  # not run_view, which may read from a replica: the action depends on it
    return [job for job in found if job is not None]


def _due(form: Form) -> dict[str, Any]:
    """The new due time of a form. Raises ``BadInput``."""
    if form.value("delay"):
        return {"delay": form.value("delay")}
    at = form.value("at")
    if not at:
        raise BadInput("reschedule: give a time, such as 10m or 2026-02-03T04:05:06Z.")
    try:
        when = datetime.fromisoformat(at)
    except ValueError:
        raise BadInput(f"at: {at[:40]!r} is not a date and time; write it as in 2026-02-03T04:05:06Z.") from None
    return {"at": when}


def _plans(action: str) -> Callable[[PageRequest, Form], Awaitable[ActionPlan]]:
    word = JOB_ACTIONS[action].word

    async def plan(visit: PageRequest, form: Form) -> ActionPlan:
        if action == "reschedule":
            _due(form)
        name = filters.plain(form.value("topic"))
        if form.value("all"):
            chosen = await _filter(visit, form, action)
            n = await _count(visit, form, chosen, action)
            note = ", ".join(f"{part}: {filters.plain(text)}" for part, text in chosen.search.given().items())
            if n > ROUND_SIZE and (action == "reschedule" or chosen.has_window):
                note = f"Only the first {ROUND_SIZE:,} are done now; the answer says how many are left."
            if action == "reschedule" and n > ROUND_SIZE:
                raise BadInput(f"reschedule: {n:,} jobs; choose a time window with at most {ROUND_SIZE:,}.")
            says = f"{word.capitalize()} all {n:,} {chosen} of {name}?" if n else f"There are no {chosen} in {name}."
            whole = action == "delete" and chosen.state is None and not chosen.has_window and not chosen.search.given()
            button = f"{word.capitalize()} {filters.jobs(n)}"
            typed = form.value("topic") if whole else ""
            return ActionPlan(says, button, note, many=True, nothing_to_do=not n, typed=typed)
        if not form.ids:
            return ActionPlan("No job is selected.", "", nothing_to_do=True)
        jobs = await _known(visit, form)
        fit = [job for job in jobs if is_allowed(job.state, action)]
        if not fit:
            gone = len(form.ids) - len(jobs)
            done = JOB_ACTIONS[action].done
            their = "The job" if len(form.ids) == 1 else f"None of the {len(form.ids)} jobs"
            why = "no longer exists" if gone == len(form.ids) else f"is {jobs[0].state}, and cannot be {done}"
            why = why if len(form.ids) == 1 else f"can be {done}: they are in other states, or no longer exist"
            return ActionPlan(f"Nothing was done. {their} {why}.", "", nothing_to_do=True)
        which = f"{filters.jobs(len(fit))} of {name}" if len(form.ids) > 1 else f"{filters.plain(fit[0].id)} of {name}"
        return ActionPlan(
            f"{word.capitalize()} {which}?",
            f"{word.capitalize()} {filters.jobs(len(fit))}",
            _rest(form, jobs, fit, action),
            len(form.ids) > 1,
        )

    return plan


def _rest(form: Form, jobs: list[JobInfo[Any]], fit: list[JobInfo[Any]], action: str) -> str:
    notes = []
    if len(jobs) < len(form.ids):
        notes.append(f"{len(form.ids) - len(jobs)} of the selected jobs no longer exist.")
    if len(fit) < len(jobs):
        states = sorted({job.state for job in jobs if not is_allowed(job.state, action)})
        notes.append(f"{len(jobs) - len(fit)} are left as they are, because they are {' or '.join(states)}.")
    if action in ("delete", "bury") and any(job.state == "reserved" for job in fit):
        done = JOB_ACTIONS[action].done
        notes.append(f"A job that is running is not stopped. Its worker is told at the end that the job was {done}.")
    if action == "cancel":
        notes.append(
            "The job will be deleted. If it is running, its worker is told within half of its time to run, and cancels the handler. "
            "A handler that is not async is asked to stop, but cannot be forced to."
        )
    return " ".join(notes)


def _action(action: str) -> Callable[[PageRequest, Form], Awaitable[str]]:
    async def do(visit: PageRequest, form: Form) -> str:
        topic = _topic(visit, form)
        if not form.value("all"):
            jobs = {job.id: job.receipt for job in await _known(visit, form) if is_allowed(job.state, action)}
            done = await _perform(topic, action, jobs, form, None)
            return _result_text(action, done)
        chosen = await _filter(visit, form, action)
        if action == "delete" and not chosen.has_window and not chosen.search.given():
            return _result_text(action, await topic.purge(chosen.state))
        jobs, has_more = await _first(topic, chosen, action)
        done = await _perform(topic, action, jobs, form, "dead" if chosen.state == "dead" else None)
        if chosen.search.given():
            return _result_text(action, done) + (" More jobs match: repeat the action." if has_more else "")
        left = await _count(visit, form, await _filter(visit, form, action), action) if action != "reschedule" else 0
        return _result_text(action, done, left)

    return do


async def _first(topic: Any, chosen: Filter, action: str) -> tuple[dict[str, int | None], bool]:
    """The ids and receipts of the first jobs that match a filter, and whether there may be more.

    A search ends after SEARCH_S. Jobs that died after it began are not among them: one that was kicked may die again.
    """
    found: dict[str, int | None] = {}
    loop, cursor = asyncio.get_running_loop(), None
    until = loop.time() + SEARCH_S
    while len(found) < ROUND_SIZE:
        page = await topic.list(
            chosen.state,
            due_after=chosen.after,
            due_before=chosen.before,
            **chosen.search.given(),
            limit=min(STEP, ROUND_SIZE - len(found)),
            cursor=cursor,
        )
        found.update({job.id: job.receipt for job in page if is_allowed(job.state, action) and _was_there(job, chosen)})
        cursor = page.cursor
        if cursor is None or (chosen.search.given() and loop.time() > until):
            break
    return found, cursor is not None


def _was_there(job: JobInfo[Any], chosen: Filter) -> bool:
    return job.died is None or job.died <= chosen.stats.now


async def _perform(topic: Any, action: str, jobs: Mapping[str, int | None], form: Form, state: State | None) -> int:
    """``jobs``: ids and receipts; ``state``: only jobs in this one are deleted."""
    done = 0
    for at in range(0, len(jobs), STEP):
        ids = list(jobs)[at : at + STEP]
        if action == "bury":
            done += await _bury(topic, {id: jobs[id] for id in ids}, form.value("reason") or REASON)
        elif action == "kick":
            done += (await topic.kick_many(ids)).count("dead")
        elif action in ("delete", "cancel"):
            found = await topic.delete_many(ids, running=action == "cancel", state=state)
            done += sum(was is not None and state in (None, was) for was in found)
        else:
            when = {"delay": 0} if action == "run-now" else _due(form)
            states = await topic.reschedule_many(ids, **when)
            done += sum(state in ("delayed", "ready") for state in states)
    return done


async def _bury(topic: Any, jobs: Mapping[str, int | None], reason: str) -> int:
    """Buries jobs by the receipts that were read: a job that was handed out again meanwhile stays with its holder."""
    held = [Reservation(id, receipt) for id, receipt in jobs.items() if receipt is not None]
    try:
        await topic.bury_many(held, reason=reason)
    except StaleReceipt as fault:
        return len(held) - len(fault.reasons)
    return len(held)


def _result_text(action: str, done: int, left: int = 0) -> str:
    text = f"{filters.jobs(done)} {JOB_ACTIONS[action].done}."
    if not done:
        text = "Nothing was done: the jobs had changed state in the meantime."
    return text + (f" {left:,} are left. Repeat the action for the next {ROUND_SIZE:,}." if left else "")


# ── whole topics ───────────────────────────────────────────────────────────────────────────────────────────────


def _topic_or_key(form: Form, word: str = "key") -> str:
    key, topic = form.values.get("key", ""), filters.plain(form.value("topic"))
    return f"{word} {filters.plain(key)} of {topic}" if key else topic


async def _plan_pause(_: PageRequest, form: Form) -> ActionPlan:
    return ActionPlan(f"Pause {_topic_or_key(form)}?", "Pause")


async def _pause(visit: PageRequest, form: Form) -> str:
    topic = _topic(visit, form)
    until = await topic.pause(form.value("duration") or None, key=form.values.get("key") or None)
    return (
        f"{_topic_or_key(form, 'Key')} is paused {'until ' + filters.iso(until) if until else 'until it is resumed'}."
    )


async def _plan_resume(_: PageRequest, form: Form) -> ActionPlan:
    return ActionPlan(f"Resume {_topic_or_key(form)}?", "Resume")


async def _resume(visit: PageRequest, form: Form) -> str:
    topic = _topic(visit, form)
    await topic.resume(key=form.values.get("key") or None)
    return f"{_topic_or_key(form, 'Key')} is resumed."


async def _plan_purge(visit: PageRequest, form: Form) -> ActionPlan:
    topic = _topic(visit, form)
    stats = await view_known(topic, topic.stats())
    n = sum(getattr(stats, state) for state in STATES)
    parts = ", ".join(f"{getattr(stats, state):,} {state}" for state in STATES if getattr(stats, state))
    says = (
        f"Delete everything in {filters.plain(topic.name)}: {filters.jobs(n)} ({parts})?"
        if n
        else "The topic is already empty."
    )
    button, note = f"Delete {filters.jobs(n)}", "This cannot be undone."
    return ActionPlan(says, button, note, many=True, nothing_to_do=not n, typed=topic.name)


async def _purge(visit: PageRequest, form: Form) -> str:
    return f"{filters.jobs(await _topic(visit, form).purge())} deleted."


ACTIONS = (
    *[
        Action(name, action.word.capitalize(), _plans(name), _action(name), destroys=action.destroys)
        for name, action in JOB_ACTIONS.items()
    ],
    Action("pause", "Pause", _plan_pause, _pause),
    Action("resume", "Resume", _plan_resume, _resume),
    Action("purge", "Delete everything", _plan_purge, _purge, destroys=True),
)
