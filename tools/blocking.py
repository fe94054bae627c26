"""Make the blocking clients from the awaited ones: the same words without ``await``. `make blocking`.

Only words change, by one table. What differs between tasks and threads is in `concurrency.py` of both packages, by the
same names. `--check`, in `make lint`, fails for a module that is stale. A docstring that differs has the other one behind it, in comments: `# blocking: …`.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLIENTS = Path("src/tarry/clients")
MADE = (
    {
        CLIENTS / "blocking" / f"{name}.py": CLIENTS / "awaited" / f"{name}.py"
        for name in (
            "background_loop base_client client ends engine finished_jobs flow_runner guarded_queue interfaces job lock_watchdog locks pubsub replica_reads schedules topic zookeeper"
        ).split()
    }
    | {
        CLIENTS / "redisson" / "blocking" / f"{name}.py": CLIENTS / "redisson" / "awaited" / f"{name}.py"
        for name in "blocking_queue delayed_queue duty_loop map_listener mapcache map_dict loader".split()
    }
    | {
        CLIENTS / "http" / "blocking.py": CLIENTS / "http" / "awaited.py",
        CLIENTS / "http" / "blocking_engine.py": CLIENTS / "http" / "awaited_engine.py",
    }
)
HEADER = "# Made from {source} by tools/blocking.py: change that file, then `make blocking`.\n"
DROPPED = {"async", "await"}
NAMES = {
    "awaited": "blocking",
    "awaited_engine": "blocking_engine",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "aclose": "close",
    "aread": "read",
    "handle_async_request": "handle_request",
    "asynccontextmanager": "contextmanager",
}
"""Words of the code. Each must be met somewhere."""
AWAITABLE = re.compile(r"\bAwaitable\[((?:[^\[\]]|\[[^\]]*\])*)\]")
MARK = "# blocking: "
FIXES = "I,F401"  # order of imports, imports that nothing uses


def blocking(source: str, met: set[str]) -> str:
    """The blocking module. Adds the words of the table that were met to ``met``."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    ]
    edits: list[tuple[int, int, str]] = []
    for at, token in enumerate(tokens):
        start, end = (starts[row - 1] + column for row, column in (token.start, token.end))
        if token.type == tokenize.NAME and (word := _word(token.string)) != token.string:
            met.add(token.string)
            edits.append((start, end + (not word), word))  # with the blank behind it
        elif token.type == tokenize.STRING and tokens[at + 1].string.startswith(MARK):
            text, last = _other_docstring(tokens, at + 1)
            edits.append((start, starts[last.end[0] - 1] + last.end[1], text))
        elif token.type == tokenize.STRING and not at:
            edits.append((start, end, _module_docstring(token.string)))
    for start, end, word in reversed(edits):
        source = source[:start] + word + source[end:]
    return AWAITABLE.sub(r"\1", source)


def _word(word: str) -> str:
    return "" if word in DROPPED else NAMES.get(word) or re.sub(r"^Async(?=[A-Z])", "", word)


def _module_docstring(text: str) -> str:
    return re.sub(r"\bAsync(?=[A-Z])", "", text.replace("an awaited", "a blocking").replace("awaited", "blocking"))


def _other_docstring(tokens: list[tokenize.TokenInfo], at: int) -> tuple[str, tokenize.TokenInfo]:
    """The docstring that stands in the comments from ``at`` on, and the last of them."""
    first = last = tokens[at]
    indent = " " * first.start[1]
    text = [first.string.removeprefix(MARK)]
    while tokens[at + len(text)].type == tokenize.COMMENT and tokens[at + len(text)].start[0] == last.start[0] + 1:
        last = tokens[at + len(text)]
        text.append((indent + last.string.removeprefix("#").removeprefix(" ")).rstrip())
    return '"""' + "\n".join(text) + (f'\n{indent}"""' if len(text) > 1 else '"""'), last


def made() -> dict[Path, str]:
    """The text of each module that is made. Raises ``SystemExit`` for a word of the table that nothing needs."""
    met: set[str] = set()
    texts: dict[Path, str] = {}
    for path, source in MADE.items():
        text = blocking((ROOT / source).read_text(encoding="utf-8"), met)
        texts[path] = HEADER.format(source=source) + text
    if unmet := (DROPPED | NAMES.keys()) - met:
        raise SystemExit(f"tools/blocking.py: no module says {', '.join(sorted(unmet))}. Take it out of the table.")
    return formatted(texts)


def formatted(texts: dict[Path, str]) -> dict[Path, str]:
    """All of them by two calls of ruff, in a folder where they have their own places: two calls for each take three times as long."""
    ruff = str(Path(sys.executable).with_name("ruff"))
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(ROOT / "pyproject.toml", folder)
        for path, text in texts.items():
            place = Path(folder, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        ours = f"src = [{json.dumps(str(ROOT / 'src'))}]"  # else an import of a module that is not made counts as another library's
        for command in (["check", "--fix-only", "--select", FIXES], ["format"]):
            subprocess.run([ruff, *command, "--quiet", "--no-cache", "--config", ours, "."], check=True, cwd=folder)
        return {path: Path(folder, path).read_text(encoding="utf-8") for path in texts}


def changed(texts: dict[Path, str]) -> dict[Path, str]:
    """Those that are not the texts of their files."""
    return {
        path: text
        for path, text in texts.items()
        if not (ROOT / path).exists() or (ROOT / path).read_text(encoding="utf-8") != text
    }


def main() -> None:
    write(changed(made()), "stale", check=sys.argv[1:] == ["--check"])


def write(found: dict[Path, str], what: str, *, check: bool) -> None:
    """Writes the texts of files. ``check``: writes none, and fails if there are any."""
    if check and found:
        raise SystemExit(f"{what}: {', '.join(map(str, found))}. Run `make blocking`.")
    for path, text in found.items():
        (ROOT / path).write_text(text, encoding="utf-8")
        print(f"written: {path}")


if __name__ == "__main__":
    main()
