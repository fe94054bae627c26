"""A Python, and a `tarry` on the PATH, that can import only the core and the packages of some extras, as if nothing else were installed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TARRY = """#!{python}
import sys
sys.modules.update(dict.fromkeys({missing!r}))
from tarry.programs.cli import main
main()
"""


def installed_with(names: Iterable[str], extras: tuple[str, ...] = ("",)) -> Iterator[str]:
    """The packages, and those that they bring, as their metadata say."""
    for one in names:
        wanted = Requirement(one)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in extras):
            yield canonicalize_name(wanted.name)
            yield from installed_with(requires(wanted.name) or [], ("", *wanted.extras))


_packages_of_modules = cache(packages_distributions)
"""It reads the metadata of all that is installed: most of a second."""


@cache
def all_but(*extras: str) -> list[str]:
    """The modules that are not there if only the core and these extras are."""
    installed = set(installed_with([f"tarry[{','.join(extras)}]" if extras else "tarry"]))
    return [
        module
        for module, packages in _packages_of_modules().items()
        if not {canonicalize_name(name) for name in packages} & installed
    ]


def command(folder: Path, *extras: str) -> Path:
    """``tarry``, in this folder."""
    folder.mkdir()
    made = folder / "tarry"
    made.write_text(TARRY.format(python=sys.executable, missing=all_but(*extras)), encoding="utf-8")
    made.chmod(0o755)
    return made
