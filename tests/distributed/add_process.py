"""Adds a job, and one more for each line of standard input, and prints their ids; or a child of it prints all but the first.

Run by test_failover_clients.py.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys

from faults.any_client import AnyClient

logging.disable()
any_client = AnyClient(sys.argv[1], sys.argv[2], None)
topic = any_client.topic("orders")
print(any_client.call(topic, "add", "tea").id, flush=True)
if "fork" in sys.argv and (child := os.fork()):
    os.waitpid(child, 0)
    sys.exit()
if "fork" in sys.argv and any_client.loop is not None:
    any_client.loop = asyncio.Runner()  # the other one is the parent's
for _ in sys.stdin:
    print(any_client.call(topic, "add", "tea").id, flush=True)
any_client.close()
