"""Draws faults at random from a seed that is written down: in ``tests``, ``python -m mutants.draw --seed 7 >> mutants/drawn.toml``.

Our own and small, for mutmut and cosmic-ray know no Lua, keep no list that outlives a change of the code, and choose no
tests. A place is drawn from all of tarry's Python and Lua that is written, each as likely as any other: in a made module,
`make lint` notices any fault. `--since` draws from young lines alone, `--both` from text that another revision has, too. A
fault is one of

    < ↔ <=   > ↔ >=   == ↔ !=   and ↔ or   + ↔ -   a number one larger   True ↔ False   not x → x   a call left out
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import subprocess
import tomllib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

LIST = Path(__file__).with_name("drawn.toml")
SOURCE = Path(__file__).parents[2] / "src" / "tarry"
MADE = "# Made from "
COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
LUA = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "~=", "~=": "==", "and": "or", "or": "and", "+": "-", "-": "+",
    "true": "false", "false": "true",
}  # fmt: skip
TOKENS = re.compile(r"--.*|'[^'\n]*'|(?<= )(<=|>=|==|~=|<|>|and|or|\+|-|true|false|\d+)(?=[ ,)\]]|$)", re.M)


class Fault(NamedTuple):
    at: int
    to: int
    text: str


def in_lua(text: str) -> Iterator[Fault]:
    for found in TOKENS.finditer(text):
        token = found[1]
        if token is not None and not text[: found.start()].rpartition("\n")[2].startswith("local due"):
            yield Fault(*found.span(1), LUA.get(token) or str(int(token) + 1))


def in_python(text: str) -> Iterator[Fault]:
    begins = [0]
    for line in text.encode().splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    for node in _walk(ast.parse(text)):
        if (changed := _changed(node)) is not None:
            at = begins[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
            to = begins[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
            yield Fault(at, to, changed)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """What runs: no annotations, no formatted texts (their places are not told), no imports for types."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, (ast.JoinedStr, ast.Assert)):
                continue
            if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.AST):
                yield child
                yield from _walk(child)


def _changed(node: ast.AST) -> str | None:
    match node:
        case ast.Compare(ops=[one]) if type(one) in COMPARED:
            return ast.unparse(ast.Compare(node.left, [COMPARED[type(one)]()], node.comparators))
        case ast.BoolOp():
            return ast.unparse(ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values))
        case ast.BinOp(op=ast.Add() | ast.Sub()) if not _is_text(node):
            return ast.unparse(
                ast.BinOp(node.left, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add(), node.right)
            )
        case ast.Constant(value=bool()):
            return str(not node.value)
        case ast.Constant(value=int()):
            return str(node.value + 1)
        case ast.UnaryOp(op=ast.Not()):
            return ast.unparse(node.operand)
        case ast.Expr(value=ast.Call() | ast.Await()):
            return "pass"
    return None


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(side, (ast.Constant, ast.JoinedStr)) and not isinstance(getattr(side, "value", 0), (int, float))
               for side in (node.left, node.right))  # fmt: skip


def drawn(seed: int, since: str, both: str) -> Iterator[dict[str, str]]:
    """File, whole lines that stand there once, and the same with the fault; in an order that the seed gives."""
    places = []
    for path in sorted([*SOURCE.rglob("*.py"), *SOURCE.rglob("*.lua")]):
        if not (text := path.read_text(encoding="utf-8")).startswith(MADE):
            places += [(path, fault) for fault in (in_lua(text) if path.suffix == ".lua" else in_python(text))]
    for path, fault in random.Random(seed).sample(places, len(places)):
        raw = path.read_text(encoding="utf-8")
        whole = raw.encode() if path.suffix == ".py" else None  # ast counts bytes
        at, to = fault.at, fault.to
        if whole is not None:
            at, to = len(whole[:at].decode()), len(whole[:to].decode())
        begin, end = raw.rfind("\n", 0, at) + 1, raw.find("\n", to) + 1 or len(raw)
        while raw.count(raw[begin:end]) > 1:
            begin = raw.rfind("\n", 0, begin - 1) + 1
        old = raw[begin:end]
        file, line = str(path.relative_to(SOURCE)), 1 + raw.count("\n", 0, at)
        if since and _git("blame", f"--since={since}", f"-L{line},+1", file).startswith("^"):  # it is older
            continue
        if not both or _git("show", f"{both}:./{file}").count(old) == 1:
            yield {"file": file, "old": old, "new": raw[begin:at] + fault.text + raw[to:end]}


def _git(*words: str) -> str:
    """What git says; nothing of a file that it does not have."""
    return subprocess.run(["git", *words], cwd=SOURCE, capture_output=True, text=True, check=False).stdout


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m mutants.draw")
    asked.add_argument("--seed", type=int, required=True)
    asked.add_argument("--many", type=int, default=20)
    asked.add_argument("--since", default="", help="a date and a time: draw from lines that were written later")
    asked.add_argument("--both", default="", help="a revision: draw what stands there, too, and once")
    given = asked.parse_args()
    listed = tomllib.loads(LIST.read_text("utf-8"))
    known = [(fault["file"], fault["old"], fault["new"]) for fault in listed.values()]
    fresh = (one for one in drawn(given.seed, given.since, given.both) if tuple(one.values()) not in known)
    age = f" from lines younger than {given.since}" if given.since else ""
    print(f"\n# Drawn{age} with the seed {given.seed}.")
    for number, fault in enumerate(islice(fresh, given.many), len(listed) + 1):
        print(f"\n[drawn-{number:03}]")
        print("\n".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in fault.items()))


if __name__ == "__main__":
    main()
