"""A failure is named at once; what failed in a run is tried twice more at its end; tests that pass then are listed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import unsteady

HERE = str(Path(__file__).parents[1])
FAILS_ONCE = """
    from pathlib import Path
    import pytest

    @pytest.mark.parametrize("number", range({many}))
    def test_one(number):
        seen = Path(f"seen-{{number}}")
        again = seen.exists()
        seen.touch()
        print("again" if again else "at first")
        assert again
"""
Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, run_pytest: Run, python_command: Path) -> Run:
    monkeypatch.setenv("PYTHONPATH", HERE)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]\naddopts = -p plugin_again -p alone_warm\n")
    pytester.makepyfile(alone_warm=f"import plugin_again\nplugin_again.PYTHON = {str(python_command)!r}\n")

    def with_page(page: str, *words: str, ci: bool) -> pytest.RunResult:
        monkeypatch.setenv("CI", str(ci).lower())
        pytester.makepyfile(page)
        return run_pytest(*words)

    return with_page


@pytest.mark.parametrize(
    ("ci", "words"), [(True, ("-p", "plugin_processes", "-n", "1")), (False, ())], ids=["ci", "here"]
)
def test_what_passes_twice_alone_is_unsteady(run: Run, ci: bool, words: tuple[str, ...]) -> None:
    ran = run(FAILS_ONCE.format(many=1), *words, "--again", ci=ci)
    assert ran.ret == (0 if ci else 1)
    ran.stdout.fnmatch_lines(
        [
            "FAILED test_*.py::test_one[[]0]",
            "unsteady: *::test_one[[]0] failed in the run, and passed twice alone",
            "--- in the run*",
            "*at first",
            "--- alone:*",
            "again",
            "--- alone again:*",
            "again",
            "add to tests/unsteady.txt*",
            "test_*::test_one[[]0] | * | open",
        ]
    )


@pytest.mark.slow
def test_more_than_three_fail_the_run_in_ci_too(run: Run) -> None:
    ran = run(FAILS_ONCE.format(many=4), "--again", ci=True)
    assert ran.ret == 1
    ran.stdout.fnmatch_lines(["more than 3 are unsteady: the run failed"])


def test_what_fails_again_is_broken(run: Run) -> None:
    ran = run(FAILS_ONCE.format(many=1) + "    def test_three(): 1 / 0", "--again", ci=True)
    assert ran.ret == 1
    ran.stdout.fnmatch_lines(["broken: *::test_three failed alone, too"])


def test_nothing_is_tried_again_unless_asked(run: Run) -> None:
    ran = run(FAILS_ONCE.format(many=1), ci=True)
    assert ran.ret == 1
    ran.stdout.no_fnmatch_line("*again, alone*")


def test_a_fault_beside_the_tests_is_not_forgiven(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_broken="import nothing_of_that_name")
    assert run(FAILS_ONCE.format(many=1), "--again", "--continue-on-collection-errors", ci=True).ret == 1


# ── the list ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("tests", "src"):
        (tmp_path / folder).mkdir()
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / unsteady.LIST).touch()
    unsteady.git("init", "--quiet", root=tmp_path)
    commit(tmp_path)
    return tmp_path


def commit(root: Path, *lines: str) -> str:
    """Write the list, and whatever else changed, into a commit."""
    (root / unsteady.LIST).write_text("# the list\n" + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    unsteady.git("add", ".", root=root)
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.com")
    words = ["git", *who, "commit", "--quiet", "--allow-empty", "--no-verify", "--message", "tests: change it"]
    subprocess.run(words, cwd=root, check=True)
    return unsteady.git("rev-parse", "--short=12", "HEAD", root=root)


def test_a_test_with_three_commits_is_a_fault(root: Path) -> None:
    commits = [commit(root) for _ in range(3)]
    lines = [f"tests/a.py::test_a[x | y] | {one} | open" for one in commits]
    commit(root, *lines[:2])
    assert list(unsteady.faults(root)) == []
    commit(root, *lines)
    assert list(unsteady.faults(root)) == ["tests/a.py::test_a[x | y] was unsteady at 3 commits: fix it now"]


@pytest.mark.parametrize("known", [True, False])
def test_a_line_without_a_finding_is_a_fault_after_twenty_commits(root: Path, known: bool) -> None:
    line = f"tests/a.py::test_a | {commit(root) if known else 'abc'} | "
    for _ in range(20 if known else 21):
        commit(root, line + "open")
    assert list(unsteady.faults(root)) == []
    commit(root, line + "open")
    assert len(list(unsteady.faults(root))) == 1
    commit(root, line + "test: it does not wait for the answer")
    assert list(unsteady.faults(root)) == []


def test_a_line_goes_with_the_commit_that_fixes_it(root: Path) -> None:
    line = f"tests/a.py::test_a | {commit(root)} | open"
    commit(root, line)
    (root / "src" / "a.py").write_text("fixed = True\n")
    commit(root)
    assert list(unsteady.faults(root)) == []
    commit(root, line)
    bare = commit(root)
    assert list(unsteady.faults(root)) == [f"{bare[:7]} takes tests/a.py::test_a out and fixes nothing"]


def test_a_mark_that_repeats_a_test_is_a_fault(root: Path) -> None:
    (root / "tests" / "test_a.py").write_text(f"@pytest.mark.{'flaky'}(reruns=2)\n")
    assert [fault.partition(":")[0] for fault in unsteady.faults(root)] == ["tests/test_a.py"]


def test_the_list_of_this_repository_can_be_read() -> None:
    assert all(line.test and line.commit for line in unsteady.read((unsteady.ROOT / unsteady.LIST).read_text()))
