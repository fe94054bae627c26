"""A verb on a connection that breaks: the state before it, the verb, and the checks after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from faults.any_client import AnyClient
from faults.proxy import DONE
from tarry.clients.config import server_verbs
from tarry.clients.testing import Clock

PATIENT, QUIET_S = 30, 0.25
TTR = "60s"


@dataclass
class Scenario:
    """One verb on a line that breaks. ``say`` performs it there; ``at`` looks from the side."""

    any_client: AnyClient
    topic: Any
    at: Any
    clock: Clock
    cut: str

    def perform(self, verb: str, *given: Any, **named: Any) -> Any:
        return self.any_client.call(self.topic, verb, *given, **named)

    def run(self, verb: str, *given: Any) -> Any:
        """Performs a verb that no handle offers."""
        return self.run_call(getattr(server_verbs(self.topic), verb)(*given))

    def run_call(self, call: Any) -> Any:
        return self.any_client.call(self.topic.engine, "run", call)

    @property
    def done(self) -> bool:
        return self.cut in DONE


VERBS: dict[str, Callable[[Scenario], Iterator[None]]] = {}


def verb(story: Callable[[Scenario], Iterator[None]]) -> Callable[[Scenario], Iterator[None]]:
    """What is before ``yield`` goes over a sound line, the first script after it meets the fault."""
    VERBS[story.__name__] = story
    return story


def counts(scenario: Scenario) -> tuple[int, int, int, int]:
    stats = scenario.at.stats()
    return stats.delayed, stats.ready, stats.reserved, stats.dead


def held(scenario: Scenario, n: int = 1) -> list[Any]:
    scenario.at.add_many([f"job {i}" for i in range(n)])
    jobs: list[Any] = scenario.perform("pop_many", n, ttr=TTR)
    return jobs
