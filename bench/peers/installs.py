"""The environments of the peers below build/peers: made once, kept between runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from bench.peers.catalogue import ENVIRONMENTS, Peer
from bench.peers.processes import PeerFailed

WITHIN_S = 600
MARK = "installed.json"


def install(peer: Peer) -> dict[str, str]:
    """Makes the peer's environment, if it is not there, and answers the versions of all that is in it."""
    if peer.server == "beanstalkd" and shutil.which("beanstalkd") is None:
        _call("apt-get", "install", "--yes", "--quiet", "beanstalkd")
        if shutil.which("beanstalkd") is None:
            raise PeerFailed("not installed: apt-get install beanstalkd")
    if not peer.packages:
        return {}
    if peer.node and (shutil.which("node") is None or shutil.which("npm") is None):
        raise PeerFailed("not installed: needs node and npm")
    folder = ENVIRONMENTS / peer.name
    mark = folder / MARK
    if mark.exists():
        found = json.loads(mark.read_text("utf-8"))
        if found["packages"] == list(peer.packages):
            versions: dict[str, str] = found["versions"]
            return versions
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    versions = _install_node(folder, peer) if peer.node else _install_python(folder, peer)
    mark.write_text(json.dumps({"packages": peer.packages, "versions": versions}, indent=1), "utf-8")
    return versions


def _install_python(folder: Path, peer: Peer) -> dict[str, str]:
    venv.create(folder)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    _call(*pip, "install", "--quiet", *peer.packages)
    listed = _call(*pip, "list", "--format", "json")
    return {one["name"]: one["version"] for one in json.loads(listed)}


def _install_node(folder: Path, peer: Peer) -> dict[str, str]:
    (folder / "package.json").write_text('{"private": true}\n', "utf-8")
    _call("npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--save-exact", *peer.packages)
    lock = json.loads((folder / "package-lock.json").read_text("utf-8"))
    return {path.rpartition("node_modules/")[2]: one["version"] for path, one in lock["packages"].items() if path}


def _call(*words: str) -> str:
    try:
        found = subprocess.run(words, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerFailed(f"not installed: {words[0]}: {type(error).__name__}") from None
    if found.returncode and words[0] != "apt-get":
        lines = [line for line in found.stderr.splitlines() if line.strip()]
        raise PeerFailed(f"not installed: {lines[-1][:200] if lines else words[0]}")
    return found.stdout
