"""The older tarry that the tests run beside today's: a commit of this repository, unpacked once into ``build``.

Until there is a tag, ``COMMIT`` has the first release's tree of src. A change of stored data before it moves ``COMMIT``, and has no branch
for what was stored before (docs/decisions/0023-what-is-stored-has-a-rule.md). After each release it is the tag.
"""

from __future__ import annotations

import io
import subprocess
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

COMMIT = "f023ca74ece5528c6bb4c48100d50cd030a7e4a3"
ROOT = Path(__file__).parents[2]


class NoHistory(Exception):
    """The clone lacks the commit. Says in one line how to get it."""


def unpacked(commit: str = COMMIT) -> Path:
    """The folder that has the package of that commit. Raises ``NoHistory``."""
    place = ROOT / "build" / f"older-{commit[:12]}"
    if place.exists():
        return place / "src"
    # in a container the clone is somebody else's
    git = ["git", "-c", f"safe.directory={ROOT}", "archive", "--format=zip", commit, "src"]
    packed = subprocess.run(git, cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        raise NoHistory(f"needs the history of the repository with commit {commit[:12]} (git fetch --unshallow)")
    place.parent.mkdir(exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="older-", dir=place.parent))
    with zipfile.ZipFile(io.BytesIO(packed.stdout)) as archive:
        archive.extractall(made)
    with suppress(OSError):  # another process of this run was first
        made.rename(place)
    return place / "src"
