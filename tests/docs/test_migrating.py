"""docs/migrate: the program before, run with the real library, does what the page shows of the program after.

What stands after runs with every other page (test_blocks.py). Each peer has a venv of its own in ``build/peers``, made once.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import venv
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import pytest

import servers
import tarry
from doc_pages import ROOT, Block, blocks, name
from tarry.connections.embedded.shared_server import join_server
from until import LONGEST_S
from warm import WarmTarry

PAGES = sorted((ROOT / "docs" / "migrate").glob("from-*.md"))
PEERS = {
    "from-celery.md": ["celery[redis]==5.7.0"],
    "from-rq.md": ["rq==3.0.0", "rq-scheduler==0.14.0"],
    "from-arq.md": ["arq==0.28.0"],
    "from-dramatiq.md": ["dramatiq[redis]==2.2.1"],
    "from-huey.md": ["huey[redis]==3.5.4"],
    "from-bullmq.md": ["bullmq@6.7.0", "ioredis@5"],
    "from-beanstalkd.md": ["greenstalk==2.1.1"],
    "from-sqs.md": ["boto3==1.44.5", "moto[sqs]==5.2.5", "flask==3.1.3", "flask-cors==6.0.5"],
    "from-a-sorted-set.md": ["redis==8.1.0"],
}
NEEDED = {"beanstalkd": "beanstalkd", "node": "npm"}
"""Commands, and Debian's packages that bring them."""
REDIS = "redis://localhost:6379"
"""As it stands on the pages."""
PORTS = ["11300", "5000"]
"""Of beanstalkd and SQS, as they stand on the pages."""
DIALECTS = {
    "from-beanstalkd.md": ("beanstalkd -l 127.0.0.1 -p 11300", "tarry serve --port 0 --beanstalk 127.0.0.1:11300"),
    "from-sqs.md": ("moto_server -p 5000", "tarry serve --port 5000 --dialect sqs"),
}
"""The server that the program before starts, and tarry in its place."""
PARTS = ["What maps to what", "Before", "After", "What is not there", "Move over without losing a job"]


def part(page: Path, title: str) -> list[Block]:
    """The blocks below a heading."""
    lines = page.read_text(encoding="utf-8").splitlines()
    start = lines.index(f"## {title}")
    end = next((at for at, line in enumerate(lines) if at > start and line.startswith("## ")), len(lines))
    return [block for block in blocks(page) if start < block.line <= end]


def shown(page: Path) -> list[str]:
    """The lines that the program after leaves, as the page shows them."""
    [block] = [block for block in part(page, "After") if block.text.startswith("$ sort -u done.txt\n")]
    return block.text.splitlines()[1:]


def peer(page: Path) -> Path:
    """A venv, or a folder of npm's, with the page's peer; made when it is missing or its versions have changed."""
    wanted = PEERS[page.name]
    digest = hashlib.sha256(repr((wanted, sys.version)).encode()).hexdigest()[:8]
    place = ROOT / "build" / "peers" / f"{page.stem}-{digest}"
    if not (place / "complete").exists():
        install = ["npm", "install", "--no-fund", "--no-audit", "--prefix", str(place)]
        if "@" not in wanted[0]:
            venv.create(place, clear=True, with_pip=True, symlinks=True)
            install = [str(place / "bin" / "python"), *"-m pip install -q --disable-pip-version-check".split()]
        done = subprocess.run([*install, *wanted], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"needs {' '.join(wanted)} ({Path(install[0]).name} install): {done.stderr[-200:].strip()}")
        (place / "complete").touch()
    return place


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_guide_has_the_same_parts(page: Path) -> None:
    headings = re.findall(r"^## (.*)$", page.read_text(encoding="utf-8"), re.M)
    assert [heading for heading in headings if heading in PARTS] == PARTS
    assert part(page, "Before"), "the program that people have"
    assert any(block.not_run is None for block in part(page, "After"))


def before(page: Path) -> str:
    """The program before, as one script."""
    return "".join(
        block.script
        for block in part(page, "Before")
        if (block.file or block.language == "sh") and block.not_run != "needs the network"
    )


def run(script: str, folder: Path, commands: Sequence[Path], page: Path, **variables: str) -> None:
    """Runs a program before at ports of its own; it leaves the lines that the page shows."""
    script = servers.to_free_ports(PORTS)(script)
    env = {**os.environ, "PATH": os.pathsep.join([*map(str, commands), os.environ["PATH"]]), "PYTHONUNBUFFERED": "1"}
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(
            ["sh", "-e", "-c", script],
            cwd=folder,
            env={**env, **variables},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            code = running.wait(LONGEST_S)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            try:
                os.killpg(running.pid, signal.SIGKILL)  # workers that the script left behind
            except ProcessLookupError:
                pass
            running.wait()
    said = "\n".join(f"== {one.name}\n{one.read_text()[-3000:]}" for one in folder.glob("*log"))
    assert code == 0, said
    assert sorted(set((folder / "done.txt").read_text().splitlines())) == shown(page), said


@pytest.mark.long
@pytest.mark.otherserver
@pytest.mark.parametrize("page", [page for page in PAGES if page.name in PEERS], ids=name)
def test_the_program_before_does_what_the_one_after_does(page: Path, tmp_path: Path) -> None:
    script = before(page)
    for command, package in NEEDED.items():
        if f"{command} " in script and shutil.which(command) is None:
            pytest.skip(f"needs {package} (apt install {package})")
    place = peer(page)
    (tmp_path / "node_modules").symlink_to(place / "node_modules")
    [redis_port] = servers.free_ports(1)
    with servers.short_folder() as folder, servers.server(servers.redis7_binary(folder), port=redis_port):
        run(script.replace(REDIS, f"redis://127.0.0.1:{redis_port}"), tmp_path, [place / "bin"], page)


@pytest.mark.slow
@pytest.mark.parametrize("page", DIALECTS)
def test_the_program_before_runs_unchanged_on_a_dialect(page: str, tmp_path: Path, tarry_command: WarmTarry) -> None:
    guide = ROOT / "docs" / "migrate" / page
    their_server, ours = DIALECTS[page]
    script = before(guide)
    assert script.count(their_server) == 1
    with join_server(tmp_path / "server", linger_s=0):
        url = f"embedded://{tmp_path}/server"
        commands = [tarry_command.command.parent, Path(sys.executable).parent]
        run(script.replace(their_server, ours), tmp_path, commands, guide, TARRY_URL=url)


@pytest.mark.slow
@pytest.mark.otherserver
def test_what_waits_in_a_sorted_set_moves_into_a_topic_once(python_command: Path) -> None:
    [block] = part(ROOT / "docs/migrate/from-a-sorted-set.md", "Move over without losing a job")
    [port] = servers.free_ports(1)
    url = f"redis://127.0.0.1:{port}"
    due = datetime(2100, 1, 1, tzinfo=timezone.utc)
    with servers.short_folder() as folder, servers.server(servers.redis7_binary(folder), port=port) as old:
        command = [python_command, "-c", block.text.replace(REDIS, url)]
        for orders in (["7", "8"], ["8", "9"]):  # 8 was added when the first run was interrupted, and not yet removed
            for order in orders:
                old.ask("ZADD", "orders", str(due.timestamp()), f'{{"order": {order}}}')
            subprocess.run(command, env={**os.environ, "TARRY_URL": f"{url}/0"}, check=True)
        assert old.ask("EXISTS", "orders") == 0
        with tarry.Client(f"{url}/0") as client:
            found = [(job.body["order"], job.due) for job in client.topic("orders").list().jobs]
    assert sorted(found) == [(7, due), (8, due), (9, due)]
