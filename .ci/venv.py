"""Make `.venv` with tarry and what its development needs: `python3 .ci/venv.py`, called by `make venv`.

Installs only when what is to be installed has changed: the stamp in `.venv` holds a digest of those tables of
pyproject.toml that pip reads. So a new lint rule, a touched file or a second run needs no network.
Runs on the system's own Python, with nothing but the standard library.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - this file is run by whatever Python is there, to say so in words
    sys.exit(
        "tarry needs Python 3.11 or newer; this is %d.%d (%s).\n"
        "Install one, or name it: make PYTHON=/path/to/python3.11" % (*sys.version_info[:2], sys.executable)
    )

import hashlib
import json
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "installed"
EXTRAS = "embedded,uvloop,http,zookeeper,otel"


def wanted() -> str:
    """A digest of everything that decides what is in the venv, its place and its Python included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    tables = {name: project.get(name) for name in ("build-system", "project", "dependency-groups")}
    tables["tool.hatch"] = project.get("tool", {}).get("hatch")
    told = json.dumps([tables, EXTRAS, str(ROOT), sys.version], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


def main() -> None:
    """Make the venv what it should be, or find that it is."""
    digest = wanted()
    if STAMP.exists() and STAMP.read_text(encoding="utf-8") == digest and PYTHON.exists():
        STAMP.touch()
        return
    STAMP.unlink(missing_ok=True)
    fresh = ["--clear"] if VENV.exists() else []
    try:
        subprocess.run([sys.executable, "-m", "venv", *fresh, str(VENV)], check=True)
        pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, "--upgrade", "pip>=25.1"], check=True)  # the first pip that knows --group
        subprocess.run([*pip, "--prefer-binary", "-e", f".[{EXTRAS}]", "--group", "dev"], check=True, cwd=ROOT)
    except subprocess.CalledProcessError as failed:
        sys.exit(f"could not make .venv: {' '.join(map(str, failed.cmd))} ended with {failed.returncode}")
    STAMP.write_text(digest, encoding="utf-8")


if __name__ == "__main__":
    main()
