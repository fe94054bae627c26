"""The reference pages of the command line and of metrics, written by ``docs/generate.py`` from the programs themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple

import typer

import interface_of_programs as programs
import interface_of_python as python
from page_parts import markdown
from reference_of_python import cells, page_of_names
from tarry.programs.cli.commands import SECTIONS, app, load_commands

COMMANDS = """\
Every command, as `tarry COMMAND --help` describes it. How to [use the command line](../how-to/use-the-command-line.md);
[exit codes](settings.md#exit-codes-of-the-command-line); [environment](settings.md#environment).
"""
METRICS = """\
What `tarry serve` answers at `/metrics`, for Prometheus. [Alerts](../production/alerts.md) says which to watch.
"""


class Command(NamedTuple):
    """A command: what one types, Typer's object, and the types of its parameters."""

    path: str
    made: Any
    section: str


def all_commands() -> list[Command]:
    """In the order of ``--help``; groups of commands are left out, for nobody runs one."""
    load_commands(["--help"])
    root: Any = typer.main.get_command(app)
    found = [Command("tarry", root, "Of every command")]
    for section, names in SECTIONS.items():
        for name in names.split():
            found += _commands_below(f"tarry {name}", root.commands[name], section)
    return found


def _commands_below(path: str, made: Any, section: str) -> Iterator[Command]:
    inner = getattr(made, "commands", None)
    if inner is None:
        yield Command(path, made, section)
        return
    for name, one in inner.items():
        if not one.hidden:
            yield from _commands_below(f"{path} {name}", one, section)


def command_line_page() -> str:
    """Each command with what it does, its arguments and options, and an example."""
    root, *commands = all_commands()
    shared = {str(one.opts) for one in root.made.params}
    parts = ["# The command line\n", COMMANDS]
    parts += [*_section(root, set())]
    section = ""
    for one in commands:
        if one.section != section:
            section = one.section
            parts.append(f"## {section}\n")
        parts += _section(one, shared)
    return "\n".join(parts)


def _section(one: Command, shared: set[str]) -> Iterator[str]:
    yield f"{'##' if one.path == 'tarry' else '###'} `{one.path}`\n"
    arguments = [each for each in one.made.params if each.param_type_name == "argument"]
    if arguments:
        usage = " ".join([one.path, *(programs.metavar_of(each) for each in arguments)])
        yield f"```text\n{usage}\n```\n"
    yield f"{markdown(_plain(one.made.help))}\n"
    told = [each for each in one.made.params if str(each.opts) not in shared and not getattr(each, "hidden", False)]
    rows = [
        f"| `{_name(each)}` | {_words(each)} |\n"
        for each in told
        if each.name not in ("help", "install_completion", "show_completion")
    ]
    if rows:
        yield "| | |\n|---|---|\n" + "".join(rows)
    yield from (str(cell) for cell in cells("command-line").get(one.path, ()))


def _name(one: Any) -> str:
    if one.param_type_name == "argument":
        return programs.metavar_of(one)
    names = ", ".join([*sorted(one.opts, reverse=True), *one.secondary_opts])
    return f"{names} {one.metavar}" if one.metavar else names


def _words(one: Any) -> str:
    default = one.default
    shown = default is not None and default is not False and not callable(default) and default not in ("", (), [])
    required = "Required. " if one.required and one.param_type_name == "option" else ""
    return (required + _plain(one.help or "") + (f" Default: `{default}`." if shown else "")).replace("|", "\\|")


def _plain(text: str) -> str:
    """Without the marks that Typer takes out."""
    return text.replace("\b", "").strip()


def metrics_page() -> str:
    """A table of all metrics, as they are scraped."""
    rows = [
        f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels)} | {markdown(told)} |\n"
        for name, kind, labels, told in sorted(programs.described_metrics())
    ]
    table = "| metric | type | labels | meaning |\n|---|---|---|---|\n" + "".join(rows)
    return "\n".join(["# Metrics\n", METRICS, table, *(str(cell) for cell in cells("metrics").get("metrics", ()))])


def tests_page() -> str:
    """The names of ``tarry.testing``, and the fixtures of the pytest plugin."""
    told: dict[str, str] = {}
    for module in python.plugins():
        functions = [
            one for one in python.tree_of(module).body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        told |= {one.name: ast.get_docstring(one) or "" for one in functions}
    rows = ""
    for line in python.fixtures():
        name, _, kind = line.partition(": ")
        rows += f"| `{name}` | `{kind.partition(', ')[0]}` | {markdown(' '.join(told[name].split()))} |\n"
    table = f"| fixture | type | meaning |\n|---|---|---|\n{rows}"
    return "\n".join([page_of_names("testing"), f"## Fixtures\n\n{table}", *map(str, cells("testing")["fixtures"])])


def integrations_page() -> str:
    """The names of the modules of extras, and the commands of ``manage.py``."""
    rows = [line.split("\t") for line in programs.of_django("options")]
    table = "".join(f"| `{command}` | `{option}` | {markdown(told)} |\n" for command, option, told in rows)
    text = "## Commands of manage.py\n\nThe keys of `TARRY` are in the [settings](settings.md#django).\n"
    return page_of_names("integrations") + f"\n{text}\n| command | option | meaning |\n|---|---|---|\n{table}"
