"""The package's own names: fetched lazily, all of them there, the same for people and type checkers."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import tarry
from walked import cases

TYPES = set(
    "LockLostEvent AsyncLockLostEvent GuardedQueue AsyncGuardedQueue Guard AsyncGuard GuardedItem GuardedStats Lateness LimitStatus "
    "DeadGroup Ends AsyncEnds EndState FailedAttempt WorkerInfo WorkerTopic HeldJob BaseJob HasReceipt Codec Rate Duration IfExists State StateFilter JobState WorkerMode".split()
)
REDISSON = set(
    "BlockingQueue AsyncBlockingQueue DelayedQueue AsyncDelayedQueue Subscription AsyncSubscription MapCache AsyncMapCache MapListener "
    "AsyncMapListener MapDict AsyncMapDict MapEvent MapStats AdaptivePolicy QueueStats PoisonElement Opaque".split()
)
ERRORS = {"FallenBehind", "NotKept", "UnknownTopic"}
HOMES: dict[str, ModuleType] = {"tarry": tarry, "tarry.types": tarry.types, "tarry.redisson": tarry.redisson}
MOST_AT_THE_TOP = 60
"""Who reads a list reads no longer one."""


def names_for_type_checkers(home: ModuleType) -> set[str]:
    tree = ast.parse(Path(str(home.__file__)).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {name.asname or name.name for node in block.body if isinstance(node, ast.ImportFrom) for name in node.names}


@pytest.mark.parametrize("home", HOMES.values(), ids=HOMES)
def test_type_checkers_see_the_names_that_people_see(home: ModuleType) -> None:
    more = {"__version__", "errors", "redisson", "types"} if home is tarry else set[str]()
    assert names_for_type_checkers(home) == {*home.__all__, *more}
    assert {name for name in dir(home) if not name.startswith("__")} == {*home.__all__, *more} - {"__version__"}


@cases(("home", "name"), [(home, name) for home in HOMES.values() for name in home.__all__])
def test_every_public_name_can_be_imported(home: ModuleType, name: str) -> None:
    assert getattr(home, name) is not None


def test_a_star_import_brings_the_names_of_the_list_and_no_more() -> None:
    known: dict[str, object] = {}
    exec("from tarry import *", known)
    assert known.keys() - {"__builtins__"} == set(tarry.__all__)


def test_the_top_has_what_one_imports_and_the_rest_is_where_the_list_says() -> None:
    assert len(tarry.__all__) <= MOST_AT_THE_TOP
    assert (set(tarry.types.__all__), set(tarry.redisson.__all__)) == (TYPES, REDISSON)
    homes = [TYPES, REDISSON, ERRORS, set(tarry.__all__)]
    assert sum(map(len, homes)) == len(set().union(*homes)), "a name has one home"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tarry.MapCache", "tarry.redisson.MapCache"),
        ("tarry.Duration", "tarry.types.Duration"),
        ("tarry.FallenBehind", "tarry.errors.FallenBehind"),
        ("tarry.types.MapCache", "tarry.redisson.MapCache"),
        ("tarry.redisson.Client", "tarry.Client"),
    ],
)
def test_a_name_of_another_module_is_answered_with_that_module(old: str, new: str) -> None:
    module, _, name = old.rpartition(".")
    with pytest.raises(AttributeError, match=f"^{re.escape(old)}: it is {re.escape(new)}$"):
        getattr(HOMES[module], name)
    with pytest.raises(ImportError):
        exec(f"from {module} import {name}", {})


def test_an_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tarry.nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["nothing", "Any", "__path__"])
def test_an_unknown_name_of_the_other_modules_does_too(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'tarry.types' has no attribute '{name}'"):
        getattr(tarry.types, name)


def test_importing_the_package_imports_no_other_module_of_it() -> None:
    code = "import sys, tarry; print(*[name for name in sys.modules if name.partition('.')[0] == 'tarry'])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "tarry\n"


def test_the_version_needs_three_modules_of_it() -> None:
    """So ``tarry --version`` and a producer's start import nothing that only an error needs."""
    code = (
        "import sys; from tarry import __version__; print(*[name for name in sys.modules if name.startswith('tarry.')])"
    )
    answer = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert set(answer) == {"tarry.values", "tarry.values.version"}


def test_importing_the_package_imports_no_driver() -> None:
    code = "import sys, tarry; assert 'redis' not in sys.modules and 'asyncio' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
