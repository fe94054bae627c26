"""The wheel and the sdist, as `make dist` builds them: complete, with licences, an SBOM, and a README that an index can show."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tarry
from doc_pages import ROOT

if TYPE_CHECKING:
    from email.message import Message

pytestmark = pytest.mark.slow
ADDRESS = re.findall(r'^repository = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M)[0]
INFO = f"tarry-{tarry.__version__}.dist-info"


def run(*command: object, at: Path = ROOT) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=at, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel from the sdist, as `build` does it, by what `build` calls."""
    at = tmp_path_factory.mktemp("dist")
    hatchling = (sys.executable, "-m", "hatchling", "build", "--directory", at)
    run(*hatchling, "--target", "sdist")
    with tarfile.open(next(at.glob("*.tar.gz"))) as sdist:
        sdist.extractall(at / "from", filter="data")
    run(*hatchling, "--target", "wheel", at=next((at / "from").iterdir()))
    return at


@pytest.fixture(scope="module")
def wheel(dist: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(dist.glob("*.whl")))


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    return Parser().parsestr(wheel.read(f"{INFO}/METADATA").decode())


def test_another_build_gives_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    """In another folder, at another time, from files with other rights."""
    [first] = (dist / "from").iterdir()
    copy = tmp_path / "elsewhere"
    shutil.copytree(first, copy, copy_function=shutil.copyfile)  # with times and rights of its own
    [wheel] = dist.glob("*.whl")
    run(sys.executable, "-m", "hatchling", "build", "--directory", tmp_path, "--target", "wheel", at=copy)
    assert next(tmp_path.glob("*.whl")).read_bytes() == wheel.read_bytes()


@pytest.mark.long
def test_the_packaging_tools_report_no_problems(dist: Path) -> None:
    """CI asks them with every change, too: `make dist`."""
    tools = Path(sys.executable).parent
    run(tools / "twine", "check", "--strict", *dist.glob("tarry-*"))
    run(tools / "check-wheel-contents", *dist.glob("*.whl"))
    run(tools / "pyroma", "--min", 8, ".")


def test_an_index_can_show_the_metadata(metadata: Message) -> None:
    for field in (
        "Summary",
        "Author",
        "Keywords",
        "Classifier",
        "Requires-Python",
        "License-Expression",
        "License-File",
    ):
        assert metadata[field], field
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert str(metadata.get_payload()).startswith("# ")


def test_the_wheel_has_every_file_of_the_source(wheel: zipfile.ZipFile) -> None:
    files = (path for path in (ROOT / "src/tarry").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    wanted = {
        path.relative_to(ROOT / "src").as_posix()
        for path in files
        if path.suffix != ".LICENSE" and path.parent.name != "vectors"
    }
    assert wanted - set(wheel.namelist()) == set()
    assert {name for name in wheel.namelist() if "__pycache__" in name or name.endswith(".pyc")} == set()
    assert {name.partition("/")[0] for name in wheel.namelist()} == {"tarry", INFO}


def test_every_third_party_file_has_a_licence_and_is_in_the_sbom(wheel: zipfile.ZipFile, metadata: Message) -> None:
    licences = [name for name in wheel.namelist() if name.startswith(f"{INFO}/licenses/")]
    assert sorted(Path(name).name for name in licences) == ["LICENSE", "idiomorph.LICENSE"]
    assert metadata["License-Expression"] == "Apache-2.0 AND 0BSD"
    sbom = json.loads(wheel.read(f"{INFO}/sboms/tarry.cdx.json"))
    assert sbom["metadata"]["component"]["version"] == tarry.__version__
    [bundled] = [part for part in sbom["components"] if "hashes" in part]
    minified = [name for name in wheel.namelist() if ".min." in name]
    assert minified == [bundled["properties"][0]["value"]]
    assert hashlib.sha256(wheel.read(minified[0])).hexdigest() == bundled["hashes"][0]["content"]


def test_the_sbom_names_every_dependency(wheel: zipfile.ZipFile, metadata: Message) -> None:
    sbom = json.loads(wheel.read(f"{INFO}/sboms/tarry.cdx.json"))
    needed = {re.split(r"[^\w.-]", text)[0] for text in metadata.get_all("Requires-Dist", [])}
    assert needed - {"tarry"} == {part["name"] for part in sbom["components"] if part["purl"].startswith("pkg:pypi/")}


def test_every_link_and_picture_of_the_readme_works_on_an_index(metadata: Message) -> None:
    text = str(metadata.get_payload())
    assert [link for link in re.findall(r"\]\(([^)]+)\)", text) if not re.match("https?://|#", link)] == []
    version = tarry.__version__
    for picture in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text):
        assert (ROOT / picture.removeprefix(f"{ADDRESS}/raw/v{version}/")).exists()
    urls = dict(text.split(", ") for text in metadata.get_all("Project-URL", []))
    assert set(urls) == {"Homepage", "Source", "Documentation", "Changelog", "Issues", "Security"}
    for url in urls.values():
        file = url.removeprefix(ADDRESS).removeprefix(f"/blob/v{version}/")
        assert file in {"", "/issues"} or (ROOT / file).exists()


def test_the_version_is_defined_in_one_place(metadata: Message) -> None:
    assert metadata["Version"] == tarry.__version__
    assert "version = " not in (ROOT / "pyproject.toml").read_text().partition("[project]")[2].partition("\n[")[0]


def test_the_sdist_has_what_builds_and_tests_it(dist: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as sdist:
        inside = {name.partition("/")[2] for name in sdist.getnames()}
    assert {
        "hatch_build.py",
        "Makefile",
        ".ci/venv.py",
        ".ci/pip_wheel.py",
        "README.md",
        "tests/conftest.py",
        "bench/__main__.py",
    } <= inside
