"""Prints the interface of ``tarry.django``, for ``docs/interface.txt``: settings, and the commands of ``manage.py``."""

from __future__ import annotations

import inspect
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from django.conf import settings

import tarry
from interface_of_python import type_text, value_text

FOLDER = Path(tarry.__path__[0]) / "django" / "management" / "commands"
COMMANDS = sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))


def lines() -> Iterator[str]:
    """The keys of ``settings.TARRY``, each an argument of ``tarry.Worker``; the commands with their options."""
    worker = inspect.signature(tarry.Worker).parameters
    for name in sorted(import_module("tarry.django.project").SETTINGS):
        yield f'settings.TARRY["{name}"]: {type_text(worker[name.lower()].annotation)}'
    for command in COMMANDS:
        parser = ArgumentParser(add_help=False)
        import_module(f"tarry.django.management.commands.{command}").Command().add_arguments(parser)
        yield f"manage.py {command}"
        for action in sorted(parser._actions, key=lambda one: one.dest):  # noqa: SLF001  # argparse has no public name for it
            kind = "bool" if action.nargs == 0 else getattr(action.type, "__name__", "str")
            choices = f", {' or '.join(map(str, action.choices))}" if action.choices else ""
            default = "" if action.default is None else f" = {value_text(action.default)}"
            yield f"manage.py {command} {'/'.join(action.option_strings) or action.dest}: {kind}{default}{choices}"


def options() -> Iterator[str]:
    """The options of the commands with what their ``--help`` says, in its order."""
    for command in COMMANDS:
        parser = ArgumentParser(add_help=False)
        import_module(f"tarry.django.management.commands.{command}").Command().add_arguments(parser)
        for action in parser._actions:  # noqa: SLF001  # argparse has no public name for it
            yield f"{command}\t{'/'.join(action.option_strings) or action.dest}\t{action.help}"


if __name__ == "__main__":
    settings.configure(TARRY={})
    print(*(options() if sys.argv[1:] == ["options"] else lines()), sep="\n")
