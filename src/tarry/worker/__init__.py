"""The worker: it calls your functions when jobs are due.

worker = tarry.Worker("shop")

@worker.on("orders", concurrency=50)
async def close(order: Order): ...        # returns: finished.  raises: tried again later

asyncio.run(worker.run())                 # until SIGTERM;  or: tarry worker app:worker
"""

from tarry.worker.registry import Registry
from tarry.worker.worker import Worker

__all__ = ["Registry", "Worker"]
