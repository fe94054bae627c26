r"""Rename classes, functions, members, parameters and locals by their types: `.venv/bin/python tools/rename.py TABLE.toml [--check]`.

The table has one group a name. Names are dotted from the top of the file. `--check` shows what would change, and changes nothing.

    [[rename]]
    kind = "member"      # or "class", "function", "parameter", "local"; a member is a method, an attribute, a field
    path = "src/tarry/verbs/jobs/job_values.py"
    old = "Added.created"
    new = "is_new"
    words = [['"created": (true|false)', '"is_new": \g<1>', "docs/**"]]   # also in all text: pattern, target, which files
    skip = ["docs/migrate/*"]            # files in which no word is replaced
    untyped = [["added", "tests/*"]]     # also uses without a type, of what matches this pattern, in these files
    apart = ["Journal"]                  # classes that would be renamed, too, and are not

basedpyright's language server finds the uses in all Python files, and in the Python blocks of the pages. The other client, overrides and
the protocols that fit are renamed as well. The name of a class is also replaced as a word: everywhere if it has two capitals, otherwise in
code only, for `Minute` is a word of prose, too. What the server cannot see is listed as left: strings, untyped uses, templates, scripts.
Afterwards the blocking clients are made anew, and ruff sorts the imports.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from code_in_text import blocks_of, code_of, with_class
from definitions import FUNCTIONS, Class, Module, Position, Tree
from language_server import Edit, LanguageServer

ROOT = Path(__file__).resolve().parent.parent
PAGES = "build/rename-pages"
"""The Python blocks of each page as a file with the same lines, for the server."""
KINDS = ("class", "function", "member", "parameter", "local")
TEXT = {".py", ".md", ".toml", ".json", ".lua", ".yml", ".yaml", ".html", ".txt", ".svg", ".js", ".java", ".jsonl"}
UNTOUCHED = {f"tools/{name}.py" for name in ("rename", "definitions", "language_server", "code_in_text")}
SHOWN = 12
"""How many lines of a file are listed."""


@dataclass(frozen=True)
class Row:
    """What is renamed."""

    kind: str
    path: str
    old: str
    new: str
    words: tuple[tuple[str, ...], ...] = ()
    apart: frozenset[str] = frozenset()
    untyped: tuple[tuple[str, str], ...] = ()
    skip: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        return self.old.rpartition(".")[2]


@dataclass(frozen=True)
class Target:
    """A definition, and what it is called afterwards."""

    position: Position
    old: str
    new: str


def rows_of(table: str) -> list[Row]:
    rows = list[Row]()
    for group in tomllib.loads(table)["rename"]:
        words, untyped = (tuple(map(tuple, group.pop(name, ()))) for name in ("words", "untyped"))
        apart, skip = frozenset(group.pop("apart", ())), tuple(group.pop("skip", ()))
        row = Row(**group, words=words, untyped=untyped, apart=apart, skip=skip)
        if row.kind not in KINDS:
            raise SystemExit(f"{row.old}: kind is one of {', '.join(KINDS)}, not {row.kind}")
        rows.append(row)
    return rows


class Renaming:
    """Renames one row after another."""

    def __init__(self, tree: Tree, server: LanguageServer) -> None:
        self._tree = tree
        self._server = server
        self.before: dict[str, str] = {}
        """The texts of the files that have changed."""
        self._indents: dict[str, list[int]] = {}
        for page in (file for file in tree.files if file.endswith(".md")):
            self._show_blocks(page)

    def rename(self, row: Row) -> None:
        if row.path not in self._tree.modules:
            raise SystemExit(f"{row.path}: no such file in git")
        print(f"{row.old} -> {row.new}")
        targets = list(dict.fromkeys(self._targets(row)))
        if not targets:
            raise SystemExit(f"{row.path}: no {row.kind} {row.old}")
        edits = self._edits(targets)
        if row.kind in ("class", "function"):
            self._refuse_known(edits, {target.new for target in targets})
        self._apply(edits, {target.old for target in targets})
        print(f"  {sum(map(len, edits.values()))} places in {len(edits)} files")
        for target in {(target.old, target.new): target for target in reversed(targets)}.values():
            self._rename_untyped(row, target)
            self._replace_words(row, target, row.words if target == targets[0] else ())
        for word in sorted({target.old for target in targets if row.kind != "local"}):
            self._show_left(row, word)

    # ------------------------------------------------------------------------------------------------ definitions

    def _targets(self, row: Row) -> Iterator[Target]:
        if row.kind == "member":
            outer, _, member = row.old.rpartition(".")
            for one in self._family(row, outer, member):
                if row.new in one.names:
                    raise SystemExit(f"{one} has {row.new} already")
                for node in one.members[member]:
                    yield Target(one.module.position(node, member), member, row.new)
            return
        if row.kind == "parameter":
            yield from self._parameters(row)
            return
        for path, old in ((row.path, row.old), *self._tree.twins(row.path, row.old)):
            word = old.rpartition(".")[2]
            new = self._new_of_twin(row, word)
            for module, node in self._tree.definitions(path, old):
                if row.kind == "local":
                    self._refuse_used(module, old.rpartition(".")[0], new)
                yield Target(module.position(node, word), word, new)
                if row.kind == "local":
                    break

    def _family(self, row: Row, outer: str, member: str) -> list[Class]:
        start = self._tree.class_of(row.path, outer)
        if member not in start.members:
            raise SystemExit(f"{start} does not define {member}: name the class that does")
        family = [start] if member == "__init__" else self._tree.family(start, member, row.apart)
        if member == "__init__":
            family += [self._tree.class_of(*twin) for twin in self._tree.twins(row.path, outer)]
        for one in family[1:]:
            print(f"  also: {one}")
        return family

    def _parameters(self, row: Row) -> Iterator[Target]:
        function, _, name = row.old.rpartition(".")
        outer, _, method = function.rpartition(".")
        if outer in self._tree.modules[row.path].classes:
            nodes = [
                (one.module, node) for one in self._family(row, outer, method) for node in one.members.get(method, ())
            ]
        else:
            places = ((row.path, function), *self._tree.twins(row.path, function))
            nodes = [found for place in places for found in self._tree.definitions(*place)]
        for module, node in nodes:
            if isinstance(node, FUNCTIONS):
                for argument in (one for one in ast.walk(node.args) if isinstance(one, ast.arg) and one.arg == name):
                    _refuse_used_in(module, node, row.new)
                    yield Target(module.position(argument, name), name, row.new)

    def _new_of_twin(self, row: Row, word: str) -> str:
        if word == f"Async{row.word}":
            return f"Async{row.new}"
        return row.new.removeprefix("Async") if row.word == f"Async{word}" else row.new

    def _refuse_used(self, module: Module, function: str, new: str) -> None:
        for _, node in self._tree.definitions(module.path, function):
            _refuse_used_in(module, node, new)

    def _refuse_known(self, edits: dict[str, set[Edit]], new: set[str]) -> None:
        for path in edits.keys() & self._tree.modules.keys():
            module = self._tree.modules[path]
            if known := new & (module.imports.keys() | module.classes.keys()):
                raise SystemExit(f"{path} knows another {', '.join(known)}")

    # ------------------------------------------------------------------------------------------------------ edits

    def _edits(self, targets: list[Target]) -> dict[str, set[Edit]]:
        edits: dict[str, set[Edit]] = defaultdict(set)
        for target in targets:
            place = target.position
            found = self._server.rename(place.path, place.line, place.column, target.new)
            if not found:
                raise SystemExit(f"{place.path}:{place.line + 1}: the language server does not rename {target.old}")
            for path, some in found.items():
                edits[path] |= some
        return edits

    def _apply(self, edits: dict[str, set[Edit]], old: set[str]) -> None:
        changed: dict[str, str] = {}
        for path, some in edits.items():
            page = path.removeprefix(f"{PAGES}/").removesuffix(".py") if path.startswith(PAGES) else None
            lines = self._read(page or path).split("\n")
            for edit in sorted(some, reverse=True):
                indent = self._indents[page][edit.line] if page else 0
                line, start, end = lines[edit.line], edit.start + indent, edit.end + indent
                if line[start:end] not in old:
                    raise SystemExit(
                        f"{page or path}:{edit.line + 1}: not {line[start:end]!r} was to be renamed; start again"
                    )
                lines[edit.line] = line[:start] + edit.text + line[end:]
            changed[page or path] = "\n".join(lines)
        self._write(changed)

    def _read(self, path: str) -> str:
        return (ROOT / path).read_text(encoding="utf-8")

    def _write(self, texts: dict[str, str]) -> None:
        for path, text in texts.items():
            self.before.setdefault(path, self._read(path))
            (ROOT / path).write_text(text, encoding="utf-8")
            if path.endswith(".md"):
                self._show_blocks(path)
        self._tree.changed(set(texts))
        pages = [f"{PAGES}/{path}.py" for path in texts if path in self._indents]
        self._server.changed([*pages, *(path for path in texts if path.endswith(".py"))])

    def _show_blocks(self, page: str) -> None:
        lines, indents = blocks_of(self._read(page))
        if any(lines):
            self._indents[page] = indents
            (ROOT / PAGES / page).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / PAGES / f"{page}.py").write_text("\n".join(lines), encoding="utf-8")

    # ------------------------------------------------------------------------------------------------------ words

    def _replace_words(self, row: Row, target: Target, words: tuple[tuple[str, ...], ...]) -> None:
        changes: dict[str, str] = {}
        is_unique = len(re.findall(r"[A-Z]", target.old)) > 1 and not self._tree.classes_called(target.old)
        packages = "|".join(sorted({path.removeprefix("src/").partition("/")[0] for path in self._tree.modules}))
        whole = re.compile(rf"(?<!\w){re.escape(target.old)}(?!\w)")
        for path in self._text_files():
            text = changed = self._read(path)
            if any(fnmatch(path, one) for one in row.skip):
                continue
            if row.kind == "class" and target.old in text:
                changed = with_class(path, text, whole, target.new, is_unique=is_unique, packages=packages)
            for pattern, new, *which in words:
                if not which or any(fnmatch(path, one) for one in which):
                    changed = re.sub(pattern, new, changed, flags=re.M)
            if changed != text:
                changes[path] = changed
        before = {path: self._read(path) for path in changes}
        self._write(changes)
        if changes:
            print(f"  words: {target.new} instead of {target.old}")
        for path, text in sorted(changes.items()):
            pairs = zip(before[path].split("\n"), text.split("\n"), strict=False)
            show(path, [at for at, (old, new) in enumerate(pairs, 1) if old != new])

    def _text_files(self) -> Iterator[str]:
        for path in self._tree.files:
            if Path(path).suffix in TEXT and path not in UNTOUCHED:
                yield path

    # ------------------------------------------------------------------------------------------------------- left

    def _show_left(self, row: Row, word: str) -> None:
        left: dict[str, dict[str, list[int | tuple[int, str]]]] = defaultdict(lambda: defaultdict(list))
        for path in self._text_files():
            text = self._read(path)
            if re.search(rf"\b{re.escape(word)}\b", text):
                found = (
                    self._left_in_python(row, word, path)
                    if path.endswith(".py")
                    else left_in_text(row, word, path, text)
                )
                for what, line, of in found:
                    left[what][path].append((line + 1, of) if of else line + 1)
        for what, files in left.items():
            print(f"  left: {word} in {what}")
            for path, lines in files.items():
                show(path, lines)

    def _left_in_python(self, row: Row, word: str, path: str) -> Iterator[tuple[str, int, str]]:
        module = self._tree.modules[path]
        for node, of in self._untyped(row, word, module):
            yield "uses without a type", module.position(node, word).line, of if len(of) < 40 else f"…{of[-38:]}"
        if row.kind != "parameter":
            for node in ast.walk(module.tree):
                if isinstance(node, ast.Constant) and re.search(rf"(?:^|\.){re.escape(word)}\Z", str(node.value)):
                    yield "strings", node.lineno - 1, ""

    def _rename_untyped(self, row: Row, target: Target) -> None:
        edits: dict[str, set[Edit]] = defaultdict(set)
        for path, module in self._tree.modules.items():
            patterns = [pattern for pattern, files in row.untyped if fnmatch(path, files)]
            if patterns and target.old in module.text:
                for node, of in self._untyped(row, target.old, module):
                    if any(re.fullmatch(pattern, of) for pattern in patterns):
                        at = module.position(node, target.old)
                        edits[path].add(Edit(at.line, at.column, at.column + len(target.old), target.new))
        self._apply(edits, {target.old})
        if row.untyped:
            print(f"  {sum(map(len, edits.values()))} places without a type")

    def _untyped(self, row: Row, word: str, module: Module) -> Iterator[tuple[ast.AST, str]]:
        """Uses of the word that could be this name: the server does not know what they are. With what it is used of."""
        callee = row.old.removesuffix(".__init__").split(".")[-2] if row.kind == "parameter" else ""
        called = {callee, f"Async{callee}", callee.removeprefix("Async")}
        for node in ast.walk(module.tree):
            uses: list[tuple[ast.AST, str]] = []
            if isinstance(node, ast.Call) and row.kind in ("member", "parameter"):
                if row.kind == "member" or last_name(node.func) in called:
                    uses = [(one, ast.unparse(node.func) + "()") for one in node.keywords if one.arg == word]
            elif row.kind != "parameter" and last_name(node) == word:
                if isinstance(node, ast.Attribute):
                    uses = [(node, ast.unparse(node.value))]
                elif row.kind != "member":
                    uses = [(node, "")]
            yield from (use for use in uses if not self._is_known(module, use[0], word))

    def _is_known(self, module: Module, node: ast.AST, word: str) -> bool:
        place = module.position(node, word)
        return self._server.is_known(place.path, place.line, place.column)


def show(path: str, lines: Iterable[int | tuple[int, str]]) -> None:
    found = sorted(set(lines), key=lambda one: one if isinstance(one, int) else one[0])
    texts = [str(one) if isinstance(one, int) else f"{one[0]} {one[1]}".rstrip() for one in found]
    more = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    print(f"    {path}:{', '.join(texts[:SHOWN])}{more}")


def last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def left_in_text(row: Row, word: str, path: str, text: str) -> Iterator[tuple[str, int, str]]:
    """Where the old word stands in what is no Python; of a page, in code only."""
    pattern = re.compile(rf"\b{re.escape(word)}\b")
    if row.kind == "parameter":
        callee = row.old.split(".")[-2]
        pattern = re.compile(rf"\b{callee}\(.*\b{re.escape(word)}\b")
    spans = list(code_of(text)) if path.endswith(".md") else [(0, len(text))]
    for start, end in spans:
        for found in pattern.finditer(text, start, end):
            yield "pages" if path.endswith(".md") else f"*{Path(path).suffix}", text.count("\n", 0, found.start()), ""


def _refuse_used_in(module: Module, node: ast.AST, new: str) -> None:
    for inner in ast.walk(node):
        if (isinstance(inner, ast.Name) and inner.id == new) or (isinstance(inner, ast.arg) and inner.arg == new):
            raise SystemExit(f"{module.path}:{inner.lineno}: {new} is used there already")


def run(*words: str) -> str:
    return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main(table: str, *, is_check: bool) -> None:
    if run("git", "status", "--porcelain", "--untracked-files=no"):
        raise SystemExit("commit what is changed first: a rename is a commit of its own")
    rows = rows_of(Path(table).read_text(encoding="utf-8"))
    tree = Tree(ROOT)
    tree.files = [file for file in tree.files if (ROOT / file).resolve() != Path(table).resolve()]
    folders = {path.partition("/")[0] for path in tree.modules} | {PAGES}
    (ROOT / PAGES).mkdir(parents=True, exist_ok=True)
    with LanguageServer(ROOT, folders, ("src", "tests", "docs", "tools", ".")) as server:
        renaming = Renaming(tree, server)
        try:
            for row in rows:
                renaming.rename(row)
        except BaseException:
            is_check = True
            raise
        finally:
            if is_check:
                for path, text in renaming.before.items():
                    (ROOT / path).write_text(text, encoding="utf-8")
    if not is_check:
        print(run(sys.executable, "tools/blocking.py"), end="")
        run(sys.executable, "-m", "ruff", "check", "--quiet", "--fix-only", "--select", "I", ".")
        run(sys.executable, "-m", "ruff", "format", "--quiet", ".")


if __name__ == "__main__":
    main(sys.argv[1], is_check="--check" in sys.argv[2:])
