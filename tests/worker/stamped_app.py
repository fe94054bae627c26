"""A worker with a name and a stamp; its functions are in stamped_functions.py."""

from __future__ import annotations

import tarry
from worker import stamped_functions

worker = tarry.Worker("hall")
worker.include(stamped_functions.registry)
worker.stamp(lambda: {"host": "ada"})
