"""The warm processes of a run (tests/warm.py), one of each: several processes that run tests share them. None imports anything before
its first call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import servers
import warm


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Several(), "tarry-warm-of-several")


class Several:
    """In the process that starts the others."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        self.folder: Path | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        if self.folder is None:
            self.folder = self.stack.enter_context(started())
        node.workerinput["warm"] = str(self.folder)

    def pytest_unconfigure(self) -> None:
        self.stack.close()


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
    if given := getattr(pytestconfig, "workerinput", {}).get("warm"):
        yield Path(given)
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
