"""tests/README.md has a row for each folder, with its servers and its cost, and names machinery that documents itself; and no two folders
build the same."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

from doc_pages import ROOT

TESTS = ROOT / "tests"
FOLDERS, TOOLS = (
    dict(re.findall(r"^\| `([\w/.]+)` \| (.*) \|$", part, re.M))
    for part in (TESTS / "README.md").read_text(encoding="utf-8").split("The machinery")
)
FILE = re.compile(r"(?<![\w/.])((?:[a-z_]+/)*[a-z_]+\.(?:py|toml|json|txt|md))\b")
LINES = 4
BLOCK = re.compile(r"^(?:async def|def|class) (\w+)(?:.*\n)*?.*:\n((?: .*\n|\n)+)", re.M)
"""A function or class of a file: its name, and its body, after the line that ends with a colon."""
DOCSTRING = re.compile(r'\A +""".*?"""\n', re.S)


def docstring(tool: str) -> str:
    return ast.get_docstring(ast.parse((TESTS / tool).read_text(encoding="utf-8"))) or ""


def test_each_folder_has_a_row() -> None:
    assert list(FOLDERS) == sorted(path.name for path in TESTS.iterdir() if any(path.glob("*.py")))


def test_a_row_tells_the_servers_and_the_cost() -> None:
    outer = re.search(r"^OUTER := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert outer is not None
    wrong = []
    for folder, row in FOLDERS.items():
        _, servers, cost = row.split(" | ")
        text = "".join(file.read_text(encoding="utf-8") for file in (TESTS / folder).rglob("*.py"))
        runs = "test" if folder in outer[1].split() else "check" if any((TESTS / folder).rglob("test_*.py")) else "mypy"
        told = ("others" in servers.split(", "), *cost.split(", "))
        if told != ("mark.otherserver" in text, runs, *["long"] * ("mark.long" in text)):
            wrong.append(folder)
    assert wrong == []


def test_each_tool_says_how_to_run_it_what_it_takes_and_gives_and_how_to_add_to_it() -> None:
    for tool in TOOLS:
        told = docstring(tool)
        assert re.findall(r"^(Run|Give|Get|Add): ", told, re.M) == ["Run", "Give", "Get", "Add"], tool
        assert len(told.splitlines()) <= 40, tool


def test_the_files_that_tools_name_exist() -> None:
    """Beside the tool, or below tests."""
    named = [(tool, file) for tool in TOOLS for file in FILE.findall(docstring(tool))]
    assert [
        (tool, file)
        for tool, file in named
        if not any((at / file).exists() for at in ((TESTS / tool).parent, TESTS, ROOT))
    ] == []


def test_what_two_folders_build_is_built_once() -> None:
    """Fixtures, helpers and classes with a body of four lines or more whose code is the same, whatever they are called."""
    places: dict[str, list[str]] = defaultdict(list)
    for file in TESTS.rglob("*.py"):
        for name, body in BLOCK.findall(file.read_text(encoding="utf-8")):
            code = [line.partition("  # ")[0] for line in DOCSTRING.sub("", body).splitlines() if line]
            if len(code) >= LINES:
                places["\n".join(code)].append(f"{file.relative_to(TESTS).as_posix()}: {name}")
    twice = [names for names in places.values() if len({name.partition("/")[0] for name in names}) > 1]
    assert twice == [], "one folder has it, or a file of tests; the other imports it"
