"""Which tests a change can reach: `make test-changed` runs them, with lint and types.

    make test-changed                           what differs from where this branch left main, committed or not
    make test-changed BASE=HEAD~3               what differs from another commit
    .venv/bin/python tests/changed.py FILE...   prints the tests that these files reach

The contracts in pyproject.toml let nothing of the library import an app, so a change of the library or of a script reaches everything.
A change of an app reaches the tests

- that import the app, or a helper that does, anywhere in the file, or name it in a string (``"tarry.celery"``);
- that take a fixture which does;
- that run `tarry`, and have the word of a command whose module does: `serve` puts the programs together, sqs and beanstalk on request;
- that name a file or a folder, of their own folder, of examples or of the guides for movers, in which one of these is so;
- that look at src, or at a folder or a file of it that the app is in, or that is in the app: ``src/tarry/lua`` is neither.

A change of a helper reaches the tests that have to do with it in the same way, and a change elsewhere the tests that name the file, or
the folder in which it is. Pages whose blocks run count one by one. What no rule places reaches everything.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path

from doc_pages import RUNNERS, Block, blocks

ROOT = Path(__file__).resolve().parents[1]
EVERYTHING = ["tests"]
ALWAYS = re.compile(r"pyproject\.toml|Makefile|hatch_build\.py|\.ci/.*|tests/conftest\.py|tests/plugin_\w+\.py")
"""They reach everything."""
IMPORTED_FROM = ("src/", "tests/", "docs/", "")
COMMANDS, MAIN, WARM = "src/tarry/programs/cli/commands.py", "src/tarry/__main__.py", "tests/warm.py"
NOT_THIS_SRC = {
    "tests/chaos/processes.py",
    "tests/plugins/test_again.py",
    "tests/upgrade/older.py",
    "tests/upgrade/version_process.py",
}
"""They have src on the path of a process, say where it is, or read one of their own, or that of an older commit."""
READS = {"glob", "rglob", "read_text", "read_bytes", "exists", "open", "iterdir", "ROOT"}
"""What does not have one of these names looks at no file."""
ON_REQUEST = {"programs/sqs": "sqs", "programs/beanstalk": "beanstalk"}
"""`tarry serve` imports them only for an option that has this word."""
SOURCE = re.compile(r"(?<![^\s/'\"])src(?:/[\w.-]+)*/?(?![^\s/'\"*])")
"""A place in src, as far as it is written down: not the `src` of a pattern, or of HTML."""
STATEMENTS = ("body", "orelse", "finalbody", "handlers", "cases")
"""The fields of a node that have statements in them."""
PLUGIN = "programs/testing"
"""pytest loads it into every run."""
BLOCKS = "tests/docs/test_blocks.py"
BLOCKS_OF = BLOCKS + "::test_all_blocks_run[{}]"


@dataclass(eq=False)
class Mentioned:
    """What a file, or a fixture, speaks of. Docstrings do not count."""

    modules: set[str] = field(default_factory=set)  # perhaps with a name after them
    names: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)  # parameters, and strings of one word: perhaps a fixture
    words: set[str] = field(default_factory=set)  # of its strings; of `a/b.py` a, b.py and b
    sources: set[str] = field(default_factory=set)  # files and folders of src

    def read(self, text: str, is_part: bool = False) -> None:
        """Of a path, the words of a part alone."""
        self.sources |= set() if is_part else set(SOURCE.findall(text))
        for token in re.findall(r"[\w.-]+", text):
            if token.startswith("tarry."):
                self.modules.add(token.strip("."))
            else:
                self.words |= {token, *token.strip("-").split(".")}

    def looks_at(self, *names: str) -> bool:
        """At a file or a folder with one of these names."""
        return not READS.isdisjoint(self.names) and not self.words.isdisjoint(names)

    @property
    def looked_at(self) -> set[str]:
        """Of src."""
        return set() if READS.isdisjoint(self.names) else self.sources

    @property
    def runs_tarry(self) -> bool:
        return "tarry" in self.words and not {"subprocess", "executable", "create_subprocess_exec"}.isdisjoint(
            self.names
        )

    def imports(self, node: ast.AST) -> None:
        """If it is an import."""
        match node:
            case ast.Import(names=names):
                self.modules |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names):
                self.modules |= {f"{module}.{alias.name}" for alias in names}
                self.asked |= {alias.name for alias in names}  # perhaps of a conftest

    def walk(self, tree: ast.AST, strings: bool = True) -> Mentioned:
        """Imports in functions, and for type checkers, too."""
        docstrings, parts = set[ast.AST](), set[ast.AST]()
        for node in nodes(tree):
            match node:
                case ast.Expr(value=value):
                    docstrings.add(value)
                case ast.Import() | ast.ImportFrom():
                    self.imports(node)
                case ast.BinOp(op=ast.Div()) if node not in parts:
                    self.sources |= {*SOURCE.findall(path_of(node, parts))}
                case ast.Constant(value=str(text)) if strings and node not in docstrings:
                    self.read(text, is_part=node in parts)
                    self.asked |= {text} if text.isidentifier() else set()
                case ast.arg(arg=name):
                    self.asked.add(name)
                case ast.Attribute() if is_package(node) and node not in parts:
                    self.sources.add("src/tarry")
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    self.names.add(name)
        return self


def nodes(tree: ast.AST, fields: Iterable[str] = ()) -> list[ast.AST]:
    """The node and all below it, those of these fields alone if some are given: ``ast.walk`` takes twice as long."""
    found = [tree]
    for node in found:
        for name in fields or node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                found += [one for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


def path_of(node: ast.expr, parts: set[ast.AST]) -> str:
    """What slashes join; a part that is not written down is a star. Adds the nodes that it has read to ``parts``."""
    parts.add(node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return f"{path_of(node.left, parts)}/{path_of(node.right, parts)}"
    if isinstance(node, ast.Constant):
        return str(node.value)
    if any(map(is_package, inside := [*ast.walk(node)])):
        parts.update(inside)
        return "src/tarry"
    return "*"


def is_of(app: str, place: str) -> bool:
    """Whether a place in src is of an app, or has it in it."""
    own = f"src/tarry/{app}"
    return own.startswith(place) or place.startswith(own)


def is_package(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="tarry"), attr="__file__" | "__path__"):
            return True
    return False


class Tree:
    """The files of a checkout, and what each of its tests reaches."""

    def __init__(self, root: Path) -> None:
        listed = git(root, "ls-files", "--cached", "--others", "--exclude-standard", "-z")
        self.root = root
        self.files = {file for file in listed if (root / file).is_file()}
        self.tests = sorted(file for file in self.files if re.fullmatch(r"tests/.*/test_\w+\.py", file))
        pages = {file: runs(root / file) for file in sorted(self.files) if re.fullmatch(r"(docs/.*)?[^/]*\.md", file)}
        self.pages = {page: found for page, found in pages.items() if found}
        self._mentioned: dict[str, Mentioned] = {}
        self._places: dict[str, str | None] = {}
        self._imported: dict[Mentioned, set[str]] = {}
        self._parts: dict[str, dict[str, Mentioned]] = {}
        self._nearby: dict[str, dict[str, list[str]]] = {}
        self._reached: dict[str, frozenset[str]] = {}
        self._about: dict[str, tuple[set[str], set[str]]] = {}
        plugins = filter(re.compile(r"tests/(conftest|plugin_\w+)\.py").fullmatch, self.files)
        self._plugins = [{name: part for name, part in self.parts(file).items() if name} for file in plugins]

    def parsed(self, file: str) -> ast.Module:
        return ast.parse((self.root / file).read_text(encoding="utf-8"))

    def mentioned(self, file: str) -> Mentioned:
        if file not in self._mentioned:
            self._mentioned[file] = found = Mentioned()
            if file.endswith(".py"):
                tree = self.parsed(file)
                if file.startswith("src/"):  # the strings of the command line are followed word by word
                    for node in nodes(tree, STATEMENTS):
                        found.imports(node)
                else:  # the warm process only imports beforehand
                    found.walk(tree, strings=file != WARM)
            else:
                text = (self.root / file).read_text(encoding="utf-8", errors="ignore")
                if file in self.pages:
                    text = "\n".join(block.text for block in self.pages[file])
                found.read(text)
                found.names.add("executable")  # perhaps it is run
        return self._mentioned[file]

    def file_of(self, module: str) -> str | None:
        """The file of a module, or of the module that has this name in it."""
        if module not in self._places:
            path = module.replace(".", "/")
            files = (f"{top}{path}{end}" for top in IMPORTED_FROM for end in (".py", "/__init__.py"))
            found = next((file for file in files if file in self.files), None)
            self._places[module] = found or (self.file_of(module.rpartition(".")[0]) if "." in module else None)
        return self._places[module]

    def imported_by(self, said: Mentioned) -> set[str]:
        """The files of its modules."""
        if said not in self._imported:
            self._imported[said] = {file for file in map(self.file_of, said.modules) if file}
        return self._imported[said]

    def parts(self, file: str) -> dict[str, Mentioned]:
        """The fixtures of a file that pytest reads, and what else it defines, by name; "" is what every test has to do with."""
        if file not in self._parts:
            self._parts[file] = found = {"": Mentioned()}
            tree, outside = self.parsed(file), dict[str, str]()
            for node in tree.body:
                if isinstance(node, ast.Import | ast.ImportFrom):
                    before = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                    outside |= {alias.asname or alias.name: before + alias.name for alias in node.names}
                    continue
                name = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else ""
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    name = node.targets[0].id
                always = name.startswith("pytest_") or (name and "autouse=True" in ast.unparse(node))
                found.setdefault("" if always else name, Mentioned()).walk(node)
            for said in found.values():
                said.asked |= said.names
                said.modules |= {outside[name] for name in said.names & outside.keys()}
        return self._parts[file]

    @cached_property
    def commands(self) -> dict[str, set[str]]:
        """The modules of each command, by its word."""
        found = defaultdict[str, set[str]](set)
        for node in self.parsed(COMMANDS).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in ("MODULES", "OF_EXTRAS"):
                for one, other in ast.literal_eval(node.value).items():
                    module, words = (one, other) if one.startswith("tarry.") else (other, one)
                    for word in words.split():
                        found[word].add(module)
        return found

    def reached_from(self, start: str) -> frozenset[str]:
        """All files that a test, or a page, has to do with; of the library none."""
        if start in self._reached:
            return self._reached[start]
        found, asked, words, runs_tarry = set[str](), {""}, set[str](), False
        near = dict(self._near(start))
        read_by_pytest = {
            f"{folder}/conftest.py" for folder in folders(start) if folder.startswith("tests/")
        } & self.files
        read_before = [*map(self.parts, read_by_pytest), *self._plugins]
        on_request = set[str]()
        taken, waiting = set[Mentioned](), {start}
        while waiting:
            found |= waiting
            said = [self.mentioned(file) for file in waiting]
            modules, following = set[str](), set[str]()
            for file, each in zip(waiting, said, strict=True):
                (on_request if app_of(file) == "programs/cli" else following).update(self.imported_by(each))
            outside = [each for file, each in zip(waiting, said, strict=True) if not file.startswith("src/")]
            while outside:
                asked |= set[str]().union(*(each.asked for each in outside))
                words |= set[str]().union(*(each.words for each in outside))
                runs_tarry |= any(each.runs_tarry for each in outside)
                outside = [
                    part for parts in read_before for name in asked & parts.keys() if (part := parts[name]) not in taken
                ]
                modules |= set[str]().union(*(each.modules for each in outside))
                taken.update(outside)
            if runs_tarry or not found.isdisjoint({WARM, MAIN, COMMANDS}):
                modules |= {"tarry.__main__"}.union(*(self.commands[word] for word in words & self.commands.keys()))
            for place, hints in {"examples/": {"examples"}, "docs/migrate/": {"docs", "migrate"}}.items():
                near |= self._near(place) if hints <= words else {}
            following |= {file for file in map(self.file_of, modules) if file}
            following |= {
                file for file in on_request if ON_REQUEST.get(app_of(file) or "", "tarry") in words | {"tarry"}
            }
            following |= {file for word in words & near.keys() for file in near[word]}
            waiting = following - found - read_by_pytest
            waiting = {file for file in waiting if app_of(file) != ""}
        self._reached[start] = frozenset(found)
        return self._reached[start]

    def _near(self, place: str) -> dict[str, list[str]]:
        """The files of a folder that are neither tests nor read by pytest, by their names and those of their folders."""
        folder = place.rpartition("/")[0] + "/"
        if folder not in self._nearby:
            self._nearby[folder] = found = defaultdict[str, list[str]](list)
            if folder.startswith(("tests/", "examples/", "docs/migrate/")):
                for file in self.files:
                    if file.startswith(folder) and not re.search(r"/(test_\w+|conftest)\.py$", file):
                        for name in {*file.removeprefix(folder).split("/"), *file.rpartition("/")[2].split(".")[:1]}:
                            found[name].append(file)
        return self._nearby[folder]

    # ── the tests of a change ────────────────────────────────────────────────────────────────────────────────────────

    def tests_of(self, changed: Iterable[str]) -> list[str]:
        """Files of tests, and pages whose blocks run; or ``EVERYTHING``."""
        found = set[str]()
        for file in changed:
            tests = self._tests_of_one(file)
            if tests is None:
                return EVERYTHING
            found |= tests
        return sorted(test for test in found if test.partition("::")[0] not in found - {test})

    def _tests_of_one(self, file: str) -> set[str] | None:
        app = app_of(file)
        if ALWAYS.fullmatch(file) or app in ("", PLUGIN):
            return None
        found = {file} & set(self.tests)
        if app:
            found |= {test for test in self.tests if self._is_about(app, test)}
            found |= {BLOCKS_OF.format(page) for page in self.pages if self._is_about(app, page)}
            return found
        folder, _, name = file.rpartition("/")
        top = file.partition("/")[0] if folder or not name.endswith(".md") else "docs"
        looked_for = {name} if top == "tests" else {name, top}  # who looks at all tests is a part of lint
        if folder.startswith("tests/") and (name == "conftest.py" or not name.endswith(".py")):
            found |= {test for test in self.tests if test.startswith(f"{folder}/")}
        for test in self.tests:
            reached = self.reached_from(test)
            outside = (self.mentioned(each) for each in reached if not each.startswith("src/"))
            if file in reached or any(said.looks_at(*looked_for) for said in outside):
                found.add(test)
        if top == "docs":
            found -= {BLOCKS}
            found |= {BLOCKS_OF.format(file)} if file in self.pages else set()
        if top == "tests" and name.startswith("test_"):
            return found  # one that is gone reaches nothing else
        return found if found and (file in self.files or top != "tests") else None

    def _is_about(self, app: str, start: str) -> bool:
        if start not in self._about:
            reached = self.reached_from(start)
            said = [self.mentioned(file).looked_at for file in reached - NOT_THIS_SRC if not file.startswith("src/")]
            places = set[str]().union(*said) if start in self.tests else set()
            self._about[start] = {*filter(None, map(app_of, reached))}, places
        apps, places = self._about[start]
        return app in apps or any(map(partial(is_of, app), places))


def runs(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language in RUNNERS and not block.not_run]


@cache
def app_of(file: str) -> str | None:
    """Of a file of the library "", of a file outside src none."""
    if found := re.match(r"src/tarry/(programs/\w+|celery|django)/|src/tarry/(otel\.py)", file):
        return found[1] or found[2]
    return "programs/cli" if file == MAIN else "" if file.startswith("src/") else None


def folders(file: str) -> Iterator[str]:
    """From the nearest one."""
    while "/" in file:
        file = file.rpartition("/")[0]
        yield file


def git(root: Path, *words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True)
    return [line for line in re.split(r"[\0\n]", done.stdout) if line]


def changed_since(root: Path, base: str) -> set[str]:
    """Both places of what was moved; and what git does not know yet."""
    [commit] = git(root, "merge-base", base, "HEAD")
    return {
        *git(root, "diff", "--name-only", "--no-renames", "-z", commit),
        *git(root, "ls-files", "--others", "--exclude-standard", "-z"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Prints the tests that a change can reach.")
    parser.add_argument("--base", default="main", help="a commit; main")
    parser.add_argument("file", nargs="*", help="what changes, instead of what git says")
    given = parser.parse_args()
    print(*Tree(ROOT).tests_of(given.file or changed_since(ROOT, given.base)), sep="\n")


if __name__ == "__main__":
    main()
