"""How much imaginary time a run lived through, in its last lines.

lived through 31 years 12 days of imaginary time
"""

from __future__ import annotations

from typing import Any

import pytest

from tarry.clients import testing
from tarry.values.durations import DAY, as_text

_clocks: list[testing.Clock] = []
_elsewhere: list[int] = []
YEAR = 365 * DAY


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Every clock of the run is remembered when it is made."""
    make = testing.Clock.__init__

    def remember(self: testing.Clock, *given: int, **named: int) -> None:
        make(self, *given, **named)
        _clocks.append(self)

    testing.Clock.__init__ = remember  # type: ignore[method-assign]


def text(us: int) -> str:
    years, rest = divmod(us, YEAR)
    return " ".join([f"{years} years"] * bool(years) + [as_text(rest)])


def lived_us() -> int:
    return sum(clock.elapsed_us for clock in _clocks)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """One of several processes that tests run in has ended, and told how much it lived through."""
    _elsewhere.append(getattr(node, "workeroutput", {}).get("lived_us", 0))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["lived_us"] = lived_us()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lived = lived_us() + sum(_elsewhere)
    if lived:
        terminalreporter.write_line(f"lived through {text(lived)} of imaginary time")
