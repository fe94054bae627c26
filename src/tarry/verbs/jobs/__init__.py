"""The verbs of a topic and its jobs.

An ``add`` needs few of these modules. Those of other verbs are imported when they are first used as attributes of this package:

    from tarry.verbs import jobs as job_verbs
    job_verbs.settle.FINISH
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarry.verbs.jobs import by_id as by_id
    from tarry.verbs.jobs import by_key as by_key
    from tarry.verbs.jobs import durability as durability
    from tarry.verbs.jobs import ends as ends
    from tarry.verbs.jobs import holders as holders
    from tarry.verbs.jobs import merge as merge
    from tarry.verbs.jobs import pop as pop
    from tarry.verbs.jobs import settings as settings
    from tarry.verbs.jobs import settle as settle
    from tarry.verbs.jobs import steps as steps
    from tarry.verbs.jobs import throughput as throughput
    from tarry.verbs.jobs import views as views
else:  # a type checker refuses unknown names
    _LAZY = frozenset("by_id by_key durability ends holders merge pop settings settle steps throughput views".split())

    def __getattr__(name: str) -> object:
        if name in _LAZY:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
