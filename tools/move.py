"""Move modules and folders, and rewrite every mention of them: `.venv/bin/python tools/move.py TABLE [--commit]`.

The table has one group a commit: a line `# subject`, lines `#   body`, then lines `old new`, paths from the root of the tree.

    # wire: what both ends of HTTP share is a package beside them
    src/tarry/clients/http/wire   src/tarry/wire

A mention is an import, a dotted name (with or without `tarry.`), a path (with or without
`src/tarry/`), or a script's name. What a program puts together at run time is not found; the tests find it. Afterwards the blocking
clients are made anew, and ruff sorts the imports.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE, SCRIPTS, TESTS = "src/tarry/", "src/tarry/lua/", "tests/"
UNTOUCHED = {"tools/move.py", "docs/decisions/0090-names-of-the-inside.md"}
TEXT = {".py", ".md", ".toml", ".json", ".lua", ".yml", ".yaml", ".html", ".cfg", ".txt", ".svg", ".js", ".java", ""}


@dataclass
class Group:
    """What one commit moves."""

    subject: str
    body: list[str] = field(default_factory=list)
    moves: list[tuple[str, str]] = field(default_factory=list)


def groups_of(table: str) -> Iterator[Group]:
    """The groups of a table."""
    group: Group | None = None
    for line in table.splitlines():
        if line.startswith("#   ") and group is not None:
            group.body.append(line[4:])
        elif line.startswith("# "):
            if group is not None:
                yield group
            group = Group(line[2:])
        elif line.strip() and group is not None:
            old, new = line.split()
            group.moves.append((old, new))
    if group is not None:
        yield group


def dotted(path: str) -> str:
    """``src/tarry/core/watch.py`` is ``tarry.core.watch``; a test is imported from its folder below ``tests``."""
    top = "src/" if path.startswith(PACKAGE) else TESTS if path.startswith(TESTS) else ""
    return path.removeprefix(top).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def modules_of(old: str, new: str) -> dict[str, str]:
    """The modules below a path that moves, old name to new."""
    if old.endswith(".py"):
        return {dotted(old): dotted(new)}
    files = [str(path.relative_to(ROOT)) for path in (ROOT / old).rglob("*.py")]
    return {dotted(old): dotted(new)} | {dotted(file): dotted(new + file.removeprefix(old)) for file in files}


def patterns_of(old: str, new: str) -> Iterator[tuple[re.Pattern[str], str]]:
    """How a path is mentioned, and what stands there afterwards."""
    if old.startswith(PACKAGE):
        within, after = old.removeprefix(PACKAGE), new.removeprefix(PACKAGE)
        if "/" in within:
            yield (
                re.compile(rf"(?<![\w/-])((?:(?:\./)?src/)?(?:tarry/)?){re.escape(within)}(?![\w-])"),
                rf"\g<1>{after}",
            )
        else:
            yield re.compile(rf"(?<![\w/-])((?:src/)?tarry/){re.escape(within)}(?![\w-])"), rf"\g<1>{after}"
        name, renamed = dotted(old), dotted(new)
        yield re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)"), renamed
        short, shortened = name.removeprefix("tarry."), renamed.removeprefix("tarry.")
        before = r"(?<![\w.])" if short.count(".") > 1 else r"(?<=[\"'`])"  # `worker.process` in code is an attribute
        if "." in short:
            yield re.compile(rf"{before}{re.escape(short)}(?!\w)"), shortened
        package, _, module = name.rpartition(".")
        yield re.compile(rf"(?<![\w.]){re.escape(package)}:{module}(?!\w)"), ":".join(renamed.rsplit(".", 1))
    else:
        yield re.compile(rf"(?<![\w/-]){re.escape(old)}(?![\w-])"), new
        if old.startswith(TESTS) and (old.endswith(".py") or (ROOT / old).is_dir()):
            yield re.compile(rf"^(\s*(?:from|import) ){re.escape(dotted(old))}(?=[.\s])", re.M), rf"\g<1>{dotted(new)}"
    if "/lib/" in old and old.startswith(SCRIPTS):
        included = re.escape(include_of(old))
        yield re.compile(rf"^(-- include (?:[\w/]+ )*){included}(?![\w/])", re.M), rf"\g<1>{include_of(new)}"
    elif old.startswith(SCRIPTS):
        folder, target = old.removeprefix(SCRIPTS), new.removeprefix(SCRIPTS)
        if old.endswith(".lua"):
            yield re.compile(rf"(?<=[\"'`]){re.escape(folder[:-4])}(?=[\"'`])"), target[:-4]
            return
        names = "|".join(sorted(path.stem for path in (ROOT / old).glob("*.lua")))
        yield re.compile(rf"(?<=[\"']){re.escape(folder)}/({names})(?=[\"'])"), rf"{target}/\g<1>"


def include_of(path: str) -> str:
    """How a script includes a shared part."""
    folder, _, part = path.removeprefix(SCRIPTS).removesuffix(".lua").rpartition("lib/")
    return folder + part


def with_imports(text: str, modules: dict[str, str]) -> str:
    """The source in which ``from package import module`` names the package that the module is in now."""
    if not any(f"import {name.rpartition('.')[2]}" in text or name.rpartition(".")[2] in text for name in modules):
        return text
    lines = text.splitlines(keepends=True)
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) and not node.level]
    for node in sorted(found, key=lambda node: -node.lineno):
        moved = {alias for alias in node.names if f"{node.module}.{alias.name}" in modules}
        if not moved:
            continue
        indent = " " * node.col_offset
        statements = list[str]()
        left = [alias for alias in node.names if alias not in moved]
        if left:
            statements.append(f"from {node.module} import {', '.join(map(ast.unparse, left))}")
        for alias in (alias for alias in node.names if alias in moved):
            package, _, name = modules[f"{node.module}.{alias.name}"].rpartition(".")
            known = alias.asname or alias.name
            imported = name if known == name else f"{name} as {known}"
            statements.append(f"from {package} import {imported}" if package else f"import {imported}")
        last = lines[(node.end_lineno or node.lineno) - 1]
        comment = last[node.end_col_offset or 0 :].rstrip()
        lines[node.lineno - 1 : node.end_lineno] = [f"{indent}{one}{comment}\n" for one in statements]
    return "".join(lines)


def rewrite(group: Group) -> None:
    """Rewrites all mentions, then moves the files."""
    modules: dict[str, str] = {}
    patterns = list[tuple[re.Pattern[str], str]]()
    for old, new in group.moves:
        if not (ROOT / old).exists():
            raise SystemExit(f"{old} does not exist")
        if old.endswith(".py") or (ROOT / old / "__init__.py").exists():
            modules |= modules_of(old, new)
        patterns += patterns_of(old, new)
    for file in git("ls-files").splitlines():
        path = ROOT / file
        if file in UNTOUCHED or path.suffix not in TEXT or path.is_symlink() or not path.is_file():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        changed = with_imports(text, modules) if path.suffix == ".py" else text
        for pattern, target in patterns:
            changed = pattern.sub(target, changed)
        if changed != text:
            path.write_text(changed, encoding="utf-8")
    for old, new in group.moves:
        (ROOT / new).parent.mkdir(parents=True, exist_ok=True)
        git("mv", old, new)


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def run(*words: str, check: bool = True) -> None:
    subprocess.run(words, cwd=ROOT, check=check, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    if git("status", "--porcelain", "--untracked-files=no"):
        raise SystemExit("commit what is changed first: a move is a commit of its own")
    for group in groups_of(Path(sys.argv[1]).read_text(encoding="utf-8")):
        rewrite(group)
        run(sys.executable, "tools/blocking.py", check=False)
        run(sys.executable, "-m", "ruff", "check", "--quiet", "--fix", "--select", "I", ".", check=False)
        run(sys.executable, "-m", "ruff", "format", "--quiet", ".")
        print(group.subject)
        if "--commit" in sys.argv[2:]:
            git("add", "--all")
            git("commit", "--quiet", "-m", group.subject, "-m", "\n".join(group.body))
