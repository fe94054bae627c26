"""Looks for the words of docs/words.toml in everything that people read: `.venv/bin/python docs/prose.py`.

Pages are read without their code. Of src, docstrings, comments, help texts and error messages are read: the strings of a `raise`.

A docstring that names a constant or a function of src, as ``CONSTANT_CASE`` or ``name()``, must name one that exists.

What it finds in a file is kept in build/prose.json, and holds until the file, the list or this module changes.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "tarry"
LIST = ROOT / "docs" / "words.toml"
KEPT = ROOT / "build" / "prose.json"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if not page.read_bytes().startswith(b"<!-- made from")),
]
"""Those that are written by hand; what is made from docstrings is found there."""
BLOCK = re.compile(r"^( *)```.*?^\1```|<!--.*?-->", re.M | re.S)
CODE = re.compile(r"``.+?``|`[^`]*`", re.S)
LEXEME = re.compile(
    r"""(?P<comment>\#.*)
    | (?:\b[bfru]{1,2})? (?P<string> (?P<quotes> "{3} | '{3} | ["'] ) (?: [^\\] | \\[\s\S] )*? (?P=quotes) )
    | (?P<word>\w+)""",
    re.I | re.X,
)
"""What a module is written with. The standard library's tokenizer finds the same, and takes six times as long."""
OURS = re.compile(r"``(?P<name>[A-Z][A-Z0-9]*_[A-Z0-9_]+|(?:\w+\.)*[a-z_][a-z0-9_]*)(?P<call>\(\))?``")
HELP = {"help", "description", "summary"}
"""Keyword arguments whose strings people read."""
HELP_TEXT = re.compile(rf"\b({'|'.join(sorted(HELP))})\s*=")
FOREIGN = {"OTEL_PROPAGATORS"}
"""Constants of other programs that docstrings name."""
LINK = re.compile(r"\]\([^)]*\)")
# A sentence begins after a full stop, with a paragraph or an item of a list. Headings and cells of tables are none.
BEGIN = r"(?:(?<=[.!?] )|(?<=[.!?]\n)|(?<=\n\n)|\A|^ *[-*] |^ *\d+\. )(?:\*\*)?"
PARAGRAPH = r"(?:\A|(?<=\n\n)) *(?:# )?"
REST = r"\b(?P<rest>(?:[^.?!|]|[.?!](?!\s))*[.?!|]?)"


class Word(NamedTuple):
    """An entry of the list, compiled."""

    pattern: re.Pattern[str]
    instead: str


def word_list() -> tuple[list[Word], set[str]]:
    """The list, and the files of src that are not checked yet."""
    told = tomllib.loads(LIST.read_text(encoding="utf-8"))
    flags = re.I | re.M
    return [
        *(Word(re.compile(rf"{BEGIN}(?P<said>{one['find']}){REST}", flags), one["instead"]) for one in told["start"]),
        *(
            Word(re.compile(rf"{PARAGRAPH}(?P<said>{one['find']})(?![\w-])", flags), one["instead"])
            for one in told["paragraph"]
        ),
        *(
            Word(re.compile(rf"(?<![\w-])(?P<said>{wrapped(one['find'])})(?![\w-])", flags), one["instead"])
            for one in told["anywhere"]
        ),
    ], set(told["not_yet"])


def wrapped(find: str) -> str:
    """The expression, whose spaces may also be the end of a line."""
    return find.replace(" ", r"(?: +|\n *)")


def blank(text: re.Match[str]) -> str:
    """As many lines as before, so that numbers of lines stay true."""
    return "CODE" + "\n" * text[0].count("\n")


def found(text: str, words: list[Word]) -> Iterator[tuple[int, str, str]]:
    """Line, words and advice for every hit."""
    for pattern, instead in words:
        for hit in pattern.finditer(text):
            if not hit.groupdict().get("rest", "").rstrip().endswith("?"):
                yield text.count("\n", 0, hit.start("said")) + 1, hit["said"], instead


def page(path: Path) -> str:
    """A page without code, addresses and headings."""
    return without_headings(path.read_text(encoding="utf-8"))


def without_headings(text: str) -> str:
    """The text of a page without code, addresses and headings."""
    return re.sub(r"^#.*", "", without_code(text), flags=re.M)


def without_code(text: str) -> str:
    """The text of a page without code and addresses."""
    return LINK.sub("]", CODE.sub(blank, BLOCK.sub(blank, text)))


@cache
def nodes(path: Path) -> list[ast.AST]:
    """The statements of a module, and its keyword arguments that may be help texts; it is parsed once."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    helps = (node for node in ast.walk(tree) if isinstance(node, ast.keyword)) if HELP_TEXT.search(text) else ()
    return [*statements(tree), *helps]


def statements(block: ast.AST) -> Iterator[ast.AST]:
    """Those inside a block, and inside theirs; a walk through all expressions takes five times as long."""
    for part in ("body", "handlers", "orelse", "finalbody", "cases"):
        for node in getattr(block, part, ()):
            yield node
            yield from statements(node)


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Docstrings, those of attributes too, comments, help texts, and the texts of what is raised, with the line of each."""
    for node in nodes(path):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, CODE.sub(blank, node.value.value)
        elif isinstance(node, ast.Raise) and node.exc is not None:
            yield node.lineno, CODE.sub(blank, said(node.exc))
        elif isinstance(node, ast.keyword) and node.arg in HELP:
            yield node.lineno, CODE.sub(blank, said(node.value))
    text = path.read_text(encoding="utf-8")
    for lexeme in LEXEME.finditer(text):
        if comment := lexeme["comment"]:
            yield text.count("\n", 0, lexeme.start()) + 1, CODE.sub(blank, "# " + comment.lstrip("# "))


def script_comments(path: Path) -> Iterator[tuple[int, str]]:
    """The comments of a script, line by line."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if "--" in line:
            yield number, CODE.sub(blank, line.partition("--")[2])


def words_of(path: Path) -> set[str]:
    """Every word in the code of a file, without docstrings and comments: names, parts of strings, and the words of a script."""
    text, words = path.read_text(encoding="utf-8"), set[str]()
    if path.suffix != ".py":
        return set(re.findall(r"\w+", text)) if path.suffix == ".lua" else words
    for lexeme in LEXEME.finditer(text):
        if word := lexeme["word"]:
            words.add(word)
        elif (string := lexeme["string"]) and "``" not in string:
            words.update(re.findall(r"\w+", string))
    return words


def names_in(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line, text and name of every constant or function that a docstring of a module names."""
    for node in nodes(path) if path.suffix == ".py" else ():
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            text = node.value.value
            for hit in OURS.finditer(text):
                name = hit["name"].rpartition(".")[2]
                if hit["call"] or name.isupper():
                    yield node.lineno + text.count("\n", 0, hit.start()), hit["name"], name


def said(node: ast.AST) -> str:
    """The strings of an expression as one text; a value that is put into one is an ellipsis."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.FormattedValue):
        return "…"
    return "".join(said(part) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr | ast.keyword))


READ: dict[str, Callable[[Path], Iterable[tuple[int, str]]]] = {
    ".md": lambda path: [(1, page(path))],
    ".py": strings,
    ".lua": script_comments,
}
"""How the texts of a file are read."""


class Found(NamedTuple):
    """What a file has, as it is kept."""

    digest: str
    hits: list[tuple[int, str, str]]
    names: list[tuple[int, str, str]]
    words: list[str]


def look_at(paths: Iterable[Path], chosen: list[Word]) -> dict[Path, Found]:
    """What each of them has; only those that have changed are read."""
    rules = b"".join(path.read_bytes() for path in (Path(__file__), LIST))
    kept: dict[str, list[Any]] = {}
    with suppress(OSError, ValueError):
        kept = json.loads(KEPT.read_bytes())
    looked = {}
    for path in paths:
        digest = hashlib.sha256(rules + path.read_bytes()).hexdigest()
        known = kept.get(str(path))
        looked[path] = Found(*known) if known and known[0] == digest else look(path, digest, chosen)
    KEPT.parent.mkdir(exist_ok=True)
    part = KEPT.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps({str(path): one for path, one in looked.items()}), encoding="utf-8")
    part.replace(KEPT)
    return looked


def look(path: Path, digest: str, chosen: list[Word]) -> Found:
    """What a file has."""
    texts = list(READ[path.suffix](path))
    whole = "\n\n".join(text for _, text in texts)
    here = [word for word in chosen if word.pattern.search(whole)]  # most words are in no text of a file
    hits = sorted((first + line - 1, hit, why) for first, text in texts for line, hit, why in found(text, here))
    return Found(digest, hits, sorted(names_in(path)), sorted(words_of(path)))


def main(paths: list[str]) -> int:
    """Print every hit; 1 if there is one."""
    chosen, not_yet = word_list()
    wanted = [Path(path).resolve() for path in paths]
    count = 0
    clean: list[str] = []
    every = [*PAGES, *sorted(SRC.rglob("*.py")), *sorted(SRC.rglob("*.lua"))]
    looked = look_at(dict.fromkeys([*every, *wanted]), chosen)
    known = FOREIGN.union(*(one.words for path, one in looked.items() if path.is_relative_to(SRC)))
    for path in wanted or every:
        hits = looked[path].hits
        inside = path.relative_to(SRC).as_posix() if path.is_relative_to(SRC) else ""
        unknown = [(line, text) for line, text, name in looked[path].names if inside and name not in known]
        count += len(unknown)
        for line, name in unknown:
            print(f"{path.relative_to(ROOT)}:{line}: '{name}': src has no such name")
        if inside in not_yet and not wanted:
            clean += [] if hits else [inside]
            continue
        count += len(hits)
        for line, hit, why in hits:
            print(f"{path.relative_to(ROOT)}:{line}: '{' '.join(hit.split())}': {why}")
    clean += [] if wanted else [path for path in sorted(not_yet) if not (SRC / path).exists()]
    if clean:
        print(f"clean or gone, take out of not_yet in docs/words.toml: {', '.join(clean)}")
    return 1 if count else 0


if __name__ == "__main__":
    gc.disable()  # what is parsed stays: the collector would look through it again and again, a third of the time
    sys.exit(main(sys.argv[1:]))
