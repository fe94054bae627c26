"""The worker of the compose file and of the manifests; put yours in its place."""

import tarry

worker = tarry.Worker()


@worker.on("orders")
async def close(order: dict) -> None:
    print("closed order", order, flush=True)
