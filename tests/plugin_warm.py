"""The warm processes of a run (tests/warm.py), one of each: several processes that run tests share them. None imports anything before
its first call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import servers
import warm

_folder = pytest.StashKey[Path]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Several processes share them: the first one starts them."""
    config = session.config
    if config.getoption("numprocesses", 0) and not config.option.collectonly:
        stack = ExitStack()
        config.stash[_folder] = stack.enter_context(started())
        config.add_cleanup(stack.close)


@contextmanager
def started() -> Iterator[Path]:
    """A folder with both."""
    with servers.short_folder() as folder, ExitStack() as stack:
        for start, name in ((warm.warm_tarry, "t"), (warm.warm_python, "p")):
            (folder / name).mkdir()
            stack.enter_context(start(folder / name))
        yield folder


@pytest.fixture(scope="session")
def warm_folder(pytestconfig: pytest.Config) -> Iterator[Path]:
    """That of the whole run, or one of this process, where it runs all tests."""
    if shared := pytestconfig.stash.get(_folder, None):
        yield shared
        return
    with started() as folder:
        yield folder


@pytest.fixture(scope="session")
def tarry_command(warm_folder: Path) -> warm.WarmTarry:
    """The command line in processes that need not import it."""
    return warm.WarmTarry(str(warm_folder / "t" / "warm"), warm_folder / "t" / "tarry")


@pytest.fixture(scope="session")
def python_command(warm_folder: Path) -> Path:
    """A program like ``python``, which need not import pytest and tarry."""
    return warm_folder / "p" / "python"


@pytest.fixture
def run_pytest(pytester: pytest.Pytester, python_command: Path) -> Callable[..., pytest.RunResult]:
    """``pytester.runpytest_subprocess``, warm."""

    def run(*words: str) -> pytest.RunResult:
        return pytester.run(python_command, "-m", "pytest", f"--basetemp={pytester.path / 'basetemp'}", *words)

    return run
