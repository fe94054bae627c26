"""Lists the texts of the dashboard, for a reader: `.venv/bin/python tools/texts.py`, or thirty that a commit's hash draws: `--draw 30`.

    templates/*.html    texts between the tags, titles, labels, placeholders; `…` stands for a value, `[one|another]` for a choice
    *.py                sentences of pages, actions and errors, without docstrings; also of conditions and forecasts (serving)
    assets/*.js         sentences of the live page

A draw orders all texts by the SHA-256 of the commit's hash and the text, and takes the first. So nobody chooses them, and everybody
can draw the same again: `tools/texts.py --draw 30 --commit 30ec29fc`. A reader who knows none of them marks those that have to be read twice.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DASHBOARD = ROOT / "src/tarry/programs/dashboard"
SERVING = ROOT / "src/tarry/programs/serving"
ATTRIBUTES = ("aria-label", "placeholder", "title")
INLINE = {"a", "b", "bdi", "code", "em", "small", "span", "strong"}
SILENT = {"script", "style", "path", "svg"}
CONTROL = re.compile(r"\{%-?\s*(\w+)(.*?)-?%\}", re.S)
MARKS = {"if": "[", "else": "|", "elif": "|", "endif": "]"}
JS_TEXT = re.compile(r'"([^"\n]*)"|`([^`]*)`')


def texts() -> list[tuple[str, str]]:
    """Each text once, with the file it is first in."""
    found: dict[str, str] = {}
    for file in (*sorted(DASHBOARD.rglob("*")), SERVING / "conditions.py", SERVING / "forecast.py"):
        read = {".html": _of_template, ".py": _of_module, ".js": _of_script}.get(file.suffix)
        if read is None or file.name.endswith(".min.js"):
            continue
        for text in read(file.read_text("utf-8")):
            tidy = " ".join(text.split()).strip(" ·,")
            if _is_for_people(tidy):
                found.setdefault(tidy, str(file.relative_to(DASHBOARD.parent)))
    return [(file, text) for text, file in found.items()]


def draw(of: list[tuple[str, str]], n: int, commit: str) -> list[tuple[str, str]]:
    """The first texts in the order that the hash of a commit gives them."""
    return sorted(of, key=lambda one: sha256(f"{commit}:{one[1]}".encode()).hexdigest())[:n]


def _is_for_people(text: str) -> bool:
    return re.search(r"[A-Za-z]{3}", text) is not None and '="' not in text


class _Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._text = ""
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in ATTRIBUTES and value]
        if tag in SILENT:
            self._silent += 1
        if tag not in INLINE:
            self.end()

    def handle_endtag(self, tag: str) -> None:
        if tag in SILENT:
            self._silent -= 1
        if tag not in INLINE:
            self.end()

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._text += data

    def end(self) -> None:
        self.found += [part for part in re.split(r"\n\s*\n", self._text) if part.strip(" \n[]|…")]
        self._text = ""


def _of_template(source: str) -> Iterator[str]:
    bare = re.sub(r"\{#.*?#\}", "", source, flags=re.S)
    bare = re.sub(r'\{\{ ?"([^"]*)" if [^}]*? else "([^"]*)" ?\}\}', r"[\1|\2]", bare)
    bare = re.sub(r"\{\{.*?\}\}", "…", bare, flags=re.S)
    parser = _Texts()
    parser.feed(CONTROL.sub(lambda tag: MARKS.get(tag[1], "\n\n"), bare))
    parser.end()
    yield from parser.found


def _of_module(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in told:
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts | told:
            text = node.value
        else:
            continue
        if re.search(r"[a-z…] [a-z…]|^[A-Z][a-z]+$", text) and not re.search(r"[<>{}=]|^\w+\(", text):
            yield text


def _of_script(source: str) -> Iterator[str]:
    for line in source.splitlines():
        for quoted, template in JS_TEXT.findall(line.partition(" // ")[0]):
            text = re.sub(r"\$\{[^}]*\}", "…", quoted or template)
            if re.search(r"[a-z] [a-z]", text) and not re.search(r"[<>{}=#]|use strict", text):
                yield text


def main() -> None:
    """Prints the list, or a draw from it."""
    parser = argparse.ArgumentParser(description="Lists the texts of the dashboard.")
    parser.add_argument("--draw", type=int, help="how many to draw; without it, all are listed")
    parser.add_argument("--commit", help="the hash that draws them; without it, that of HEAD")
    given = parser.parse_args()
    found = texts()
    if given.draw is not None:
        head = subprocess.run(
            ["git", "rev-parse", given.commit or "HEAD"], check=True, capture_output=True, text=True, cwd=ROOT
        )
        found = draw(found, given.draw, head.stdout.strip())
    for file, text in found:
        print(f"{file}: {text}")


if __name__ == "__main__":
    main()
