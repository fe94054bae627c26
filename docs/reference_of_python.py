"""The reference pages of the public names of Python, written by ``docs/generate.py``: from docstrings, signatures and examples.

The place of a name says its page (``PAGES``), so a new name is on one by itself. Its example is a cell of ``docs/reference/examples``: a file for
each page, whose cells begin with ``# %% Topic`` or ``# %% Topic.add``. Names stand in the order of their cells, those without one at the end. The
tests run each page from top to bottom, as all pages.
"""

from __future__ import annotations

import ast
import inspect
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import interface_of_python as python
import tarry
from page_parts import markdown, paragraphs, signature
from tarry.programs.service.metrics import PRODUCERS, TOTALS

EXAMPLES = Path(__file__).resolve().parent / "reference" / "examples"
CELL = re.compile(r"^# %% ([\w. -]+?)(?: (sh|python))?(?: \(not run: (.*)\))?\n", re.M)
FOR_CHECKERS = re.compile(r"  # (?:type: ignore|noqa).*")
"""What an example has for type checkers and linters, and no page shows."""
OPERATORS = {
    "__enter__": "with",
    "__aenter__": "async with",
    "__iter__": "for … in",
    "__aiter__": "async for … in",
    "__len__": "len(…)",
    "__contains__": "in",
    "__getitem__": "[key]",
    "__setitem__": "[key] = …",
    "__delitem__": "del [key]",
    "__add__": "+",
}
"""What users write for a method; ``__call__`` is a method like others."""
UNPREFIXED = ("tarry", "tarry.types", "tarry.errors", "tarry.redisson")
"""The modules whose names stand alone in headings."""


class Page(NamedTuple):
    """A page: the places of its names as a pattern, its title, and what stands before the first name."""

    places: str
    title: str
    opening: str


PAGES = {
    "errors": Page(r"errors$", "Errors", ""),
    "locks": Page(
        r"clients\.\w+\.locks$|verbs\.locks|zookeeper",
        "Locks",
        "Locks with a fencing token, on the server that you have or in ZooKeeper. [Guard with locks](../how-to/guard-with-locks.md) says when to use which.",
    ),
    "guarded-queues": Page(
        r"clients\.\w+\.guarded_queue$|verbs\.guarded",
        "Guarded queues",
        "A sorted set of values by their due times, as some applications poll it under a lock. Where no Java reads it, take a [topic](topics.md). "
        "[How to use one](../how-to/guard-with-locks.md#guarded-queues).",
    ),
    "queues-and-maps": Page(
        r"redisson",
        "Queues and maps that are shared with Java",
        "The module `tarry.redisson`. A client makes the handles. How to share [a queue](../how-to/share-a-queue-with-java.md) and "
        "[a map](../how-to/share-a-map-with-java.md).",
    ),
    "schedules": Page(
        r"clients\.\w+\.schedules$|schedule_info$",
        "Schedules",
        "Jobs that are added again and again, by the clock of the server. [How to schedule jobs](../how-to/schedule-jobs.md).",
    ),
    "events": Page(
        r"clients\.\w+\.ends$|end_values$",
        "Events",
        "What tarry tells by itself. The ends of jobs are below, for [Python](../how-to/follow-how-jobs-end.md); over HTTP they are "
        "[server-sent events](http.md#a-stream-of-changes-as-server-sent-events). A lost lock calls [`on_lost`](locks.md#grant), an entry of a map "
        "[`listen`](queues-and-maps.md#mapcache), a handler's call [`around`](workers.md#registry).",
    ),
    "workers": Page(
        r"worker\.|verbs\.workers",
        "Workers, tasks, retries",
        "[How to run workers](../how-to/run-workers.md). [Which setting counts](precedence.md) where a job, a handler, a worker and a topic give one.",
    ),
    "testing": Page(
        r"testing",
        "Tests",
        "The module `tarry.testing`, and the fixtures of the pytest plugin. [How to test your jobs](../how-to/test-your-jobs.md).",
    ),
    "integrations": Page(
        r"celery|django|otel",
        "Celery, Django, OpenTelemetry",
        "`tarry[celery]` and `tarry[otel]` bring what two of these modules need; `tarry.django` needs a Django (`pip install django`).",
    ),
    "results": Page(
        r"verbs\.jobs\.(?!options)|verbs\.codecs|values\.",
        "Results and types",
        "What the verbs of [client, topic and job](topics.md) return and take. Results are immutable.",
    ),
    "topics": Page(
        r"",
        "Client, topic, job",
        "`AsyncClient`, `AsyncTopic` and `AsyncJob` have the same methods, options and results, awaited. Where a method stands beside its "
        "blocking twin\nin one class, as of tasks, the awaited one ends with `_async`: `task.add`, `await task.add_async`. A duration is a number of "
        'seconds, a\n`timedelta`, or text such as `"10m"`, `"1h30m"`, `"PT10M"`. Failures raise an [error](errors.md) that says what to do.',
    ),
}
"""The first page whose pattern is found in the place of a name has it."""


class Cell(NamedTuple):
    """An example: its language, and why it does not run."""

    text: str
    language: str
    not_run: str | None

    def __str__(self) -> str:
        reason = f"<!-- not run: {self.not_run} -->\n" if self.not_run else ""
        return f"{reason}```{self.language}\n{self.text}\n```\n"


@dataclass(frozen=True)
class Name:
    """A public name: what it is called in headings, and where it is imported from."""

    module: types.ModuleType
    name: str

    @property
    def title(self) -> str:
        home = self.module.__name__
        return self.name if home in UNPREFIXED else f"{home.rpartition('.')[2]}.{self.name}"

    @property
    def place(self) -> str:
        """What users import."""
        return f"{self.module.__name__}.{self.name}"

    @property
    def home(self) -> str:
        """The module that says its page: where it is defined, of a name of ``tarry`` or ``tarry.types``; else its own."""
        if self.module.__name__ in ("tarry", "tarry.types"):
            made: dict[str, str] = vars(self.module)["_MODULE_OF"]
            return made.get(self.name, "values.version")
        return self.module.__name__.removeprefix("tarry.")

    @property
    def page(self) -> str:
        return next(page for page, told in PAGES.items() if re.search(told.places, self.home))

    @cached_property
    def value(self) -> Any:
        return None if python.is_lazy(self.module, self.name) else getattr(self.module, self.name)

    @property
    def twin(self) -> Name | None:
        """The blocking class, or the client of a server: what this one is like."""
        name = re.sub("Async|^HTTP", "", self.name, count=1)
        return next((one for one in all_names() if one.module is self.module and one.name == name != self.name), None)

    def link_from(self, other: Name) -> str:
        page = "" if self.page == other.page else f"{self.page}.md"
        anchor = re.sub(r"[^\w -]", "", self.title.lower())
        return f"[`{self.title}`]({page}#{anchor})"


@cache
def all_names() -> list[Name]:
    """Every public name, at the first place that has it."""
    found: list[Name] = []
    seen: set[int] = set()
    for module in python.public_modules():
        for name in python.names_of(module):
            one = Name(module, name)
            if not isinstance(one.value, type | types.FunctionType) or id(one.value) not in seen:
                found.append(one)
                seen.add(id(one.value))
    return found


@cache
def titles() -> dict[type, Name]:
    """The public classes."""
    return {one.value: one for one in all_names() if isinstance(one.value, type)}


def file_of_examples(page: str) -> Path:
    """Where the examples of a page are written."""
    return next(EXAMPLES.glob(f"{page.replace('-', '_')}_page.*"), EXAMPLES / f"{page.replace('-', '_')}_page.py")


@cache
def cells(page: str) -> dict[str, list[Cell]]:
    """The examples of a page, by name or by ``Class.method``; those for a shell (``# %% Name sh``) are written as comments."""
    file = file_of_examples(page)
    if not file.exists():
        return {}
    _, *parts = CELL.split(file.read_text(encoding="utf-8"))
    found: dict[str, list[Cell]] = {}
    usual = "sh" if file.suffix == ".sh" else "python"
    for title, language, reason, text in zip(*[iter(parts)] * 4, strict=True):
        code = re.sub(r"^# ", "", text, flags=re.M) if language == "sh" else FOR_CHECKERS.sub("", text)
        found.setdefault(title, []).append(Cell(code.strip(), language or usual, reason))
    return found


def names_of_page(page: str) -> list[Name]:
    """In the order of their examples."""
    order = list(cells(page))
    return sorted(
        (one for one in all_names() if one.page == page),
        key=lambda one: order.index(one.title) if one.title in order else len(order),
    )


def page_of_names(page: str) -> str:
    """The whole page."""
    _, title, opening = PAGES[page]
    return "\n".join([f"# {title}\n", f"{opening}\n", sections(page)])


def sections(page: str) -> str:
    """A section for each name of the page."""
    return "\n".join("\n".join(_section(one)) for one in names_of_page(page))


def _section(one: Name) -> Iterator[str]:
    yield f"## {one.title}\n"
    examples = [str(cell) for cell in cells(one.page).get(one.title, ())]
    if not isinstance(one.value, type):
        yield _block(_lines_of_value(one))
        yield f"{paragraphs(words_of_value(one))}\n"
        yield from examples
        return
    bases = ", ".join(python.bases_of(one.value))
    made = python.constructor_of(one.value)
    yield _block([one.place + made if made else f"class {one.place}" + (f"({bases})" if bases else "")])
    yield f"{paragraphs(inspect.getdoc(one.value) or '')}\n"
    for base in one.value.__bases__:
        if base in titles():
            yield f"It has the members of {titles()[base].link_from(one)}, too.\n"
    yield from examples
    yield from _members(one)


def _block(lines: list[str]) -> str:
    return "```text\n" + "\n".join(signature(line) for line in lines) + "\n```\n"


def _members(one: Name) -> Iterator[str]:
    """Data in a list, what one writes with operators in a line, methods with a heading each."""
    members = python.members_of(one.value)
    twin = one.twin
    if twin is not None:
        same = {name for name in members if is_told_elsewhere(one, name)}
        if same:
            awaited = ", awaited" if "Async" in one.name and "Async" not in twin.name else ""
            yield f"Its members are those of {twin.link_from(one)}{awaited}.\n"
        members = {name: lines for name, lines in members.items() if name not in same}
    words = words_of_fields(one.value)
    data = {name: lines for name, lines in members.items() if not name.startswith("__") and is_data(lines)}
    listed = "".join(_field(name, lines[0], words.get(name, "")) for name, lines in data.items())
    if listed:
        yield listed
    operators = [text for name, text in OPERATORS.items() if name in members]
    if operators:
        yield f"It can be used with {', '.join(f'`{text}`' for text in operators)}.\n"
    methods = [name for name in members if name not in data and (not name.startswith("__") or name == "__call__")]
    order = list(cells(one.page))
    for name in sorted(
        methods, key=lambda name: order.index(title) if (title := f"{one.title}.{name}") in order else 0
    ):
        lines, title = members[name], f"{one.title}.{name}"
        yield f"### `{title}`\n"
        yield _block([line.replace("@", name, 1) for line in lines])
        told = inspect.getdoc(inspect.getattr_static(one.value, name, None)) or ""
        if told:
            yield f"{paragraphs(told)}\n"
        yield from (str(cell) for cell in cells(one.page).get(title, ()))


def _field(name: str, line: str, told: str) -> str:
    kind = line.removeprefix("@: ").removeprefix("@ = ").removesuffix(", read-only")
    return f"- `{name}` (`{kind}`)" + (f": {markdown(told)}" if told else "") + "\n"


def is_data(lines: list[str]) -> bool:
    """Whether a member is an attribute or a property, by its lines of the interface."""
    return "(" not in lines[0].partition(":")[0]


def is_told_elsewhere(one: Name, name: str) -> bool:
    """Whether a member differs from that of the twin in nothing but that it is awaited."""
    if one.twin is None:
        return False
    twin = one.twin.value
    other = {"__aenter__": "__enter__", "__aexit__": "__exit__", "__aiter__": "__iter__"}.get(name, name)
    told = [plain(inspect.getdoc(inspect.getattr_static(kind, name, None))) for kind in (one.value, twin)]
    return other in python.members_of(twin) and (name.startswith("__") or told[0] == told[1])


def plain(text: str | None) -> str:
    return re.sub(r"Async|async |await(?:ed)? |\s", "", text or "")


# ── words ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def words_of_fields(kind: type) -> dict[str, str]:
    """The words of properties, and those beside fields: a string below one, or ``#:`` above it, in the class or in its constructor."""
    found = {**TOTALS, **PRODUCERS} if kind is tarry.Stats else {}  # a metric and its field have the same words
    for one in (base for base in reversed(kind.__mro__) if base.__module__.partition(".")[0] == "tarry"):
        tree = python.tree_of(one.__module__)
        node = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == one.__name__), None)
        if node is not None:
            lines = inspect.getsource(inspect.getmodule(one) or one).splitlines()
            made = [inner for inner in node.body if isinstance(inner, ast.FunctionDef) and inner.name == "__init__"]
            for body in (node.body, *(inner.body for inner in made)):
                found |= _words_beside(body, lines)
        for name, value in vars(one).items():
            if isinstance(value, property | cached_property) and inspect.getdoc(value):
                found[name] = " ".join((inspect.getdoc(value) or "").split())
    return found


def _words_beside(body: list[ast.stmt], lines: list[str]) -> Iterator[tuple[str, str]] | dict[str, str]:
    found: dict[str, str] = {}
    for statement, following in zip(body, [*body[1:], None], strict=True):
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        names = [
            one.attr if isinstance(one, ast.Attribute) else one.id
            for one in targets
            if isinstance(one, ast.Attribute | ast.Name)
        ]
        if not names or not isinstance(statement, ast.Assign | ast.AnnAssign):
            continue
        told = ""
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            told = str(following.value.value)
        else:
            at = statement.lineno - 2
            while lines[at].strip().startswith("#: "):
                told = f"{lines[at].strip().removeprefix('#: ')} {told}"
                at -= 1
        if told:
            found |= dict.fromkeys(names, " ".join(told.split()))
    return found


def words_of_value(one: Name) -> str:
    """Of a function its docstring; of a constant or a type the string below it."""
    if isinstance(one.value, types.FunctionType):
        return inspect.getdoc(one.value) or ""
    home = one.module.__name__ if one.value is None else f"tarry.{one.home}"
    tree = python.tree_of(home)
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.If))]
    lines = Path(tree_file(home)).read_text(encoding="utf-8").splitlines()
    return next((words[one.name] for body in bodies if one.name in (words := dict(_words_beside(body, lines)))), "")


def tree_file(module: str) -> str:
    """The file of a module."""
    from importlib.util import find_spec

    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return spec.origin


def _lines_of_value(one: Name) -> list[str]:
    return [line for place, line in python.lines_of_name(one.place, one.module, one.name, {}) if place]
