"""Write the reference pages that are made from the code, and the interface (interface.py): `make docs`.

Each page is a function that returns its text; a test fails when a page in the repository is not what its function
says. A new page is a function and a line in PAGES.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

import figures
import interface
import tarry
import tree
from contract import contract_page
from life_cycle import life_cycle
from promises import promises_page
from routes import http_page
from tarry import errors
from tarry.values import keys
from tarry.verbs.jobs.precedence import LEVELS, SETTINGS, Level

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DOCS = Path(__file__).resolve().parent
NOTE = "<!-- made from the code by docs/generate.py: change the code, then `make docs` -->\n\n"
OPENING = """\
Every error that tarry raises on purpose is a `tarry.errors.TarryError`. Its message says what happened and what to do. Its `code` is
stable; programs and the service show it.
"""
DECISIONS = """\
Each record has the choice, the reason, and what was given up, in about ten lines. A decision that no longer holds is not rewritten: a
new record replaces it, and the old one names the new.
"""
KEYS = """\
Every key that tarry writes. The braces are the hash tag: all keys of a topic are in one slot of a Cluster, and so are all keys of a
`QUEUE` that is shared with Java. The number of keys does not grow with the jobs. `NAMESPACE` is `default` unless the client names
another.

You may read these keys. Change them only through tarry, because its scripts rely on one another.
"""
TOPICS = """\
`AsyncClient`, `AsyncTopic` and `AsyncJob` have the same methods, options and results, awaited. Where a method stands beside its blocking twin
in one class, as of tasks, the awaited one ends with `_async`: `task.add`, `await task.add_async`. A duration is a number of seconds, a
`timedelta`, or text such as `"10m"`, `"1h30m"`, `"PT10M"`. Failures raise an [error](errors.md) that says what to do.
"""
PRECEDENCE = """\
A setting can be given in several places. The most specific one counts: in the table, the first of the row that is given, unless a note
below says that two of them are compared. `None` is not given where it is no value: a handler cannot say that nothing is kept. The client
gives none of these; its own settings are [others](settings.md).
"""
PLACES: dict[Level, str] = {
    "attempt": "the attempt",
    "job": "the job",
    "call": "the call that adds it",
    "handler": "its handler, task or `pop`",
    "worker": "its worker",
    "topic": "its topic",
    "default": "else",
}
KEY = re.compile(r" +\S+ +(?:sorted set|set|hash|list|string)  ")
BLOCK = re.compile(r"^```text\n.*?^```\n", re.M | re.S)
PICTURE = re.compile(r"(<!-- as on (\S+): begin -->\n).*?(<!-- end -->\n)", re.S)
ATTRIBUTE = re.compile(r"((?: *#: .*\n)*) *self\.(\w+) = ")


def errors_page() -> str:
    """Every error with its code, what it is besides a TarryError, and what it carries."""
    parts = [
        "# Errors\n",
        OPENING,
        "| error | `code` | also a |\n|---|---|---|\n" + "".join(f"{row}\n" for row in _error_rows()),
    ]
    parts += [_error_section(error) for error in _errors()]
    return "\n".join(parts)


def _errors() -> Iterator[type[errors.TarryError]]:
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, errors.TarryError):
            yield value


def _error_rows() -> Iterator[str]:
    for error in _errors():
        others = [base.__name__ for base in error.__bases__ if not issubclass(base, errors.TarryError)]
        also = ", ".join(f"`{name}`" for name in others if name != "Exception")
        yield f"| [`{error.__name__}`](#{error.__name__.lower()}) | `{error.code}` | {also} |"


def _error_section(error: type[errors.TarryError]) -> str:
    text = f"## {error.__name__}\n\n{_markdown(inspect.getdoc(error) or '')}\n"
    attributes = list(_attributes(error))
    return text + ("\n" + "\n".join(attributes) + "\n" if attributes else "")


def _attributes(error: type[errors.TarryError]) -> Iterator[str]:
    """What ``__init__`` keeps, with the ``#:`` comment above it."""
    if "__init__" not in vars(error):
        return
    parameters = inspect.signature(error).parameters
    for comment, name in ATTRIBUTE.findall(inspect.getsource(error)):
        told = " ".join(line.strip().removeprefix("#: ") for line in comment.splitlines())
        kind = _markdown(str(parameters[name].annotation)) if name in parameters else ""
        yield f"- `{name}`{f' ({kind})' if kind else ''}" + (f": {_markdown(told)}" if told else "")


def _markdown(text: str) -> str:
    return text.replace("``", "`")


def keys_page() -> str:
    """The table that opens tarry.values.keys."""
    table = [re.split(r"  +", line.strip()) for line in (keys.__doc__ or "").splitlines() if KEY.match(line)]
    rows = [f"| `{key}` | {kind} | {' — '.join(told)} |\n" for key, kind, *told in table]
    return "\n".join(["# Keys\n", KEYS, "| key | type | content |\n|---|---|---|\n" + "".join(rows)])


def decisions_page() -> str:
    """The decision records, by their numbers and headings."""
    records = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    headings = {record.name: record.read_text(encoding="utf-8").partition("\n")[0] for record in records}
    lines = [f"- [{heading.removeprefix('# ')}]({name})\n" for name, heading in headings.items()]
    return "\n".join(["# Decisions\n", DECISIONS, "".join(lines)])


def topics_page() -> str:
    """What client, topic and job can, as their own words say it."""
    parts = ["# Client, topic, job\n", TOPICS]
    for kind in (
        tarry.Client,
        tarry.Topic,
        tarry.Job,
        tarry.types.BaseJob,
        tarry.JobInfo,
        tarry.NewJob,
        tarry.Schedules,
    ):
        parts.append(f"## {kind.__name__}\n\n{_prose(inspect.getdoc(kind) or '')}\n")
        for name, member in _members(kind).items():
            shown = name in dir(kind) and not name.startswith("_") and (inspect.getdoc(member) or "")
            if shown and isinstance(member, property):
                parts.append(f"### `.{name}`\n\n{_prose(shown)}\n")
            elif shown and inspect.isfunction(member):
                parts.append(f"### `{name}`\n\n```text\n{name}{_signature(member)}\n```\n\n{_prose(shown)}\n")
    return "\n".join(parts)


def _members(kind: type) -> dict[str, Any]:
    """The members of a client, with those that all clients have; of another class its own."""
    bases = kind.__mro__[::-1] if kind is tarry.Client else [kind]
    return {name: member for base in bases for name, member in vars(base).items()}


def _signature(verb: Callable[..., object]) -> str:
    """As it is called: without ``self``; a default that only says "not given" stands as an ellipsis."""
    signature = inspect.signature(verb)
    shown, keywords = [], False
    for parameter in list(signature.parameters.values())[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            keywords = True
            shown.append("*")
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        keywords = keywords or bool(star)
        text = f"{star}{parameter.name}: {str(parameter.annotation).replace(' | UnsetType', '')}"
        if parameter.default is not parameter.empty:
            text += " = " + ("…" if parameter.default is UNSET else repr(parameter.default))
        shown.append(text)
    return f"({', '.join(shown)}) -> {signature.return_annotation}"


def _prose(text: str) -> str:
    """Lines that are set in columns become a list."""
    lines = re.sub(r"\n {6,}", " ", _markdown(text)).splitlines()
    return "\n".join(f"- {re.sub(' {2,}', ' — ', line)}" if re.match(r"`\w+`  ", line) else line for line in lines)


def precedence_page() -> str:
    """Which value of a setting counts, from the rule that decides."""
    given = LEVELS[: LEVELS.index("default")]
    rows = [
        ["setting", *(PLACES[level] for level in LEVELS)],
        ["---" for _ in ("setting", *LEVELS)],
        *([f"`{one.name}`", *(one.given_by.get(level, "") for level in given), one.default_text] for one in SETTINGS),
    ]
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    notes = [f"- `{setting.name}`: {setting.note}\n" for setting in SETTINGS if setting.note]
    none = ", ".join(f"`{setting.name}`" for setting in SETTINGS if setting.takes_none)
    notes.append(f"- `None` is a value, no limit, for {none}. Elsewhere it means that none is given.\n")
    why = "[Decision 0086](../decisions/0086-who-decides.md) has the reasons.\n"
    return "\n".join(["# Which setting counts\n", PRECEDENCE, table, "".join(notes), why])


PAGES: dict[str, Callable[[], str]] = {
    "../src/tarry/lua/contract.md": contract_page,
    "decisions/README.md": decisions_page,
    "images/life-cycle.svg": life_cycle,
    "interface.txt": interface.text,
    "reference/errors.md": errors_page,
    "reference/http.md": http_page,
    "reference/keys.md": keys_page,
    "reference/precedence.md": precedence_page,
    "reference/promises.md": promises_page,
    "reference/topics.md": topics_page,
}


PARTS: dict[str, Callable[[str], str]] = {
    "../README.md": lambda page: with_pictures(figures.with_speed(page)),
    "maintainers/architecture.md": tree.with_picture,
}
"""Pages by hand with a part that is made."""


def with_pictures(text: str) -> str:
    """A page that shows the first picture in text of another one, as that has it now."""
    return PICTURE.sub(
        lambda part: part[1] + BLOCK.findall((DOCS.parent / part[2]).read_text(encoding="utf-8"))[0] + part[3], text
    )


def page(name: str) -> str:
    """The text of a page, as it must stand in the repository."""
    if name in PARTS:
        return PARTS[name]((DOCS / name).read_text(encoding="utf-8"))
    return ("" if name.endswith(".txt") else NOTE) + PAGES[name]()  # a text has a note of its own


def main() -> None:
    """Write every page that has changed, and say which."""
    for name in (*PAGES, *PARTS):
        path, text = DOCS / name, page(name)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print("wrote", path.resolve().relative_to(DOCS.parent))


if __name__ == "__main__":
    main()
