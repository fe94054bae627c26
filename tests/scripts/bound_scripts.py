"""The scripts that modules of verbs have, and those that lie in a folder: a test of declarations compares both."""

from __future__ import annotations

import re
from importlib.resources import files
from types import ModuleType

from tarry.core.scripts import Script
from tarry.verbs.jobs.settle import SettleVerb


def scripts_of(*modules: ModuleType) -> dict[str, Script]:
    """Each script of a module by its name, also one that a verb of settling has."""
    values = [value for module in modules for value in vars(module).values()]
    scripts = [value.script if isinstance(value, SettleVerb) else value for value in values]
    return {script.name: script for script in scripts if isinstance(script, Script)}


def names_in(*folders: str) -> list[str]:
    """The names of the files below ``lua``, in order."""
    lua = files("tarry").joinpath("lua")
    return sorted(
        f"{folder}/{file.name.removesuffix('.lua')}" for folder in folders for file in lua.joinpath(folder).iterdir()
    )


def keys_used(script: Script) -> list[tuple[str, str]]:
    """Each command that it calls, and what stands there for the key: ``("HGET", "meta")``."""
    return re.findall(r"redis\.p?call\('([A-Z]+)', ([\w\[\]]+)", script.source.decode())
