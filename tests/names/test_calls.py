"""Nobody counts commas: a call with many arguments names them."""

from __future__ import annotations

import ast
from pathlib import Path

import tarry

ROOT = Path(tarry.__file__).parent
MOST = 8
LOGGERS = {"debug", "info", "warning", "error", "log"}
"""Their arguments are those of a format."""


def test_no_call_passes_nine_positional_arguments() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node.func)}"
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and len(node.args) > MOST
        and not (isinstance(node.func, ast.Attribute) and node.func.attr in LOGGERS)
    ]
    assert found == []
