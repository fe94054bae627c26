"""The interface, one thing a line: docs/interface.txt. ``docs/generate.py`` writes it, as the reference pages.

Everything is read from the objects themselves, so nothing has to be named here: the Python names from the public modules
(``interface_of_python.py``), commands, routes, metrics, settings and variables from the programs (``interface_of_programs.py``).
"""

from __future__ import annotations

import interface_of_programs as programs
import interface_of_python as python

NOTE = """\
# The interface that tarry promises, made from the code by docs/generate.py: change the code, then `make docs`.
# A commit that changes this file adds a line to CHANGELOG.md (`make lint`; CONTRIBUTING.md, "How we work").
# Left out: descriptions, the patterns and bounds of values, the messages of protocols that others define (beanstalkd, SQS), what the pages of
# the dashboard ask, and the engine and the verbs of handles, which are for tarry's own programs.
"""
PARTS = {
    "Python": python.names,
    "pytest: fixtures": python.fixtures,
    "Command line": programs.commands,
    "Django: settings and commands": programs.of_django,
    "Environment": programs.variables,
    "HTTP: routes": programs.routes,
    "HTTP: models": programs.models,
    "HTTP: the dashboard's routes and actions": programs.dashboard,
    "HTTP: SQS's routes and operations": programs.sqs,
    "Problems and statuses": programs.problems_and_statuses,
    "Metrics": programs.metrics,
}


def text() -> str:
    """The whole file."""
    parts = [f"\n## {title}\n\n" + "".join(f"{line}\n" for line in made()) for title, made in PARTS.items()]
    return NOTE + "".join(parts)
