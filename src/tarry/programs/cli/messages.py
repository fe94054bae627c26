"""What the library says, in the words of the command line: a verb's options by their names there.

if_exists: 'x' is unknown; …                        --if-exists: 'x' is unknown; …
give another id, or if_exists="keep" or "replace"   give another id, or --if-exists keep or replace
a whole number from 1 to 999,999, or None           a whole number from 1 to 999,999, or none
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from inspect import Parameter
from typing import get_args

from typer.models import ArgumentInfo, OptionInfo

from tarry.errors import BadInput

_LEAD = re.compile(r"((?:\w+(?:, | and ))*\w+):")
_GIVEN = re.compile(r'\b(\w+)=("[\w-]+"(?:(?:,| or|, or) "[\w-]+")*)?')
_NONE = re.compile(r"\bNone\b")


def in_cli_words(parameters: Iterable[Parameter], message: str) -> str:
    """A refusal of the library as the command line says it."""
    names = _names(parameters)
    lead = _LEAD.match(message)
    if lead is not None:
        message = re.sub(r"\w+", lambda word: names.get(word[0], word[0]), lead[0]) + message[lead.end() :]

    def option(given: re.Match[str]) -> str:
        if given[1] not in names:
            return given[0]
        return f"{names[given[1]]} {given[2]}".replace('"', "") if given[2] else names[given[1]]

    return _NONE.sub("none", _GIVEN.sub(option, message))


@contextmanager
def renamed_parameters(**names: str) -> Generator[None]:
    """For what a verb hands to the library under another name: ``renamed_parameters(url="to_url")``."""
    try:
        yield
    except BadInput as fault:
        name, colon, rest = str(fault).partition(":")
        fault.args = (names.get(name, name) + colon + rest,)
        raise


def _names(parameters: Iterable[Parameter]) -> dict[str, str]:
    """What the library calls a thing, and what the verb does: ``if_exists``, ``--if-exists``; ``lock``, ``LOCK``."""
    found: dict[str, str] = {}
    for parameter in parameters:
        for told in get_args(parameter.annotation)[1:]:
            if isinstance(told, (OptionInfo, ArgumentInfo)):
                shown = _option(parameter, told) if isinstance(told, OptionInfo) else _argument(parameter, told)
                plain = (told.metavar or parameter.name).strip("[].").lower()
                one = parameter.name.removesuffix("s")
                for name in (parameter.name, one, one + "s", plain):
                    found.setdefault(name, shown)
    return found


def _option(parameter: Parameter, told: OptionInfo) -> str:
    given = [told.default] if isinstance(told.default, str) else []  # where Option has the first flag in an annotation
    flags = [*given, *(told.param_decls or ())] or ["--" + parameter.name.replace("_", "-")]
    return next((flag for flag in flags if flag.startswith("--")), flags[0])


def _argument(parameter: Parameter, told: ArgumentInfo) -> str:
    return (told.metavar or parameter.name.upper()).strip("[].")
