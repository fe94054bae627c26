"""The pages made from the code say what the code says, and the reference has every public name, with an example."""

from __future__ import annotations

import ast
import inspect
import pydoc
import re

import pytest

import generate
import interface_of_python as python
import reference_of_python as reference
import tarry
from doc_pages import blocks
from reference_of_python import Name
from tarry.values.variables import VARIABLES
from walked import each

PAGES = [f"reference/{page}.md" for page in reference.PAGES]
HEADINGS = {
    title: page
    for page in PAGES
    for title in re.findall(r"^##+ `?([\w.]+)`?$", (generate.DOCS / page).read_text(encoding="utf-8"), re.M)
}
"""The names that have a section, with their pages."""
CLASSES = [one for one in reference.all_names() if isinstance(one.value, type)]


def title(one: Name) -> str:
    return one.title


def section(title: str) -> list[str]:
    """The lines of a part of the interface."""
    text = (generate.DOCS / "interface.txt").read_text(encoding="utf-8")
    return text.partition(f"\n## {title}\n\n")[2].partition("\n\n## ")[0].splitlines()


def own_members(one: Name) -> dict[str, list[str]]:
    """Those that are not told of the class that it is like, without what one writes with operators."""
    named = {name: lines for name, lines in python.members_of(one.value).items() if not name.startswith("__")}
    return {name: lines for name, lines in named.items() if not reference.is_told_elsewhere(one, name)}


def names_in(title: str, page: str) -> set[str]:
    """What the examples of a name take from objects or define, such as ``finish`` of ``job.finish()``."""
    trees = [ast.parse(cell.text) for cell in reference.cells(page).get(title, ()) if cell.language == "python"]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    taken = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return taken | {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", [*generate.PAGES, *generate.PARTS])
def test_the_page_matches_the_code(name: str) -> None:
    written = (generate.DOCS / name).read_text(encoding="utf-8")
    assert written == generate.page(name), f"docs/{name} is stale: run `make docs`"


def test_every_public_name_has_a_section() -> None:
    """Asked of the modules themselves, not of the generator; a name of two modules has one section."""
    told = {value for one in reference.all_names() if one.title in HEADINGS and (value := one.place)}
    places = {id(one.value): one.place for one in CLASSES}
    for module in python.public_modules():
        for name in getattr(module, "__all__", ()):
            value = None if python.is_lazy(module, name) else getattr(module, name)
            assert {f"{module.__name__}.{name}", places.get(id(value))} & told, f"{module.__name__}.{name}: in no page"


@each(reference.all_names(), title)
def test_each_name_has_an_example(one: Name) -> None:
    file = reference.file_of_examples(one.page)
    assert one.title in reference.cells(one.page), (
        f"write one in {file.relative_to(generate.DOCS.parent)}, as # %% {one.title}"
    )


@each(CLASSES, title)
def test_each_method_is_called_by_an_example(one: Name) -> None:
    methods = [name for name, lines in own_members(one).items() if not reference.is_data(lines)]
    called = names_in(one.title, one.page)
    without = [name for name in methods if name not in called | names_in(f"{one.title}.{name}", one.page)]
    assert without == [], f"call them in the example of {one.title}, or write one as # %% {one.title}.METHOD"


@each(CLASSES, title)
def test_each_attribute_is_listed(one: Name) -> None:
    text = (generate.DOCS / "reference" / f"{one.page}.md").read_text(encoding="utf-8")
    section = text.partition(f"\n## {one.title}\n")[2].partition("\n## ")[0]
    listed = set(re.findall(r"^- `(\w+)` \(`.+`\)", section, re.M))
    assert {name for name, lines in own_members(one).items() if reference.is_data(lines)} <= listed


@each(CLASSES, title)
def test_each_member_has_words(one: Name) -> None:
    """An attribute without words has no unit and no meaning in the reference; one of a base has those of the base."""
    told = reference.words_of_fields(one.value)
    for name, lines in own_members(one).items():
        if not reference.is_data(lines):
            told[name] = inspect.getdoc(inspect.getattr_static(one.value, name)) or ""
    assert [name for name in own_members(one) if not told.get(name)] == [], "write a string below each"


def test_each_name_has_words() -> None:
    words = {one.place: inspect.getdoc(one.value) for one in CLASSES}
    words |= {one.place: reference.words_of_value(one) for one in reference.all_names() if one.place not in words}
    assert [place for place, told in words.items() if not told] == []


@pytest.mark.parametrize("page", [*reference.PAGES, "command-line"])
def test_examples_run_in_the_order_in_which_they_are_written(page: str) -> None:
    written = [cell.text for cells in reference.cells(page).values() for cell in cells]
    shown = blocks(generate.DOCS / "reference" / f"{page}.md")
    assert [block.text.strip() for block in shown if block.language in {"python", "sh"}] == written


def test_each_command_has_an_example() -> None:
    told = {re.match(r"tarry(?: [a-z][\w-]*)*", line)[0] for line in section("Command line")}  # type: ignore[index]
    groups = {path.rpartition(" ")[0] for path in told} - {"tarry"}
    assert told - groups == set(reference.cells("command-line")), (
        "docs/reference/examples/command_line_page.sh has them"
    )


def test_each_metric_has_its_meaning() -> None:
    page = (generate.DOCS / "reference" / "metrics.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(\w+)` \|.*\| (.+) \|$", page, re.M))
    assert told.keys() == {line.split()[0] for line in section("Metrics")}
    assert all(told.values())


def test_each_variable_and_setting_is_explained() -> None:
    page = (generate.DOCS / "reference" / "settings.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(TARRY_\w+)` \|", page, re.M)) == set(VARIABLES)
    run = "".join(block.text for block in blocks(generate.DOCS / "reference" / "settings.md") if block.language == "sh")
    assert [name for name in VARIABLES if name not in run] == [], "without an example"
    django = page.partition("\n## Django\n")[2].partition("\n## ")[0]
    keys = set(re.findall(r"`([A-Z_]+)`", "".join(re.findall(r"^\| (.*?) \|", django, re.M))))
    assert keys == {line.split('"')[1] for line in section("Django: settings and commands") if '"' in line}


@each(CLASSES, title)
def test_help_shows_the_arguments(one: Name) -> None:
    if python.constructor_of(one.value) is None or one.value.__name__ not in tarry.__all__:
        return
    shown = pydoc.plain(pydoc.render_doc(one.value)).partition("Method resolution order")[0]
    assert [name for name in inspect.signature(one.value).parameters if not re.search(rf"\b{name}\b", shown)] == []
    assert "**words" not in shown


def test_help_of_a_worker_explains_each_argument() -> None:
    shown = pydoc.plain(pydoc.render_doc(tarry.Worker))
    arguments = re.findall(r"\b(\w+): '", shown.partition("Worker(")[2].partition(") ->")[0])
    assert {"name", "url", "client", "concurrency", "ttr", "grace"} <= set(arguments)
    assert [name for name in arguments if f"``{name}``" not in shown] == []


def test_each_fixture_has_its_meaning_and_an_example() -> None:
    page = (generate.DOCS / "reference" / "testing.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `(tarry_\w+)` \|.*\| (.+) \|$", page, re.M))
    assert told.keys() == {line.partition(":")[0] for line in section("pytest: fixtures")}
    run = "".join(block.text for block in blocks(generate.DOCS / "reference" / "testing.md"))
    assert [name for name, words in told.items() if not words or f"{name}: " not in run] == []
