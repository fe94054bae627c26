"""Where the names of a tree are defined, and which definitions are one name: overrides, protocols, made modules."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import blocking

Scope = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Position:
    """Where a name stands; line and column from 0."""

    path: str
    line: int
    column: int


@dataclass(eq=False)
class Module:
    """A file, parsed."""

    path: str
    text: str
    tree: ast.Module
    classes: dict[str, Class] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    """What a name was imported from: the module, and the name there, which is empty for the module itself."""

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    def position(self, node: ast.AST, name: str) -> Position:
        """Where ``name`` stands in the node that defines it."""
        if isinstance(node, (ast.ClassDef, *FUNCTIONS)):
            found = re.compile(rf"\b(?:class|def)\s+({re.escape(name)})\b").search(self.lines[node.lineno - 1])
            assert found, f"{self.path}:{node.lineno}: no {name}"
            return Position(self.path, node.lineno - 1, found.start(1))
        assert isinstance(node, ast.expr | ast.arg | ast.keyword)
        if isinstance(node, ast.Attribute):
            line, column = (node.end_lineno or 0) - 1, (node.end_col_offset or 0) - len(name.encode())
        else:
            line, column = node.lineno - 1, node.col_offset
        return Position(self.path, line, len(self.lines[line].encode()[:column].decode()))


@dataclass(eq=False)
class Class:
    """A class, and its members by name."""

    module: Module
    name: str
    node: ast.ClassDef
    members: dict[str, list[ast.AST]] = field(default_factory=dict)
    bases: list[Class] = field(default_factory=list)
    children: list[Class] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.name} ({self.module.path})"

    @property
    def is_protocol(self) -> bool:
        return any(re.fullmatch(r"(\w+\.)*Protocol", ast.unparse(_unsubscripted(base))) for base in self.node.bases)

    def ancestors(self) -> Iterator[Class]:
        for base in self.bases:
            yield base
            yield from base.ancestors()

    def descendants(self) -> Iterator[Class]:
        for child in self.children:
            yield child
            yield from child.descendants()

    @cached_property
    def names(self) -> frozenset[str]:
        """Its members' names, inherited ones too, without those that Python knows."""
        every = {name for one in (self, *self.ancestors()) for name in one.members}
        return frozenset(name for name in every if not re.fullmatch(r"__\w+__", name))

    def member(self, name: str) -> ast.AST:
        return next(one.members[name][-1] for one in (self, *self.ancestors()) if name in one.members)

    def fits(self, protocol: Class) -> bool:
        """Whether it has all members of a protocol, and its methods can be called like those. No other type is looked at."""
        return protocol.names <= self.names and all(
            _answers(self.member(name), protocol.member(name)) for name in protocol.names
        )


class Tree:
    """All Python files of a tree."""

    def __init__(self, root: Path) -> None:
        self.root = root
        listed = subprocess.run(["git", "ls-files"], cwd=root, check=True, capture_output=True, text=True).stdout
        self.files = [
            file for file in listed.splitlines() if (root / file).is_file() and not (root / file).is_symlink()
        ]
        self.modules = {file: self._parsed(file) for file in self.files if file.endswith(".py")}
        self._join()

    def changed(self, paths: set[str]) -> None:
        """These files are different now."""
        for path in paths & self.modules.keys():
            self.modules[path] = self._parsed(path)
        self._join()

    def definitions(self, path: str, old: str) -> list[tuple[Module, ast.AST]]:
        """The nodes that define a dotted name of this file; an overloaded function has several."""
        module = self.modules[path]
        scopes: list[Scope] = [module.tree]
        *outer, last = old.split(".")
        for name in outer:
            scopes = [
                node
                for scope in scopes
                for node in _within(scope)
                if isinstance(node, (ast.ClassDef, *FUNCTIONS)) and node.name == name
            ]
        return [(module, node) for scope in scopes for node in defined_in(scope).get(last, ())]

    def family(self, start: Class, member: str, apart: frozenset[str]) -> list[Class]:
        """The classes that have to call the member the same: ``start``, what overrides it, what it overrides, twins, protocols.

        ``apart`` names classes that are left alone.
        """
        protocols = [one for one in self._classes() if one.is_protocol and member in one.members]
        family: list[Class] = []
        waiting = [start]
        while waiting:
            one = waiting.pop()
            if one in family or one.name in apart:
                continue
            family.append(one)
            related = [one, *one.ancestors(), *one.descendants()]
            related += [
                twin for path, name in self.twins(one.module.path, one.name) if (twin := self._class(path, name))
            ]
            near = {one, *one.descendants()}
            related += [protocol for protocol in protocols if any(child.fits(protocol) for child in near)]
            if one.is_protocol:
                fitting = [other for other in self._classes() if other.fits(one)]
                related += [other for fit in fitting for other in (fit, *fit.ancestors())]
            waiting += [other for other in related if member in other.members]
        return family

    def twins(self, path: str, name: str) -> Iterator[tuple[str, str]]:
        """The file and the name of the same thing in the other kind of client."""
        made = {str(to): str(source) for to, source in blocking.MADE.items()}
        sources = {source: to for to, source in made.items()}
        swaps = {"awaited": "blocking", "blocking": "awaited"}
        by_hand = "/".join(swaps.get(part, part) for part in path.split("/"))
        other = made.get(path) or sources.get(path) or by_hand
        if other != path and other in self.modules:
            first, *rest = name.split(".")
            is_awaited = other in sources or "/awaited/" in other
            names = self._names(other)
            first = (
                next((one for one in names if blocking_word(one) == first), first)
                if is_awaited
                else blocking_word(first)
            )
            yield other, ".".join((first, *rest))

    def _names(self, path: str) -> list[str]:
        return [node.name for node in self.modules[path].tree.body if isinstance(node, (ast.ClassDef, *FUNCTIONS))]

    def class_of(self, path: str, name: str) -> Class:
        found = self._class(path, name)
        if found is None:
            raise SystemExit(f"{path} has no class {name}")
        return found

    def _class(self, path: str, name: str) -> Class | None:
        return self.modules[path].classes.get(name) if path in self.modules else None

    def _classes(self) -> Iterator[Class]:
        for module in self.modules.values():
            yield from module.classes.values()

    def classes_called(self, name: str) -> list[Class]:
        return [one for one in self._classes() if one.name.rpartition(".")[2] == name]

    def _parsed(self, path: str) -> Module:
        text = (self.root / path).read_text(encoding="utf-8")
        module = Module(path, text, ast.parse(text))
        for name, node in _classes_of(module.tree):
            module.classes[name] = Class(module, name, node, defined_in(node))
        for statement in ast.walk(module.tree):
            if isinstance(statement, ast.ImportFrom):
                source = _absolute(path, statement)
                module.imports |= {one.asname or one.name: (source, one.name) for one in statement.names}
            elif isinstance(statement, ast.Import):
                module.imports |= {one.asname or one.name: (one.name, "") for one in statement.names}
        return module

    def _join(self) -> None:
        """Finds the bases of each class."""
        by_name = {name: path for path in self.modules for name in _dotted(path)}
        for one in self._classes():
            one.bases, one.children = [], []
            one.__dict__.pop("names", None)
        for one in self._classes():
            for expression in one.node.bases:
                base = self._resolved(one.module, ast.unparse(_unsubscripted(expression)), by_name, set())
                if base is not None and base is not one:
                    one.bases.append(base)
                    base.children.append(one)

    def _resolved(self, module: Module, name: str, files: dict[str, str], seen: set[tuple[str, str]]) -> Class | None:
        if (module.path, name) in seen:
            return None
        seen.add((module.path, name))
        if name in module.classes:
            return module.classes[name]
        first, _, rest = name.partition(".")
        if first not in module.imports:
            return None
        source, imported = module.imports[first]
        if imported and f"{source}.{imported}" in files:
            source, imported = f"{source}.{imported}", ""
        wanted = ".".join(filter(None, (imported, rest)))
        return self._resolved(self.modules[files[source]], wanted, files, seen) if source in files and wanted else None


def defined_in(scope: Scope) -> dict[str, list[ast.AST]]:
    """What a module, class or function defines: name to nodes. A class has also what its methods give to ``self``."""
    found: dict[str, list[ast.AST]] = {}
    if isinstance(scope, FUNCTIONS):
        arguments = scope.args
        extra = [one for one in (arguments.vararg, arguments.kwarg) if one]
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *extra):
            found.setdefault(argument.arg, []).append(argument)
    for node in _within(scope):
        if isinstance(node, (ast.ClassDef, *FUNCTIONS)):
            found.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.setdefault(node.id, []).append(node)
    if isinstance(scope, ast.ClassDef):
        for method in (node for node in _within(scope) if isinstance(node, FUNCTIONS)):
            receiver = next(iter((*method.args.posonlyargs, *method.args.args)), None)
            for node in _within(method):
                if (
                    isinstance(node, ast.Attribute)
                    and isinstance(node.ctx, ast.Store)
                    and isinstance(node.value, ast.Name)
                    and receiver
                    and node.value.id == receiver.arg == "self"
                ):
                    found.setdefault(node.attr, []).append(node)
    return found


def _answers(method: ast.AST, wanted: ast.AST) -> bool:
    """Whether a method can be called like the other one. What is no method is not looked at."""
    if not isinstance(method, FUNCTIONS) or not isinstance(wanted, FUNCTIONS):
        return True
    (places, names), (wanted_places, wanted_names) = _parameters(method), _parameters(wanted)
    if isinstance(method, ast.AsyncFunctionDef) != isinstance(wanted, ast.AsyncFunctionDef):
        return False
    every = {*places, *names}
    return (bool(method.args.vararg) or len(wanted_places) <= len(places)) and (
        bool(method.args.kwarg) or {one for one in (*wanted_places, *wanted_names) if not one.startswith("_")} <= every
    )


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[list[str], list[str]]:
    """Parameters by place, without those that only have a place; parameters by name only."""
    arguments = function.args
    return [one.arg for one in arguments.args if one.arg not in ("self", "cls")], [
        one.arg for one in arguments.kwonlyargs
    ]


def blocking_word(word: str) -> str:
    """What the made module calls it."""
    return blocking.NAMES.get(word) or re.sub(r"^Async(?=[A-Z])", "", word)


def _within(scope: Scope) -> Iterator[ast.AST]:
    """The nodes of a scope, without those inside of the scopes in it."""
    waiting: list[ast.AST] = list(scope.body)
    while waiting:
        node = waiting.pop(0)
        yield node
        if not isinstance(node, (ast.ClassDef, ast.Lambda, *FUNCTIONS)):
            waiting[:0] = ast.iter_child_nodes(node)


def _classes_of(scope: Scope, outer: str = "") -> Iterator[tuple[str, ast.ClassDef]]:
    for node in _within(scope):
        if isinstance(node, ast.ClassDef):
            yield outer + node.name, node
            yield from _classes_of(node, f"{outer}{node.name}.")
        elif isinstance(node, FUNCTIONS):
            yield from _classes_of(node, f"{outer}{node.name}.")


def _unsubscripted(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Subscript) else node


def _dotted(path: str) -> Iterator[str]:
    """The names by which a file is imported."""
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    yield name
    top, _, rest = name.partition(".")
    if top in ("src", "tests", "docs") and rest:
        yield rest


def _absolute(path: str, statement: ast.ImportFrom) -> str:
    if not statement.level:
        return statement.module or ""
    *_, name = _dotted(path)
    package = name.split(".") if path.endswith("/__init__.py") else name.split(".")[:-1]
    return ".".join([*package[: len(package) - statement.level + 1], *filter(None, [statement.module])])
