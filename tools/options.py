"""Write the options of an add from one table, option_table.py, into every way to add jobs. `make blocking` begins with it.

A place (option_places.py) is a list in a module: the parameters of a function, the arguments of a call, the fields of a class. An option
that belongs there is written as its row says; one that is not there yet, behind the one before it in the table. All else stays as it is.
`--check`, in `make lint`, fails for a file that would change. `--drop NAME …` takes out what is no longer in the table.
"""

from __future__ import annotations

import ast
import re
import sys
from itertools import accumulate
from pathlib import Path
from struct import calcsize
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

import option_places
from blocking import ROOT, changed, formatted, write
from option_places import IN_CLASS, Place
from option_table import BY_SCRIPTS, OPTIONS

SOURCE = Path("src/tarry")
LENGTHS = {"text": "B", "bytes": "I"}
"""How the length of a field is stored that has one, before it."""
TYPES, FLAGS = SOURCE / "wire" / "types.py", SOURCE / "lua" / "lib" / "flags.lua"


class Item(NamedTuple):
    """A name in a list, and where its text begins and ends; ``last``: with its docstring."""

    name: str
    start: int
    end: int
    last: int


def written(place: Place, text: str, dropped: frozenset[str] = frozenset()) -> str:
    """The module with the options in this place."""
    wanted = dict(pair for one in OPTIONS if (pair := place.write(one)))
    raw, items = text.encode(), items_of(place, text)
    edits = [(item.start, item.end, wanted[item.name]) for item in items if item.name in wanted]
    for before, item in zip([None, *items], items, strict=False):
        if item.name in dropped:
            edits.append((before.last, item.last, "") if before else (item.start, items[1].start, ""))
    ends, end = {item.name: item.last for item in items}, edits[0][0]
    for name, added in wanted.items():
        end = ends.get(name, end)
        if name not in ends:
            edits.append((end, end, place.between + added))
    edits.sort(key=lambda edit: edit[:2])
    for start, end, new in reversed(edits):
        raw = raw[:start] + new.encode() + raw[end:]
    return raw.decode()


def items_of(place: Place, text: str) -> list[Item]:
    raw = text.encode()
    owner: Any = ast.parse(text)
    for name in place.owner.split("."):
        owner = next(one for one in owner.body if name == _name_of(one))
    starts = [0, *accumulate(map(len, raw.splitlines(keepends=True)))]
    items: list[Item] = []
    for name, first, last in place.find(owner):
        start, end = starts[first.lineno - 1] + first.col_offset, starts[last.end_lineno - 1] + last.end_col_offset
        docstring = re.compile(rb'\n +"""[^"]*"""').match(raw, end) if place.between == IN_CLASS else None
        items.append(Item(name, start - (raw[start - 1 : start] == b"@"), end, docstring.end() if docstring else end))
    return items


def _name_of(statement: Any) -> str:
    """The name that a statement defines."""
    return ast.unparse(statement.targets[0]) if isinstance(statement, ast.Assign) else getattr(statement, "name", "")


def with_types(text: str) -> str:
    """The module with imports of the types of requests; those that it has or does not use go when it is formatted."""
    types = (ROOT / TYPES).read_text(encoding="utf-8")
    words = {word for one in OPTIONS for word in re.findall(r"[A-Z]\w+", f"{one.wire} {one.query}")}
    known = ", ".join(sorted(word for word in words if f"\n{word} = " in types))
    return text.replace("\n\nfrom ", f"\n\nfrom tarry.wire.types import {known}\nfrom ", 1)


def lua(text: str) -> str:
    """The script with the further flags, and what reads their fields."""
    flags, reads, sizes, free = "", "", [], 1
    for how in (*(one.stored for one in OPTIONS if one.stored and one.stored.flag), *BY_SCRIPTS):
        length = LENGTHS.get(how.format, "")
        name, format = f"HAS_{how.field.upper()}", length or how.format
        read = f"field(further, {name}, '<{format}', {calcsize('<' + format)})"
        flags += f"local {name} = {how.flag}  -- {how.format}\n"
        if length:
            reads += f"    local length = {read} or 0\n    at = at + length\n"
            if how.lua:
                reads += f"    if length > 0 then {how.lua} = string.sub(value, at - length + 1, at) end\n"
        else:
            reads += f"    {how.lua and how.lua + ' = '}{read}\n"
        sizes.append(f"{how.flag}:{length or calcsize('<' + format)}")
        free = max(free, 2 * how.flag)
    flags += (
        f"local FIELDS = '{' '.join(sizes)}'  -- flag and size of each, in order; B, I: of its length, which is first\n"
    )
    flags += f"local FREE = {free}  -- this further flag, and higher ones, are nobody's\n"
    for what, lines in (("flags", flags), ("fields", reads)):
        text = re.sub(rf"(?s)(-- {what}, by tools/options.py:\n).*?( *-- end of the {what}\n)", rf"\1{lines}\2", text)
    return text


def made(dropped: frozenset[str] = frozenset()) -> dict[Path, str]:
    """The text of each file that has a place."""
    texts: dict[Path, str] = {}
    for place in option_places.places():
        path = SOURCE / place.file
        texts[path] = written(place, texts.get(path) or (ROOT / path).read_text(encoding="utf-8"), dropped)
    texts = {path: with_types(text) if "wire" in path.parts else text for path, text in texts.items()}
    return {**formatted(texts), FLAGS: lua((ROOT / FLAGS).read_text(encoding="utf-8"))}


def main() -> None:
    mode, *names = sys.argv[1:] or [""]
    found = made(frozenset(names) if mode == "--drop" else frozenset())
    write(changed(found), "not as tools/option_table.py says", check=mode == "--check")


if __name__ == "__main__":
    main()
