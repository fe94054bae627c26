"""How much imaginary time a run lived through, in its last lines.

lived through 31 years 12 days of imaginary time
"""

from __future__ import annotations

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
def pytest_process_ends() -> int:
    """One of several processes that tests run in tells how much it lived through."""
    return lived_us()


@pytest.hookimpl(optionalhook=True)
def pytest_process_ended(told: int) -> None:
    """The first process hears of it."""
    _elsewhere.append(told)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lived = lived_us() + sum(_elsewhere)
    if lived:
        terminalreporter.write_line(f"lived through {text(lived)} of imaginary time")
