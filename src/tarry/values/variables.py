"""The environment variables of tarry. One that it does not know changes nothing, and is named in the log once."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

logger = logging.getLogger("tarry")
VARIABLES = (
    "TARRY_URL",
    "TARRY_EMBEDDED",
    "TARRY_NAMESPACE",
    "TARRY_REDISSON",
    "TARRY_SERVICE_URL",
    "TARRY_TOKEN",
    "TARRY_LOG",
)
"""docs/reference/settings.md says for what."""
_NOT_MEANT = re.compile(r"TARRY_(WORKER_|SERVICE_PARENT$|(\w+_)?SERVICE_HOST$|(\w+_)?(SERVICE_)?PORT(_\w+)?$)")
"""Those that a parent sets for its children, and those that Kubernetes sets in each pod for a service whose name begins with ``tarry``."""
_warned: dict[str, object] = {}


def warn_of_unknown(environment: Mapping[str, str]) -> None:
    """Logs each variable that begins as those of tarry do, and that nothing reads: once in a process."""
    for name in environment:
        if not name.startswith("TARRY_") or name in VARIABLES or _NOT_MEANT.match(name):
            continue
        now = object()
        if _warned.setdefault(name, now) is now:
            from difflib import get_close_matches  # no start imports it

            meant = "".join(f" Did you mean {one}?" for one in get_close_matches(name, VARIABLES, 1, 0.8))
            logger.warning(
                "%s is no variable of tarry, and changes nothing.%s There are %s.", name, meant, ", ".join(VARIABLES)
            )
