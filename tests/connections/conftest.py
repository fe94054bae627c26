"""Both kinds of client, for the tests of what they connect to."""

from faults.conftest import clock, kind, ways

__all__ = ["clock", "kind", "ways"]
