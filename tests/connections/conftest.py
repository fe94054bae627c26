"""Both kinds of client, for the tests of what they connect to."""

from faults.conftest import kind, make_client

__all__ = ["kind", "make_client"]
