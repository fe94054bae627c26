"""The package's own names: fetched lazily, all of them there, the same for people and type checkers."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tarry


def names_for_type_checkers() -> set[str]:
    tree = ast.parse(Path(tarry.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {name.asname or name.name for node in block.body if isinstance(node, ast.ImportFrom) for name in node.names}


def test_type_checkers_see_all_public_names() -> None:
    assert names_for_type_checkers() == {
        name for name in dir(tarry) if not name.startswith("_") or name == "__version__"
    } - {
        "TYPE_CHECKING",
        "import_module",
    } - {name for name, value in vars(tarry).items() if type(value) is type(sys) and name != "errors"}


@pytest.mark.parametrize("name", sorted(names_for_type_checkers()))
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(tarry, name) is not None


def test_an_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tarry.nothing  # type: ignore[attr-defined]


def test_importing_the_package_imports_no_driver() -> None:
    code = "import sys, tarry; assert 'redis' not in sys.modules and 'asyncio' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
