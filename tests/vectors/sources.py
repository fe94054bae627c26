"""The scripts as files: put together as the contract says, without the product's code, and with a mark on each statement."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path

LUA = Path(__file__).resolve().parents[2] / "src" / "tarry" / "lua"
INCLUDE = re.compile(r"^-- include ([\w/ ]+)$", re.M)
KEYS = re.compile(r"^local ([\w, ]+) = unpack\(KEYS\)$", re.M)
TOKEN = re.compile(r"--[^\n]*|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|\w+|\s+|\.\.\.?|[=~<>]=|.")
NO_STATEMENT = {"else", "elseif", "end", "until", "and", "or", "not"}
"""Words that begin a line which is not a statement."""
CONTINUED = {"=", ",", "and", "or", "not", "..", "return", "+", "-", "*", "/", "(", "{", "=="}
"""What ends a line that the next one continues."""
OF_SEVERAL_TOPICS = ["due", "reserved", "meta", "u:due", "u:reserved", "u:meta"]
"""The keys of a vector whose script takes those of any number of topics: two."""
HITS = "hits"
"""The key of the marks that were passed."""


@cache
def text_of(name: str) -> str:
    return (LUA / f"{name}.lua").read_text("utf-8")


@lru_cache(maxsize=512)
def assembled(script: str, text: Callable[[str], str] = text_of) -> str:
    """The script with its shared parts; ``text`` returns that of a file."""

    def included(match: re.Match[str]) -> str:
        parts = (name.rpartition("/") for name in match[1].split())
        return "\n".join(
            assembled(f"{folder}/lib/{part}" if folder else f"lib/{part}", text) for folder, _, part in parts
        )

    return INCLUDE.sub(included, text(script))


def parts(script: str) -> list[str]:
    """The names of its keys."""
    found = KEYS.search(text_of(script))
    return found[1].split(", ") if found else OF_SEVERAL_TOPICS


@cache
def marked(name: str) -> str:
    """The text of a file with a mark before each statement that begins a line, and in each branch within a line."""
    return "".join(_marked(name)[0])


@cache
def marks(script: str) -> frozenset[str]:
    """The marks of a script and of its shared parts: `lib/watch:12`, or `lib/watch:12 then`."""
    found = set(_marked(script)[1])
    for match in INCLUDE.finditer(text_of(script)):
        for name in match[1].split():
            folder, _, part = name.rpartition("/")
            found |= marks(f"{folder}/lib/{part}" if folder else f"lib/{part}")
    return frozenset(found)


@cache
def _marked(name: str) -> tuple[list[str], list[str]]:
    out: list[str] = []
    found: list[str] = []
    line, depth, begins, last = 1, 0, True, ""
    pending = ""  # a branch that may continue in this line
    parameters = 0  # 1: after `function`, 2: in its parentheses
    for token in TOKEN.findall(text_of(name)):
        if token.isspace():
            out.append(token)
            if "\n" in token:
                line, begins, pending = line + token.count("\n"), True, ""
            continue
        if token.startswith("--"):
            out.append(token)
            pending = ""
            continue
        is_word = token[0].isalpha() or token[0] == "_"
        mark = ""
        if begins and depth == 0 and is_word and token not in NO_STATEMENT and last not in CONTINUED:
            mark = f"{name}:{line}"
        elif pending and token not in ("end", "else", "elseif"):
            mark = f"{name}:{line} {pending}"
        if mark:
            found.append(mark)
            out.append(f"redis.call('SADD', '{HITS}', '{mark}'); ")
        begins, pending = False, ""
        out.append(token)
        if token == "function":
            parameters = 1
        elif parameters == 1 and token == "(":
            parameters = 2
        elif parameters == 2 and token == ")":
            parameters, pending = 0, "function"
        elif token in ("then", "else", "do"):
            pending = token
        depth += (token in "({[") - (token in ")}]") if len(token) == 1 else 0
        last = token
    return out, found
