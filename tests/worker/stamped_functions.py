"""The functions of stamped_app.py: a module that does not know its worker."""

from __future__ import annotations

import tarry

registry = tarry.Registry()


@registry.task
def thank(user: str) -> None:
    """Added in a child process, and never run."""


@registry.task(run="process", topic="greetings")
def greet(user: str) -> None:
    thank.options(id=user, delay="1h").add(user)
