"""Nobody counts commas: a call with many arguments names them."""

from __future__ import annotations

import ast

from names.test_names import SRC, trees

MOST = 8
LOGGERS = {"debug", "info", "warning", "error", "log"}
"""Their arguments are those of a format."""


def test_no_call_passes_nine_positional_arguments() -> None:
    found = [
        f"{path.relative_to(SRC)}:{node.lineno} {ast.unparse(node.func)}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and len(node.args) > MOST
        and not (isinstance(node.func, ast.Attribute) and node.func.attr in LOGGERS)
    ]
    assert found == []
