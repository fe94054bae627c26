"""Where the older version comes from: a commit of this clone."""

from __future__ import annotations

import subprocess

import pytest

from upgrade.older import COMMIT, ROOT, NoHistory, unpacked


def test_a_clone_without_the_commit_says_so_in_one_line() -> None:
    """``plugin_skips`` makes it a failure in CI."""
    missing = "0" * 40
    with pytest.raises(
        NoHistory, match=r"^needs the history of the repository with commit 0{12} \(git fetch --unshallow\)$"
    ):
        unpacked(missing)
    assert not list((ROOT / "build").glob(f"older-{missing[:12]}"))


def test_the_commit_is_one_of_this_branch() -> None:
    git = ["git", "-c", f"safe.directory={ROOT}"]
    if subprocess.run([*git, "cat-file", "-e", COMMIT], cwd=ROOT, capture_output=True, check=False).returncode:
        pytest.skip(f"needs the history of the repository with commit {COMMIT[:12]} (git fetch --unshallow)")
    subprocess.run([*git, "merge-base", "--is-ancestor", COMMIT, "HEAD"], cwd=ROOT, check=True)
