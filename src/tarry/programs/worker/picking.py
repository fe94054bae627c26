"""Which function a job is for: a topic's handler, or the task that the job names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tarry.errors import BodyError
from tarry.programs.worker.registry import Route
from tarry.programs.worker.settling import Settler
from tarry.programs.worker.targets import Target, built
from tarry.programs.worker.tasks import envelope
from tarry.verbs.jobs.models import HandedOut


def picker(route: Route, settler: Settler) -> Callable[[HandedOut[Any]], Target] | Target:
    """The one target of a topic, or a function that finds the task of a job."""
    if route.handler is not None:
        return _complete(route.handler, settler)
    tasks = {name: _complete(target, settler) for name, target in route.tasks.items()}

    def pick(job: HandedOut[Any]) -> Target:
        try:
            named = envelope(job).task
        except BodyError as fault:
            return _refusing(fault)
        return tasks.get(named) or _refusing(BodyError(f"unknown task {named!r}; {route.topic} has {', '.join(tasks)}"))

    return pick


def _complete(target: Target, settler: Settler) -> Target:
    if target.is_async:
        return built(target, lambda job, fault: settler.settle(job, target, fault))
    return built(target, lambda job, fault: settler.settle_here(job, target, fault))


def _refusing(fault: BodyError) -> Target:
    async def refuse(_: HandedOut[Any]) -> None:
        raise fault

    return Target("no task", True, refuse)
