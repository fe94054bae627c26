"""``--help``: the commands of decision 0089, and how it prints arguments and options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cli_in_process import COMMAND, call_tarry
from walked import cases

LIST = Path(__file__).parents[2] / "docs" / "decisions" / "0089-one-name-for-one-thing.md"


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")
        elif not command.hidden:
            yield before + name, command


COMMANDS = dict(commands(COMMAND))


def table() -> Iterator[str]:
    """The cells of the first table below "The command line", each with its noun: ``schedule get TOPIC ID``."""
    text = LIST.read_text(encoding="utf-8").partition("## The command line")[2].partition("| old | new | why |")[0]
    head, _, *rows = [line for line in text.splitlines() if line.startswith("|")]
    assert "`stats`" in head
    for row in rows:
        noun, *cells = [cell.strip() for cell in row.strip("|").split("|")]
        before = noun.strip("`") + " " if noun.startswith("`") else ""
        yield from (before + words for cell in cells for words in re.findall("`(.*?)`", cell))


def help_of(name: str) -> str:
    done = call_tarry([*name.split(), "--help"])
    assert done.exit_code == 0
    return done.output


def name_in(words: str) -> str:
    return " ".join(word for word in words.split() if word == word.lower())


@cases("words", [*table()])
def test_a_command_of_the_list_is_there_with_its_arguments(words: str) -> None:
    name = name_in(words)
    usage = " ".join(help_of(name).partition("\n\n")[0].split())
    arguments = words.removeprefix(name).strip()
    if arguments:
        shown = re.sub(r"\[(\w+)…\]", r"[\1]...", arguments).replace("…", "...")
        assert usage.endswith(f" {name} [OPTIONS] {shown}")
    assert f" {name} [OPTIONS]" in usage


def test_every_command_is_in_the_list() -> None:
    assert {name_in(words) for words in table()} == COMMANDS.keys()


@cases("name", [*COMMANDS])
def test_arguments_and_options_have_upper_case_names_and_brackets_once(name: str) -> None:
    shown = help_of(name)
    assert not re.search(r"<\w|\{\w|\[\[", shown), shown  # <str>, {TOPIC}, [[ID...]]; not 1<=x, {"body": …}
    for one in COMMANDS[name].params:
        if one.param_type_name == "argument" or not one.is_flag:
            assert one.metavar, one.name
            assert one.metavar == one.metavar.upper()
