"""Error messages of the library with the option names of the command line.

max_attempts: 0 is too small; …                   --max-attempts: 0 is too small; …
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
_GIVEN = re.compile(r'\b(\w+)=("[\w.-]+"(?:(?:,| or|, or) "[\w.-]+")*)?')
KINDS = frozenset({"duration", "time", "n", "text", "url", "name", "id", "file", "json"})
"""Metavars of options that tell what kind of value it is, and not which."""
_NONE = re.compile(r"\bNone\b")


def with_option_names(parameters: Iterable[Parameter], message: str) -> str:
    """Replaces parameter names in a message by the command's options and arguments."""
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
    """Renames the parameter at the start of a ``BadInput``, for a command that gives an option to another parameter of the
    library: ``renamed_parameters(url="to_url")``."""
    try:
        yield
    except BadInput as fault:
        name, colon, rest = str(fault).partition(":")
        fault.args = (names.get(name, name) + colon + rest,)
        raise


def _names(parameters: Iterable[Parameter]) -> dict[str, str]:
    """The library's parameter names and the command's: ``max_attempts``, ``--max-attempts``; ``lock``, ``LOCK``; ``counted``, ``--uncounted``."""
    found: dict[str, str] = {}
    for parameter in parameters:
        for info in get_args(parameter.annotation)[1:]:
            if isinstance(info, (OptionInfo, ArgumentInfo)):
                shown = _option(parameter, info) if isinstance(info, OptionInfo) else _argument(parameter, info)
                plain = (info.metavar or parameter.name).strip("[].").lower()
                if isinstance(info, OptionInfo) and plain in KINDS:
                    plain = parameter.name
                one = parameter.name.removesuffix("s")
                for name in (parameter.name, one, one + "s", plain, parameter.name.removeprefix("un")):
                    found.setdefault(name, shown)
    return found


def _option(parameter: Parameter, info: OptionInfo) -> str:
    first = [info.default] if isinstance(info.default, str) else []  # in an annotation, Option has the first flag here
    flags = [*first, *(info.param_decls or ())] or ["--" + parameter.name.replace("_", "-")]
    return next((flag for flag in flags if flag.startswith("--")), flags[0])


def _argument(parameter: Parameter, info: ArgumentInfo) -> str:
    return (info.metavar or parameter.name.upper()).strip("[].")
