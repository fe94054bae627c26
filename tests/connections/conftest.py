"""Both kinds of client, for the tests of what they connect to."""

from faults.conftest import clock, kind, make_client

__all__ = ["clock", "kind", "make_client"]
