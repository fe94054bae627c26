"""The older tarry that the tests run beside today's: a commit of this repository, unpacked once into ``build``.

Until there is a tag, an issue that changes stored data moves ``COMMIT`` to its own last commit, and has no branch for what was
stored before (docs/decisions/0023-what-is-stored-has-a-rule.md).
"""

from __future__ import annotations

import io
import subprocess
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

COMMIT = "9cdae289852a689af1eb9d96c44f8eb659adeb10"
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
