"""SECURITY.md names every scope, role and way in that there is."""

from __future__ import annotations

import re

from doc_pages import ROOT
from tarry.programs.service.routes import routes_of
from tarry.verbs.acl import ROLES
from tarry.verbs.tokens import SCOPES
from tarry.wire.endpoint import NO_TOKEN

PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_each_scope_has_a_row() -> None:
    assert tuple(re.findall(r"^\| a token with `(\w+)` \|", PAGE, re.M)) == SCOPES


def test_each_role_is_explained() -> None:
    page = (ROOT / "docs/how-to/secure-the-server.md").read_text(encoding="utf-8")
    assert all(f"**{role}**" in page for role in ROLES)
    assert "docs/how-to/secure-the-server.md" in PAGE


def test_the_routes_without_a_token_are_those_of_the_row() -> None:
    [row] = [line for line in PAGE.splitlines() if line.startswith("| anybody who reaches the port, where tokens are")]
    assert {route.path for route in routes_of() if route.scopes == NO_TOKEN} == set(re.findall(r"`(/[^`]*)`", row))
