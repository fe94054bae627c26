"""All commands; their modules are those of ``commands.MODULES``, in the order of ``--help``."""

from __future__ import annotations

from importlib import import_module

from tarry.programs.cli.commands import MODULES, app

__all__ = ["app"]

for _module in MODULES:
    import_module(_module)
