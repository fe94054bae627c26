"""Values that every other package uses: keys, names, durations, rates."""

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

PUBLIC = ("tarry", "tarry.types", "tarry.redisson", "tarry.errors")


def find_name(module: str, module_of: Mapping[str, str], name: str) -> object:
    """The value of a name that a public module has lazily; the module keeps it. Raises ``AttributeError``, with the module that has it."""
    if name in module_of:
        value: object = getattr(import_module(f"tarry.{module_of[name]}"), name)
        setattr(sys.modules[module], name, value)
        return value
    if not name.startswith("_"):
        for other in PUBLIC:
            if _has(vars(import_module(other)), other, name):
                raise AttributeError(f"{module}.{name}: it is {other}.{name}", name=name)
    from tarry.values import other_words  # for an error only

    raise other_words.no_attribute(f"module {module!r}", name, other_words.OF_MODULE.get(name))


def _has(known: Mapping[str, Any], module: str, name: str) -> bool:
    return name in known.get("__all__", ()) or getattr(known.get(name), "__module__", "") == module
