"""All verbs, by the modules that hold them; ``--help`` lists them in this order."""

from __future__ import annotations

from tarry.programs.cli import shows
from tarry.programs.cli.register import app

__all__ = ["app", "shows"]
