"""The older tarry that the tests run beside today's: a wheel in ``data``, and how it was made of this repository.

    python tests/upgrade/older.py     makes it again, byte for byte the same

The commit is the oldest whose topics are stored as today's are; what was written before it is told in
docs/decisions/0023-what-is-stored-has-a-rule.md. Left out is what the tests do not run: the command line, the service and its
dashboard, the demo, what lives inside other frameworks.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import zipfile
from base64 import urlsafe_b64encode
from hashlib import sha256
from pathlib import Path

COMMIT = "e02222187eab1e75944ab77dd9a3bdc5c30372db"
VERSION = "0.1.0.dev1"
WHEEL = Path(__file__).parent / "data" / f"tarry-{VERSION}-py3-none-any.whl"
LEFT_OUT = (
    "clients/http/", "django/", "zookeeper.py", "otel.py", "connections/zookeeper.py",
    "programs/cli/", "programs/dashboard/", "programs/demo/", "programs/service/", "programs/testing/", "testing.py",
)  # fmt: skip
EPOCH = (1980, 1, 1, 0, 0, 0)


def files() -> dict[str, bytes]:
    """The files of the package as they were, by their names in the wheel."""
    root = Path(__file__).parents[2]
    packed = subprocess.run(["git", "archive", COMMIT, "src/tarry"], cwd=root, capture_output=True, check=True).stdout
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            name = member.name.removeprefix("src/tarry/")
            content = archive.extractfile(member)
            if content is not None and not name.startswith(LEFT_OUT):
                found[f"tarry/{name}"] = content.read()
    return found


def build(wheel: Path) -> None:
    info = f"tarry-{VERSION}.dist-info"
    inside = files()
    inside[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: tarry\nVersion: {VERSION}\n".encode()
    inside[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: older.py\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = f"{info}/RECORD"
    rows = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in inside.items()]
    inside[record] = "\n".join([*rows, f"{record},,", ""]).encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name, content in inside.items():
            packed.writestr(zipfile.ZipInfo(name, EPOCH), content, zipfile.ZIP_DEFLATED, 9)


def _digest(content: bytes) -> str:
    return urlsafe_b64encode(sha256(content).digest()).decode().rstrip("=")


if __name__ == "__main__":
    sys.exit(build(WHEEL))
