"""The inside speaks the field's language: counted, so that it stays so."""

from __future__ import annotations

import ast
import gc
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import changed

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "tarry"
MODULES = sorted(SRC.rglob("*.py"))

# A name that somebody else prescribes may stand twice.
PRESCRIBED = {
    "Bury": "a handler raises tarry.Bury; the other is a schema of /openapi.json",
    "Client": "tarry.Client, and tarry.zookeeper.Client",
    "AsyncClient": "tarry.AsyncClient, and tarry.zookeeper.AsyncClient",
    "Command": "Django wants its commands to be called so",
    "Pause": "a handler raises tarry.Pause; the other is a schema of /openapi.json",
    "Schedules": "client.schedules() is a tarry.Schedules; the other is a schema of /openapi.json",
}
# Nouns of the field that end like a gerund.
NOUNS = {
    "testing": "tarry.testing, as unittest, numpy and sqlalchemy call it",
    "serving": "the serving layer, which the programs that serve clients share",
    "tracking": "CLIENT TRACKING, a command of Redis",
    "blocking": "an adjective, of calls and of Redisson's RBlockingQueue",
}
# Words of a private language that was spoken here once. A noun of the field says each of them.
RETIRED = set(
    "Way House Errand Errands Parcel Ear Ears Roll Wish Wishes Lookout Lookouts Begun Hearing Announcer Keeper Kept Said "
    "Crew Lane Lanes Inquest Neighbour Diary Rhythm Desk "
    "begun hurry anew luck minding ruling saying parting pictures errand errands parcel parcels ear ears wish wishes lookout "
    "house grave hasten desk desks rhythm lane lanes hearing viewing dictface timekeeper twins neighbour diary diaries".split()
)

MOST_OF_ONE_NAME = 2
"""A name that more modules have is found nowhere: not by a search, not in a stack trace."""
MOST_ARGUMENTS = 8
"""Nobody counts commas: a call with more of them names them."""
LOGGERS = {"debug", "info", "warning", "error", "log"}
"""Their arguments are those of a format."""


def client_kind(module: Path) -> str:
    """A class may exist twice: for threads, and for tasks."""
    if not {"clients", "connections"} & set(module.parts):
        return ""
    kinds = [part.split("_")[0] for part in (*module.parent.parts, module.stem)]
    return next((one for one in kinds if one in ("awaited", "blocking")), "")


@cache
def modules() -> list[tuple[str, list[ast.AST]]]:
    """What each module consists of; they are parsed and walked through once, and stay: the collector need not look through them."""
    gc.disable()
    try:
        return [
            (str(module.relative_to(SRC)), changed.nodes(ast.parse(module.read_text(encoding="utf-8"))))
            for module in MODULES
        ]
    finally:
        gc.freeze()
        gc.enable()


def test_a_class_name_has_one_meaning() -> None:
    homes: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for module, nodes in modules():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                homes[node.name][client_kind(SRC / module)].append(module)
    doubled = {
        name: dict(places)
        for name, places in homes.items()
        if name not in PRESCRIBED
        and (any(len(some) > 1 for some in places.values()) or ("" in places and len(places) > 1))
    }
    assert doubled == {}


def test_every_permitted_duplicate_still_exists() -> None:
    count: dict[str, int] = defaultdict(int)
    for _, nodes in modules():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                count[node.name] += 1
    assert [name for name in PRESCRIBED if count[name] < 2] == []


def twins_once(path: str) -> str:
    """The path of a client's module; its blocking and its awaited twin have the same."""
    return re.sub(r"(?<=/)(awaited|blocking)(?=/)", "*", path)


def test_a_module_or_script_name_occurs_at_most_twice() -> None:
    paths = [path.relative_to(SRC).as_posix() for path in (*MODULES, *SRC.rglob("*.lua"))]
    homes: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        homes[Path(path).name].add(twins_once(path))
    crowded = {
        name: sorted(some) for name, some in homes.items() if len(some) > MOST_OF_ONE_NAME and name != "__init__.py"
    }
    assert crowded == {}


def test_a_class_name_occurs_at_most_twice() -> None:
    homes: dict[str, set[str]] = defaultdict(set)
    for module, nodes in modules():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(twins_once(module))
    assert {name: sorted(some) for name, some in homes.items() if len(some) > MOST_OF_ONE_NAME} == {}


def test_no_module_name_is_a_gerund() -> None:
    names = [module.stem if module.stem != "__init__" else module.parent.name for module in MODULES]
    names += [script.stem for script in SRC.rglob("*.lua")] + [script.parent.name for script in SRC.rglob("*.lua")]
    gerunds = {
        name for name in names for word in name.split("_") if re.fullmatch(r"\w{2,}ing", word) and word not in NOUNS
    }
    assert sorted(gerunds) == []


def test_no_retired_term_is_used() -> None:
    found = defaultdict(set)
    for module, nodes in modules():
        for part in Path(module).with_suffix("").parts:
            if part in RETIRED:
                found[part].add(module)
        for node in nodes:
            name = getattr(node, "name", None) or getattr(node, "arg", None) or getattr(node, "attr", None)
            name = name or getattr(node, "id", None)
            if isinstance(name, str) and name.lstrip("_") in RETIRED:
                found[name].add(module)
    for script in SRC.rglob("*.lua"):
        if script.stem in RETIRED:
            found[script.stem].add(str(script.relative_to(SRC)))
    assert {name: sorted(places) for name, places in found.items()} == {}


def test_no_call_passes_nine_positional_arguments() -> None:
    found = [
        f"{module}:{node.lineno} {ast.unparse(node.func)}"
        for module, nodes in modules()
        for node in nodes
        if isinstance(node, ast.Call)
        and len(node.args) > MOST_ARGUMENTS
        and not (isinstance(node.func, ast.Attribute) and node.func.attr in LOGGERS)
    ]
    assert found == []


def inside() -> list[tuple[str, str, str]]:
    """The inner terms of the glossary: the word, where it is defined, what it means."""
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    section = page.partition("## Inside\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| \*\*(.+?)\*\* \| `(.+?)` \| (.+?) \|$", section, re.M)


def test_there_are_at_most_fifteen_inside_terms() -> None:
    assert 1 <= len(inside()) <= 15


def test_an_inside_term_is_defined_where_the_glossary_names() -> None:
    for word, place, _ in inside():
        module = SRC / place
        assert module.exists(), place
        text = module.read_text(encoding="utf-8")
        opening = ast.get_docstring(ast.parse(text)) or "" if module.suffix == ".py" else text.partition("\n\nlocal")[0]
        assert word in opening.lower(), (word, place)
