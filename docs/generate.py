"""Write the reference pages that are made from the code, and the interface (interface.py): `make docs`.

Each page is a function that returns its text; a test fails when a page in the repository is not what its function
says. A new page is a function and a line in PAGES.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import interface
import reference_of_python as reference
import tree
from contract import contract_page
from life_cycle import life_cycle
from promises import promises_page
from reference_of_programs import command_line_page, integrations_page, metrics_page, tests_page
from reference_of_python import page_of_names, sections
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
PRECEDENCE = """\
A setting can be given in several places, and the most specific one counts. In the table that is the first place of a row that has a value,
unless a note below says that two of them are compared. The settings of a client are [others](settings.md).
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


def errors_page() -> str:
    """Every error with its code, what it is besides a TarryError, and what it carries."""
    parts = [
        "# Errors\n",
        OPENING,
        "| error | `code` | also a |\n|---|---|---|\n" + "".join(f"{row}\n" for row in _error_rows()),
    ]
    return "\n".join([*parts, sections("errors")])


def _errors() -> Iterator[type[errors.TarryError]]:
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, errors.TarryError):
            yield value


def _error_rows() -> Iterator[str]:
    for error in _errors():
        also = ", ".join(f"`{base.__name__}`" for base in error.__bases__ if base not in (errors.TarryError, Exception))
        yield f"| [`{error.__name__}`](#{error.__name__.lower()}) | `{error.code}` | {also} |"


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
    example = str(reference.cells("precedence")["precedence"][0])
    return "\n".join(["# Which setting counts\n", PRECEDENCE, table, "".join(notes), example, why])


PAGES: dict[str, Callable[[], str]] = {
    "../src/tarry/lua/contract.md": contract_page,
    "decisions/README.md": decisions_page,
    "images/life-cycle.svg": life_cycle,
    "interface.txt": interface.text,
    "reference/command-line.md": command_line_page,
    "reference/errors.md": errors_page,
    "reference/http.md": http_page,
    "reference/keys.md": keys_page,
    "reference/metrics.md": metrics_page,
    "reference/precedence.md": precedence_page,
    "reference/promises.md": promises_page,
    **{f"reference/{name}.md": partial(page_of_names, name) for name in reference.PAGES if name != "errors"},
    "reference/testing.md": tests_page,
    "reference/integrations.md": integrations_page,
}


def with_pictures(text: str) -> str:
    """A page that shows the first picture in text of another one, as that has it now."""
    return PICTURE.sub(
        lambda part: part[1] + BLOCK.findall((DOCS.parent / part[2]).read_text(encoding="utf-8"))[0] + part[3], text
    )


PARTS: dict[str, Callable[[str], str]] = {
    "../README.md": with_pictures,
    "maintainers/architecture.md": tree.with_picture,
}
"""Pages by hand with a part that is made."""


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
