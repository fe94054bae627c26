"""Prints the interface of ``tarry.django``, for ``docs/interface.txt``: settings, and the commands of ``manage.py``."""

from __future__ import annotations

import inspect
from argparse import ArgumentParser
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from django.conf import settings

import tarry
from interface_of_python import type_text, value_text


def lines() -> Iterator[str]:
    """The keys of ``settings.TARRY``, each an argument of ``tarry.Worker``; the commands with their options."""
    worker = inspect.signature(tarry.Worker).parameters
    for name in sorted(import_module("tarry.django.project").SETTINGS):
        yield f'settings.TARRY["{name}"]: {type_text(worker[name.lower()].annotation)}'
    for path in sorted((Path(tarry.__path__[0]) / "django" / "management" / "commands").glob("[a-z]*.py")):
        parser = ArgumentParser(add_help=False)
        import_module(f"tarry.django.management.commands.{path.stem}").Command().add_arguments(parser)
        yield f"manage.py {path.stem}"
        for action in sorted(parser._actions, key=lambda one: one.dest):  # noqa: SLF001  # argparse has no public name for it
            kind = "bool" if action.nargs == 0 else getattr(action.type, "__name__", "str")
            choices = f", {' or '.join(map(str, action.choices))}" if action.choices else ""
            default = "" if action.default is None else f" = {value_text(action.default)}"
            yield f"manage.py {path.stem} {'/'.join(action.option_strings) or action.dest}: {kind}{default}{choices}"


if __name__ == "__main__":
    settings.configure(TARRY={})
    print(*lines(), sep="\n")
