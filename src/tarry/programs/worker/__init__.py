"""The worker: handlers by topic, called when a job is due.

worker = Worker(AsyncClient())

@worker.on("orders", concurrency=50)
async def close(job): ...                 # returns: finished.  raises: tried again later

asyncio.run(worker.run())                 # until SIGTERM
"""

from tarry.programs.worker.lane import Handler
from tarry.programs.worker.worker import Worker

__all__ = ["Handler", "Worker"]
