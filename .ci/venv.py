"""Make `.venv` with tarry and what a target of the Makefile needs: `python3 .ci/venv.py [demo|serve|docs|dist|dev]`.

Each target installs tarry with the extras that it uses, `docs` and `dist` also their group of dependencies; `dev` has everything
but what checks the packages: a seventh of all, which `make test` does not need. A later target adds to what is there. Nothing is
installed when nothing has changed: a stamp in `.venv` holds a digest of the tables of pyproject.toml that pip reads. So a new lint
rule, a touched file or a second run needs no network.
Runs on the system's own Python, with only the standard library.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - this file is run by whatever Python is there, to say so in words
    sys.exit(
        "tarry needs Python 3.11 or newer; this is %d.%d (%s).\n"
        "Install one, or name it: make PYTHON=/path/to/python3.11" % (*sys.version_info[:2], sys.executable)
    )

import hashlib
import importlib.util
import json
import re
import subprocess
import tempfile
import tomllib
from pathlib import Path

import pip_wheel

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
PIP = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile"]
"""Python compiles what it imports; to compile all that is installed takes ten seconds, and most is never imported."""
EXTRAS = {
    "demo": "cli,embedded",
    "serve": "cli,embedded,http",
    "docs": "cli,http,zookeeper,otel,celery",
    "dist": "",
    "dev": "cli,embedded,uvloop,http,zookeeper,otel,celery",
}
GROUPS = ("docs", "dist", "dev")
"""Targets with a dependency group of the same name."""
NO_PIP = """This Python has no pip of its own (ensurepip), and none could be fetched:
%s
On Debian and Ubuntu, install it with

    apt install python3-venv
"""


def stamp(target: str) -> Path:
    """Tells that the target has all that it needs."""
    return VENV / ("installed" if target == "dev" else f"installed-{target}")


def wanted(target: str) -> str:
    """A digest of everything that decides what the target has in the venv, its place and its Python included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    tables = {name: project.get(name) for name in ("build-system", "project", "dependency-groups")}
    tables["tool.hatch"] = project.get("tool", {}).get("hatch")
    deciding = json.dumps([tables, EXTRAS[target], str(ROOT), sys.version], sort_keys=True)
    return hashlib.sha256(deciding.encode()).hexdigest()


def main(target: str) -> None:
    """Make the venv what it should be, or find that it is."""
    have = [one for one in EXTRAS if PYTHON.exists() and stamp(one).exists() and stamp(one).read_text() == wanted(one)]
    if target not in have and (target == "dist" or "dev" not in have):
        # A venv that is made anew, for another Python, loses what make does not ask for again.
        lost = [] if have else [one for one in EXTRAS if one != target and is_up_to_date(one)]
        install(target, add=bool(have))
        for one in lost:
            install(one, add=True)
            stamp(one).write_text(wanted(one), encoding="utf-8")
    stamp(target).write_text(wanted(target), encoding="utf-8")


def is_up_to_date(target: str) -> bool:
    """Whether make takes its stamp for new enough."""
    needs = (ROOT / "pyproject.toml", Path(__file__))
    return stamp(target).exists() and stamp(target).stat().st_mtime >= max(file.stat().st_mtime for file in needs)


def install(target: str, add: bool) -> None:
    """Into the venv that is there if ``add``, else into a new one."""
    try:
        if not add:
            make_venv()
        tarry = f".[{EXTRAS[target]}]" if EXTRAS[target] else "."
        group = ["--group", target] if target in GROUPS else []
        print("installing into .venv:", tarry, *group, flush=True)
        if group and not knows_groups():
            subprocess.run([*PIP, "--upgrade", "pip>=25.1"], check=True)
        subprocess.run([*PIP, "--prefer-binary", "-e", tarry, *group], check=True, cwd=ROOT)
    except subprocess.CalledProcessError as failed:
        sys.exit(f"could not make .venv: {' '.join(map(str, failed.cmd))} ended with {failed.returncode}")


def knows_groups() -> bool:
    """Whether the venv's pip is 25.1 or newer."""
    found = [re.match(r"pip-(\d+)\.(\d+)", one.name) for one in VENV.glob("lib/python*/site-packages/pip-*.dist-info")]
    return any(one and (int(one[1]), int(one[2])) >= (25, 1) for one in found)


def make_venv() -> None:
    """An empty venv with the newest pip, from its wheel: Python's own takes twice as long, and Debian's has none without
    python3-venv."""
    if VENV.is_symlink():
        sys.exit(f".venv is a link to {VENV.resolve()}, which would be emptied for this folder: remove the link.")
    make = [sys.executable, "-m", "venv", *(["--clear"] if VENV.exists() else []), str(VENV)]
    with tempfile.TemporaryDirectory() as folder:
        try:
            wheel = pip_wheel.fetch(folder)
        except pip_wheel.NotFetched as fault:
            if importlib.util.find_spec("ensurepip") is None:
                sys.exit(NO_PIP % fault)
            subprocess.run(make, check=True)
            return
        subprocess.run([*make, "--without-pip"], check=True)
        itself = [str(PYTHON), f"{wheel}/pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile"]
        subprocess.run([*itself, "--no-index", "--no-deps", str(wheel)], check=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "dev")
