"""`make demo` on a Python without ensurepip and pip, as Debian's without python3-venv: .ci/venv.py fetches pip's wheel itself."""

from __future__ import annotations

import base64
import hashlib
import http.server
import io
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from doc_pages import ROOT

NAME = "pip-{}-py3-none-any.whl"
BARE = """
import sys
sys.modules["ensurepip"] = None  # as if it were not installed
sys.path.insert(0, sys.argv[1])
import importlib.util, pathlib
spec = importlib.util.spec_from_file_location("made", sys.argv[1] + "/venv.py")
made = importlib.util.module_from_spec(spec)
spec.loader.exec_module(made)
made.VENV = pathlib.Path(sys.argv[2])
made.PYTHON = made.VENV / "bin" / "python"
eval(sys.argv[3])
"""
SAY_WHAT_IS_INSTALLED = "setattr(made, 'install', lambda target, add: print(target, add)), made.main('dist')"


def wheel(version: str) -> bytes:
    """pip, as far as the venv can tell: a module that can be called, and installs itself."""
    packed = io.BytesIO()
    main = (
        "import shutil, sys, sysconfig, zipfile\n"
        "if 'install' in sys.argv: zipfile.ZipFile(sys.argv[-1]).extractall(sysconfig.get_path('purelib'))\n"
        f"else: print('pip {version}')\n"
    )
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("pip/__init__.py", "")
        archive.writestr("pip/__main__.py", main)
    return packed.getvalue()


class Index(http.server.ThreadingHTTPServer):
    """A package index on loopback."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.user: str | None = None
        self.url = f"http://127.0.0.1:{self.server_port}/simple"

    def offer(self, version: str, *, content: bytes | None = None, attributes: str = "") -> None:
        """Lists a wheel; ``content`` is what is sent in its place."""
        name, right = NAME.format(version), wheel(version)
        self.files[f"/files/{name}"] = right if content is None else content
        link = f'<a href="../../files/{name}#sha256={hashlib.sha256(right).hexdigest()}" {attributes}>{name}</a>\n'
        self.files["/simple/pip/"] = self.files.get("/simple/pip/", b"") + link.encode()


class Handler(http.server.BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        content = self.server.files.get(self.path)
        user = self.headers.get("Authorization")
        code = 404 if content is None else 200 if user == self.server.user else 401
        self.send_response(code)
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, format: str, *args: object) -> None:
        """Not to the test's output."""


@pytest.fixture
def index() -> Iterator[Index]:
    with Index() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def make(place: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(place.parent), "PIP_CONFIG_FILE": "/dev/null", **settings}
    command = [sys.executable, "-c", BARE, str(ROOT / ".ci"), str(place), "made.make_venv()"]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def version(place: Path) -> str:
    shown = subprocess.run(
        [place / "bin" / "python", "-m", "pip", "--version"], capture_output=True, text=True, check=True
    )
    return shown.stdout.strip()


def test_the_newest_pip_for_this_python_is_fetched_and_installed(index: Index, tmp_path: Path) -> None:
    for number in ("9.0.3", "26.1", "26.2.1"):
        index.offer(number)
    index.offer("99.0", attributes='data-requires-python="&gt;=3.99"')
    index.offer("27.0", attributes='data-yanked="broken"')
    done = make(tmp_path / "venv", PIP_INDEX_URL=index.url)
    assert done.returncode == 0, done.stderr
    assert version(tmp_path / "venv") == "pip 26.2.1"


def test_the_index_of_pips_configuration_is_used_with_its_password(index: Index, tmp_path: Path) -> None:
    index.offer("26.2.1")
    index.user = "Basic " + base64.b64encode(b"ada:s3cret/").decode()
    place = index.url.replace("http://", "http://ada:s3cret%2F@")
    (tmp_path / "pip.conf").write_text(
        f"[global]\nindex-url = http://127.0.0.1:1/simple\nextra_index_url =\n  {place}\n"
    )
    done = make(tmp_path / "venv", PIP_CONFIG_FILE=str(tmp_path / "pip.conf"))
    assert done.returncode == 0, done.stderr
    assert version(tmp_path / "venv") == "pip 26.2.1"


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"another wheel", "not the one it names"), (None, "has no wheel of pip"), (b"", "Unauthorized")],
    ids=["another wheel", "none", "refused"],
)
def test_without_pip_the_apt_line_is_shown_and_nothing_is_left(
    index: Index, tmp_path: Path, content: bytes | None, reason: str
) -> None:
    index.files["/simple/pip/"] = b""
    if content is not None:
        index.offer("26.2.1", content=content)
    index.user = None if content != b"" else "somebody"
    done = make(
        tmp_path / "venv", PIP_INDEX_URL=index.url.replace("http://", "http://ada:s3cret@" if index.user else "http://")
    )
    assert done.returncode == 1
    assert "apt install python3-venv" in done.stderr
    assert reason in done.stderr
    assert "s3cret" not in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "venv").exists()


def test_a_venv_that_is_a_link_is_not_emptied(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "kept").touch()
    (tmp_path / ".venv").symlink_to(there)
    made = subprocess.run(
        [sys.executable, "-c", BARE, ROOT / ".ci", tmp_path / ".venv", "made.make_venv()"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.stderr == f".venv is a link to {there}, which would be emptied for this folder: remove the link.\n"
    assert (made.returncode, (there / "kept").exists()) == (1, True)


def test_a_venv_for_another_python_gets_back_what_make_does_not_ask_for_again(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").touch()
    for name in ("installed", "installed-demo", "installed-docs"):
        (tmp_path / name).write_text("of another Python")
    os.utime(tmp_path / "installed-docs", (0, 0))  # older than pyproject.toml: make asks for it
    told = [sys.executable, "-c", BARE, str(ROOT / ".ci"), str(tmp_path), SAY_WHAT_IS_INSTALLED]
    said = subprocess.run(told, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["dist False", "demo True", "dev True"]
    again = subprocess.run(told, capture_output=True, text=True, check=True).stdout
    assert again == ""
