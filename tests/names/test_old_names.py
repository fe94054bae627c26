"""basedpyright finds a use of each old name, as mypy does in `make types`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from doc_pages import ROOT

USES = ROOT / "tests/typing/old_names.py"
COMMENT = "  # type: ignore["


@pytest.mark.slow
def test_basedpyright_refuses_each_use_of_an_old_name(tmp_path: Path) -> None:
    lines = USES.read_text(encoding="utf-8").splitlines()
    (tmp_path / USES.name).write_text("\n".join(line.partition(COMMENT)[0] for line in lines), encoding="utf-8")
    checker = Path(sys.executable).with_name("basedpyright")
    told = subprocess.run(
        [checker, "--pythonpath", sys.executable, "--outputjson", tmp_path / USES.name],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    errors = [one for one in json.loads(told.stdout)["generalDiagnostics"] if one["severity"] == "error"]
    refused = {one["range"]["start"]["line"] for one in errors}
    uses = {number for number, line in enumerate(lines) if COMMENT in line}
    assert len(uses) > 40
    assert [lines[number] for number in sorted(uses - refused)] == []
