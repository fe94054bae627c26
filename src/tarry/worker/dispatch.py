"""Finds the function for a job: the topic's handler, or the task that the job names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tarry.errors import BodyError
from tarry.verbs.jobs.job_values import BaseJob
from tarry.worker.process_pool import ProcessPool
from tarry.worker.registry import TopicRoute
from tarry.worker.settler import Settler
from tarry.worker.targets import Target, with_middleware
from tarry.worker.tasks import parse_envelope
from tarry.worker.unknown_tasks import UnknownTasks
from tarry.worker.verdicts import Policy, PolicyLike, check_policy


def target_for(
    route: TopicRoute, settler: Settler, processes: ProcessPool | None = None, die_after_us: int | None = None
) -> Callable[[BaseJob[Any]], Target] | Target:
    """The target of a topic with one handler; for a topic of tasks, a function that returns the target for a job."""
    if route.handler is not None:
        return _with_settler(route.handler, settler, processes)
    unknown = UnknownTasks(settler, die_after_us)
    settler.unknown_lines, settler.unknown_names = unknown.lines, unknown.names
    retry = next((target.retry for target in route.tasks.values() if _maps_body_error(target.retry)), None)
    tasks = {name: _with_settler(target, settler, processes) for name, target in route.tasks.items()}

    def pick(job: BaseJob[Any]) -> Target:
        try:
            named = parse_envelope(job).task
        except BodyError as fault:
            return _refusing_target(fault, retry)
        known = tasks.get(named)
        if known is not None:
            return known
        if retry is not None:
            unknown_task = BodyError(f"unknown task {named!r}; {route.topic} has {', '.join(tasks)}")
            return _refusing_target(unknown_task, retry)
        return Target("no task", True, lambda job: unknown.put_back(job, named))

    return pick


def _maps_body_error(retry: Policy) -> bool:
    """Whether a task was registered with a map that names ``BodyError``. It holds for unknown tasks of its topic too."""
    return isinstance(retry, Mapping) and BodyError in retry


def _with_settler(target: Target, settler: Settler, processes: ProcessPool | None) -> Target:
    if target.process is not None and processes is not None:
        wants_result = bool(target.middleware) or target.keep_finished is not None
        target = replace(target, call=processes.bind(target, lambda: wants_result or settler.topic.keeps_finished))
    if target.is_async:
        return with_middleware(target, lambda job, fault: settler.settle(job, target, fault))
    return with_middleware(target, lambda job, fault: settler.settle_blocking(job, target, fault), settler.overruns)


def _refusing_target(fault: BodyError, retry: PolicyLike | None) -> Target:
    async def refuse(_: BaseJob[Any]) -> None:
        raise fault

    return Target("no task", True, refuse, retry=check_policy(retry))
