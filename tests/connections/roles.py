"""The lines of docs/how-to/secure-the-server.md: the page has what `tarry doctor --acl` prints.

python tests/connections/roles.py     writes them again
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tarry.verbs import acl

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "secure-the-server.md"
SHOP = "shop"
"""The page's namespace."""


def rules(
    role: acl.Role, namespace: str = SHOP, objects: str = "", version: tuple[int, ...] = (), also: Sequence[str] = ()
) -> list[str]:
    """What is said of a role, word by word, behind the user's name."""
    return acl.line(role, namespace, objects, version, also).split()[1:]


def written(page: str) -> str:
    """The page with the lines as they are now."""
    for role in acl.ROLES:
        page = re.sub(rf"(?m)^user {role}( .*)?$", lambda _, role=role: f"user {acl.line(role, SHOP)}", page)  # type: ignore[misc]
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
