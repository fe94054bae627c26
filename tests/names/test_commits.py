"""tools/commits.py finds planted commits that are against the rules, and passes good ones."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tools import commits
from walked import cases

ROOT = Path(__file__).parents[2]


@cases(
    "subject",
    [
        "worker: renew leases from one thread",
        "connections: ask the Sentinels at every connection",
        "service: answer 401 with WWW-Authenticate",
        "tests, cli: refuse a codec that tarry does not speak",
        "how-to: split the page of tokens",
        "worker: pass, do not raise, on a lost lease",
        "clients: re-read the topology after MOVED",
        "docs: embed the picture of a job's life",
        f"docs: {'y' * (72 - 6)}",
    ],
)
def test_an_imperative_passes(subject: str) -> None:
    assert commits.fault_of(subject) is None


@cases(
    ("subject", "told"),
    [
        ("Renew leases from one thread", "area"),
        ("worker renews leases", "area"),
        ("Worker: renew leases from one thread", "area"),
        ("worker:renew leases", "area"),
        ("fixup! worker: renew leases", "area"),
        (f"docs: {'y' * (73 - 6)}", "73 characters, 72 at most"),
        ("worker: renew leases from one thread.", "full stop"),
        ("worker: Renew leases from one thread", "small letters"),
        ("worker: --topics takes a list", "verb"),
        ("worker: README's examples run", "verb"),
        ("worker: 401 is answered", "verb"),
        ("worker: ", "verb"),
        ("worker: the leases are renewed", "`the`"),
        ("worker: one thread renews leases", "`one`"),
        ("worker: without a lease no job runs", "`without`"),
        ("worker: leases are renewed by one thread", "`leases`"),
        ("worker: renews leases from one thread", "`renews`"),
        ("worker: renewed leases", "`renewed`"),
        ("worker: renewing leases", "`renewing`"),
    ],
)
def test_another_subject_is_refused_with_the_reason(subject: str, told: str) -> None:
    assert told in (commits.fault_of(subject) or "passed")


def git(*words: str, root: Path) -> str:
    names = ("-c", "user.name=tarry", "-c", "user.email=tarry@example.com", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *names, *words], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def history(root: Path, *said: str) -> list[str]:
    """A repository whose commits have these subjects; the rule holds after the first."""
    git("init", "-q", "-b", "main", root=root)
    made = []
    for subject in said:
        git("commit", "-q", "--allow-empty", "-m", subject, root=root)
        made.append(git("rev-parse", "HEAD", root=root))
    (root / "pyproject.toml").write_text(f'[tool.tarry]\ncommits-after = "{made[0]}"\n', encoding="utf-8")
    return made


def test_only_the_commits_after_the_named_one_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, wrong = history(tmp_path, "Before the rule.", "worker: renew leases", "worker: the leases are renewed")
    assert commits.main(tmp_path) == 1
    [line] = capsys.readouterr().out.splitlines()
    assert wrong.startswith(line.partition(" ")[0])


def test_good_subjects_print_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history(tmp_path, "Before the rule.", "worker: renew leases")
    assert (commits.main(tmp_path), capsys.readouterr().out) == (0, "")


def test_a_clone_without_the_history_says_so_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (whole := tmp_path / "whole").mkdir()
    first, *_ = history(whole, "Before the rule.", "worker: the leases are renewed", "worker: renew leases")
    shallow = tmp_path / "shallow"
    git("clone", "-q", "--depth=1", whole.as_uri(), str(shallow), root=tmp_path)
    (shallow / "pyproject.toml").write_bytes((whole / "pyproject.toml").read_bytes())
    assert commits.main(shallow) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert "not read" in line
    assert first[:12] in line


def test_a_tree_without_git_says_so_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    assert commits.main(tmp_path) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


ADDED = "tarry.Topic.added() -> int"


def write(root: Path, *, interface: str = "", changes: str = "") -> None:
    """One more line of each."""
    for file, line in ((commits.INTERFACE, interface), (commits.CHANGES, changes)):
        path = root / file
        path.parent.mkdir(exist_ok=True)
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        path.write_text(before + f"{line}\n" * bool(line), encoding="utf-8")


def commit(root: Path, message: str = "clients: count what was added") -> None:
    git("add", "-A", root=root)
    git("commit", "-q", "-m", message, root=root)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with an interface and a changelog, after the commit from which commits are read."""
    history(tmp_path, "Before the rule.")
    write(tmp_path, interface="tarry.Topic", changes="- Topics.")
    commit(tmp_path)
    return tmp_path


def test_an_interface_that_changes_with_the_changelog_passes(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(repository, interface=ADDED, changes="- `topic.added()`.")
    assert (commits.main(repository), capsys.readouterr().out) == (0, "")
    commit(repository)
    assert (commits.main(repository), capsys.readouterr().out) == (0, "")


def test_an_interface_that_changes_alone_is_refused_with_the_line(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(repository, interface=ADDED)
    assert commits.main(repository) == 1
    assert f"working tree changes docs/interface.txt (`+{ADDED}`)" in capsys.readouterr().out
    commit(repository)
    assert commits.main(repository) == 1
    assert f"changes docs/interface.txt (`+{ADDED}`)" in capsys.readouterr().out


def test_a_later_or_an_earlier_line_of_the_changelog_does_not_count(repository: Path) -> None:
    write(repository, changes="- Of something else.")
    commit(repository)
    write(repository, interface=ADDED)
    commit(repository)
    write(repository, changes="- Of something else, too.")
    commit(repository)
    assert commits.main(repository) == 1


@pytest.mark.parametrize("lines", ["", "- Topics.\n\n\n"])
def test_lines_that_are_taken_out_or_blank_do_not_count(repository: Path, lines: str) -> None:
    write(repository, interface=ADDED)
    (repository / commits.CHANGES).write_text(lines, encoding="utf-8")
    assert commits.main(repository) == 1


def test_a_line_that_is_taken_out_of_the_interface_counts(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / commits.INTERFACE).write_text("", encoding="utf-8")
    commit(repository)
    assert commits.main(repository) == 1
    assert "(`-tarry.Topic`)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("body", "refused"), [("Interface: the generator sorts by name.", 0), ("Interface:", 1), ("", 1)]
)
def test_a_message_can_say_that_users_see_nothing(repository: Path, body: str, refused: int) -> None:
    write(repository, interface=ADDED)
    commit(repository, f"docs: sort the interface\n\n{body}")
    assert commits.main(repository) == refused


def test_ci_clones_the_whole_history() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]
    depths = {
        name: [step["with"]["fetch-depth"] for step in job["steps"] if "checkout" in step.get("uses", "")]
        for name, job in jobs.items()
        if any(re.search(r"make (test|check)\b", step.get("run", "")) for step in job["steps"])
    }
    assert depths
    assert all(found == [0] for found in depths.values())
